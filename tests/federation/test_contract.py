"""A method that breaks its contract, and training that diverges, stop the run with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from deployed import World, terms_of
from torch import Tensor
from worlds import simulate, small_config, small_split

import motifair
from motifair import methods
from motifair.errors import MotifairError
from motifair.federation.state import load_state
from motifair.methods import Method

BAD = 3  # the round in which the contract is broken
VALUES = "`valuate` must return values that add up to 1."
PAYOFFS = r"`settle` must return payoffs that add up to the budget \(2\) or less."
REWARDS = "Method 'mine' returned rewards that are not finite in round 3; `weigh`, `ratio`, "


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[Any], Any]], str]:
    """Make a method of which one hook returns something else from round 3 on."""

    def make(hook: str, change: Callable[[Any], Any]) -> str:
        def changed(self: Method, *seen: Any) -> Any:
            found = getattr(Method, hook)(self, *seen)
            return change(found) if int(seen[0].rounds) + 1 >= BAD else found

        own = type("Mine", (Method,), {"name": "mine", "summary": "a test", hook: changed})
        monkeypatch.setitem(methods.REGISTRY.given, "mine", own)
        return "mine"

    return make


def nan(found: Tensor) -> Tensor:
    return torch.where(torch.arange(found.shape[-1]) == 1, torch.nan, found)


@pytest.mark.parametrize(
    ("hook", "change", "sentence"),
    [
        ("valuate", lambda v: 7 * v, "Method 'mine' returned values that add up to 7 in round 3; "),
        ("valuate", lambda v: v - 1e-4, "values that add up to 0.9996 in round 3; " + VALUES),
        ("valuate", nan, "values that are not finite in round 3; " + VALUES),
        ("valuate", lambda v: v / 0, "values that are not finite in round 3; " + VALUES),
        (
            "settle",
            lambda s: (133 * s[0], s[1]),
            "payoffs that add up to 266 in round 3; " + PAYOFFS,
        ),
        ("settle", lambda s: (nan(s[0]), s[1]), "payoffs that are not finite in round 3; "),
        ("settle", lambda s: (-s[0] / 0, s[1]), "payoffs that are not finite in round 3; "),
        ("settle", lambda s: (s[0], nan(s[1])), "compensations that are not finite in round 3; "),
        ("weigh", nan, REWARDS),
        ("ratio", nan, REWARDS),
        ("retain", nan, REWARDS),
    ],
)
def test_numbers_that_no_method_may_return_stop_the_run(
    mine: Any, hook: str, change: Callable[[Any], Any], sentence: str
) -> None:
    config = small_config(method=mine(hook, change), rounds=5, budget=2.0)
    with pytest.raises(MotifairError, match=sentence):
        simulate(config, small_split(config))


@pytest.mark.parametrize("hook", ["weigh", "align", "valuate", "ratio", "retain"])
def test_a_wrong_shape_is_told_at_once(mine: Any, hook: str) -> None:
    wanted = r"\(4,\) or \(4, 4\)" if hook == "weigh" else r"\(4,\)"
    for change, what in ((lambda t: t[:3], r"shape \(3,\)"), (lambda t: t.tolist(), "list")):
        config = small_config(method=mine(hook, change), rounds=5)
        message = f"Method 'mine' returned {what} from `{hook}`; .* tensor of shape {wanted}"
        with pytest.raises(MotifairError, match=message):
            simulate(config, small_split(config))


def test_payoffs_of_a_wrong_shape_are_told_at_once(mine: Any) -> None:
    config = small_config(method=mine("settle", lambda s: (s[0].sum(), s[1])), rounds=5)
    with pytest.raises(MotifairError, match=r"returned shape \(\) from `settle`"):
        simulate(config, small_split(config))


def test_fines_and_payoffs_below_the_budget_are_allowed(mine: Any) -> None:
    fined = torch.tensor([3.0, -2.5, 0.0, 0.0])
    config = small_config(method=mine("settle", lambda s: (s[0] * fined, s[1])), rounds=5)
    _, _, history = simulate(config, small_split(config))
    assert history.columns["payoff"][-1].sum() == pytest.approx(0.125)


def test_a_method_whose_values_are_not_finite_is_not_settled_between_machines(
    mine: Any, tmp_path: Path
) -> None:
    world = World(tmp_path / "run", terms_of(method=mine("valuate", nan)))
    with pytest.raises(MotifairError, match="values that are not finite in round 3"):
        world.drive()
    assert [entry.round for entry in world.rounds()] == [1, 2]
    assert world.checkpoint().round == 2


DIVERGING = {"learning_rate": 1e6, "rounds": 5, "agents": 4, "hidden": 16, "threads": 1}


def test_training_that_diverges_stops_the_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    for _ in range(2):  # and again where the run is continued
        with pytest.raises(MotifairError) as stopped:
            motifair.run(out=out, device="cpu", **DIVERGING)  # type: ignore[arg-type]
        assert str(stopped.value) == (
            "The loss of agent-00 is not finite in round 2; lower learning_rate (1e+06)."
        )
        assert not (out / "summary.json").exists()
        (saved,) = (out / "checkpoint").iterdir()
        assert load_state(saved, torch.device("cpu")).round == 1
