"""Members that take more steps of the optimiser than others, as larger ones do with batches."""

from __future__ import annotations

from pathlib import Path

import torch

from motifair.experiments.plan import make_plan, split_data
from motifair.federation.members import prepare
from motifair.federation.simulation import Simulation

ROUNDS = 10


def test_the_largest_member_is_paid_for_its_graphs(data_dir: Path) -> None:
    """Four steps make an update twice as long as one does, which is not further from the others'.

    The largest of six has 462 of 806 graphs here, and was once paid a twentieth of the budget.
    """
    options = {"scenario": "sizes", "agents": 6, "rounds": ROUNDS, "seed": 270_000}
    plan = make_plan("IMDB-BINARY", {**options, "features": "first"}, data_dir=data_dir)
    members = prepare(plan.config, split_data(plan, 0), seed=plan.config.seed)
    simulation = Simulation(plan.config, members, device=torch.device("cpu"))
    state = simulation.start()
    payoff = torch.zeros(6, dtype=torch.float64)
    for _ in range(ROUNDS):
        state, record = simulation.round(state)
        payoff += record["payoff"]
    largest = max(range(6), key=lambda k: len(members.train[k]))
    assert len(members.train[largest]) > plan.config.batch_size > len(members.train[0])
    worth = state.server.worth / state.server.worth.sum()
    assert worth[largest] > 0.5
    torch.testing.assert_close(payoff / payoff.sum(), worth, rtol=0, atol=0.02)
