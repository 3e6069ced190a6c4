"""A fairness that means little is never shown without the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import motifair
from motifair.config import make_config
from motifair.experiments.comparison import Comparison
from motifair.experiments.result import Result
from motifair.experiments.split_result import SplitResult
from motifair.experiments.tables import comparison_table, metrics_table
from motifair.federation.history import History

NAMES = tuple(f"agent-{k}" for k in range(6))
ALONE = np.array([0.5, 0.55, 0.6, 0.65, 0.7, 0.75])


def made(splits: int = 4, **changed: Any) -> Result:
    """A result whose fairness is below its bound, on enough test graphs, with real predictions."""
    rng = np.random.default_rng(0)
    found = []
    for k in range(splits):
        history = History(NAMES, 1)
        history.columns["accuracy"][0] = ALONE + rng.normal(0, 0.06, len(NAMES))
        history.columns["one_class"][0] = changed.get("one_class", 0.0)
        split = SplitResult(
            seed=k,
            names=NAMES,
            roles=(),
            graphs=(90,) * 6,
            test_graphs=(10,) * 6,
            alone=ALONE,
            alone_again=ALONE + rng.normal(0, 0.01, len(NAMES)),
            alone_one_class=np.zeros(6),
            history=history,
        )
        fields = {n: v for n, v in changed.items() if n != "one_class"}
        found.append(replace(split, **fields))
    return Result(make_config({"agents": 6, "splits": splits}), tuple(found))


def test_a_sound_result_has_no_caveat() -> None:
    result = made()
    assert result.mean["fairness"] < result.fairness_bound
    assert result.caveats == ()
    assert "caution" not in repr(result)
    assert result.to_json()["caveats"] == []


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"test_graphs": (2,) * 6}, "tested on 2 graphs or fewer"),
        ({"one_class": 1.0}, "in the federation, 100 % of the agents' models predict one class"),
        ({"alone_one_class": np.ones(6)}, "Trained alone, 100 % of"),
        ({"alone_again": ALONE[::-1]}, "does not agree on who is better"),
    ],
)
def test_each_reason_is_said_where_it_holds(changed: dict[str, Any], sentence: str) -> None:
    result = made(**changed)
    assert any(sentence in caveat for caveat in result.caveats)
    assert sentence in repr(result)
    assert result.to_json()["caveats"] == list(result.caveats)


def test_a_fairness_above_its_bound_is_called_uncertain() -> None:
    result = made(alone_again=np.array([0.5, 0.7, 0.55, 0.65, 0.75, 0.6]))
    above = result.mean["fairness"] > result.fairness_bound
    assert above
    assert any("above its bound" in caveat for caveat in result.caveats)


def test_a_comparison_says_whose_fairness_means_little_and_why() -> None:
    sound, constant = made(), made(one_class=1.0)
    assert Comparison({"fine": sound, "also": sound}, "fine").caveats == {}
    both = Comparison({"fine": sound, "bad": constant}, "fine")
    assert both.caveats == {"bad": constant.caveats}
    assert both.to_json()["caveats"] == {"bad": list(constant.caveats)}
    (_, caution) = metrics_table(both).notes
    assert caution == f"Caution, fairness of bad: {constant.caveats[0]}"
    coarse = made(test_graphs=(2,) * 6)
    every = Comparison({"one": coarse, "two": coarse}, "one")
    assert [n[:24] for n in comparison_table(every).notes[1:]] == ["Caution, fairness of all"]


def test_a_run_with_two_test_graphs_an_agent_says_so() -> None:
    result = motifair.run(rounds=1, agents=10, hidden=8, test_fraction=0.02, threads=1)
    assert max(result.splits[0].test_graphs) < 5
    assert any("too coarse to compare" in caveat for caveat in result.caveats)
    assert "caution:" in repr(result)
