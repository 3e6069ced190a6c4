"""The study of what attackers cost the others: before and after are the same but for the bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from motifair.experiments.plan import split_data
from motifair.federation.members import prepare
from motifair.federation.protocol import Uploads
from motifair.studies import influence
from motifair.studies.attacks import AttackContext, Cast
from motifair.studies.influence import CLAIM, HARMS, Influenced, against_others, cost_table
from motifair.studies.study import Settings

OPTIONS = {"hidden": 8, "trial_rounds": 1}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path, 1, 2, ("planted",), device="cpu", threads=1, options=OPTIONS)


def test_the_table_compares_attacks_with_honest_members(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = ("honest", "absent", "length 999, every round", "backdoor")
    monkeypatch.setattr(influence, "CASES", {"one of four": (1, 4)})
    monkeypatch.setattr(influence, "HARMS", [h for h in HARMS if h.attack.name in chosen])
    found = influence.run(settings)
    table = found.tables["cost"]
    assert tuple(table["attack"]) == chosen
    raw = found.raw["splits"]
    assert len(raw) == 2 * len(chosen)
    different = raw.groupby("attack")["others"].nunique()
    assert different["honest"] == 1  # no honest update is that long
    after = raw[raw["rule"] == "after"].set_index("attack")["others"]
    assert after["length 999, every round"] == after["absent"]  # rejected
    assert dict(zip(table["attack"], table["others after, minus absent"], strict=True))[
        "honest"
    ] == pytest.approx(after["honest"] - after["absent"])
    monkeypatch.setattr(influence, "_attacked", lambda *_, **__: pytest.fail("it is stored"))
    again = influence.run(settings)
    assert cost_table(again.raw["splits"]).equals(table)


def test_claims_are_capped_and_long_updates_rejected_only_with_the_bounds(
    settings: Settings,
) -> None:
    plan = settings.plan("planted", seed=3, splits=1, agents=4, partition="iid")
    members = prepare(plan.config, split_data(plan, 0), seed=3)
    (claim,) = [h for h in HARMS if h.attack.name == "claim of 10⁹ graphs, update 0"]
    for limits in (False, True):
        made = Influenced(plan, members, claim, Cast((0,), 1), limits=limits, own=None)
        graphs = made.server.graphs
        assert int(graphs[0]) == (2 * int(graphs[1:].sort().values[1]) if limits else CLAIM)
        state = made.play(made.start()).state
        assert torch.isfinite(state.server.weights).all()
        made.close()


def test_colluding_attackers_send_the_reverse_of_the_others_mean() -> None:
    update = torch.tensor([[1.0, 0], [0, 2], [5, 5], [7, 7]])
    nothing = torch.zeros(4)
    own = torch.tensor([2, 3])
    context = AttackContext(1, 2, own, own, 1, None)
    sent = against_others(Uploads(update, None, nothing, None, nothing), context).update
    assert torch.equal(sent[:2], update[:2])
    assert torch.allclose(sent[2], sent[3])
    assert sent[2].norm().item() == pytest.approx(9.0)
    assert (sent[2] / sent[2].norm()).tolist() == pytest.approx([-0.4472136, -0.8944272])
