"""A bounded server: honest rounds as without bounds, long updates as if shortened by their sender.

The same server is used by simulations and by deployed federations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from deployed import NAMES, Answer, World, opened, sealed, terms_of
from torch import Tensor
from worlds import CPU, simulate, small_config, small_split

from motifair.consortium.wire import Download
from motifair.federation.members import prepare
from motifair.federation.protocol import Uploads
from motifair.federation.round import Round, run_round
from motifair.federation.simulation import Simulation

ATTACKER = 1


def test_honest_rounds_are_bit_identical_with_and_without_bounds() -> None:
    configs = [small_config(bounded=bounded) for bounded in (True, False)]
    runs = [simulate(config, small_split(config)) for config in configs]
    (one, bounded, first), (other, plain, second) = runs
    assert (one.server.bounded, other.server.bounded) == (True, False)
    assert torch.equal(bounded[-1].server.weights, plain[-1].server.weights)
    for column, numbers in first.columns.items():
        np.testing.assert_array_equal(numbers, second.columns[column])


def played(factor: float | Callable[[Tensor], Tensor], present: Tensor | None = None) -> Round:
    """A round in which the attacker multiplies its update, perhaps by a function of all lengths."""
    config = small_config(size="claimed")
    members = prepare(config, small_split(config), seed=5)
    simulation = Simulation(config, members, device=CPU, dtype=torch.float64)

    def send(uploads: Uploads) -> tuple[Uploads, Tensor | None]:
        update = uploads.update.clone()
        update[ATTACKER] *= factor(update.norm(dim=-1)) if callable(factor) else factor
        return replace(uploads, update=update), present

    return run_round(simulation.agents, simulation.server, simulation.start(), send)


def test_any_longer_update_counts_as_twice_the_usual_one_in_everything() -> None:
    def twice(lengths: Tensor) -> Tensor:
        others = lengths[[k for k in range(len(lengths)) if k != ATTACKER]]
        return 2 * others.sort().values[1] / lengths[ATTACKER]  # lower median with a longest one

    wanted = played(twice)
    for factor in (10.0, 1e6, 1e150):
        found = played(factor)
        torch.testing.assert_close(found.state.server.weights, wanted.state.server.weights)
        for name in ("value", "payoff", "kept", "alignment"):
            torch.testing.assert_close(found.record[name], wanted.record[name])


def test_an_absent_agent_does_not_set_what_is_usual() -> None:
    present = torch.tensor([True, False, True, True])
    found, wanted = (played(factor, present) for factor in (1e-9, 1.0))
    assert torch.equal(found.state.server.weights, wanted.state.server.weights)


def nearest(rows: np.ndarray) -> np.ndarray:
    """The row nearest to its nearest other one: Krum for four agents, one of them faulty."""
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=2) + np.diag([np.inf] * len(rows))
    return rows[apart.min(axis=1).argmin()]


@pytest.mark.parametrize(
    ("terms", "centre"),
    [
        ({}, lambda rows: rows.mean(axis=0)),
        ({"aggregator": "median"}, lambda rows: np.median(rows, axis=0)),
        (
            {"aggregator": "trimmed-mean", "trim": 0.25},
            lambda rows: np.sort(rows, axis=0)[1:3].mean(axis=0),
        ),
        ({"aggregator": "krum", "faulty": 1}, nearest),
    ],
    ids=["mean", "median", "trimmed mean", "Krum"],
)
def test_a_deployed_server_moves_by_what_the_terms_make_of_bounded_updates(
    tmp_path: Path, terms: dict[str, Any], centre: Callable[[np.ndarray], np.ndarray]
) -> None:
    def longer(name: str, task: Download, answer: Answer) -> bytes:
        upload = opened(answer())
        if name != NAMES[ATTACKER] or upload.update is None:
            return sealed(upload)
        return sealed(replace(upload, update=-5 * upload.update))

    world = World(tmp_path, terms_of(rounds=1, method="fedavg", **terms), longer)
    assert world.drive()
    sent = np.stack([world.upload(n, 1).update for n in NAMES]).astype(np.float64)
    length = np.linalg.norm(sent, axis=1)
    most = 2 * np.sort(length)[1]
    assert length[ATTACKER] > most
    sent[ATTACKER] *= most / length[ATTACKER]
    start = world.coordinator().model.layout.initial(world.terms.config.seed, torch.float32)
    moved = world.checkpoint().server.weights.numpy() - start.double().numpy()
    np.testing.assert_allclose(moved, centre(sent), atol=1e-7)
