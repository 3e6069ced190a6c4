"""The study of pooled training: PyG reads the members' graphs, and scores are compared rightly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from worlds import CPU, small_config, small_split

from motifair.experiments.plan import split_data
from motifair.export.pyg import GINModule
from motifair.federation.loop import run_rounds
from motifair.federation.members import prepare
from motifair.federation.simulation import Simulation
from motifair.graphs.batch import collate
from motifair.studies.pooled import (
    METHODS,
    as_data,
    run,
    summary,
    train_pooled,
    with_passes,
)
from motifair.studies.study import Settings


def test_pyg_reads_the_members_graphs_as_the_built_in_network_does() -> None:
    from torch_geometric.data import Batch

    config = small_config()
    members = prepare(config, small_split(config), seed=1)
    model, shard = members.model, members.train[2]
    row = model.layout.initial(3, torch.float32)
    network = GINModule(members.features, model.task, config.hidden, config.layers)
    network.load_state_dict({**network.state_dict(), **model.layout.to_state_dict(row)})
    batch = Batch.from_data_list(list(as_data(shard, members)))
    with torch.no_grad():
        expected = model.forward(row[None], collate([shard], CPU, torch.float32))[1][0]
        found = network(batch.x, batch.edge_index, batch.batch)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert batch.y.tolist() == shard.graphs.target.tolist()


@pytest.mark.parametrize("local_steps", [0, 1, 2, 100])
def test_the_pooled_network_takes_as_many_steps_as_a_member(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, local_steps: int
) -> None:
    taken = []
    step = torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda o: (taken.append(1), step(o)))
    plan = Settings(tmp_path, device="cpu", threads=1).plan(
        "planted", seed=1, splits=1, method="fedavg", agents=5, partition="iid", batch_size=7,
        local_steps=local_steps,
    )  # fmt: skip
    members = prepare(plan.config, split_data(plan, 0), seed=1)
    train_pooled(members, plan, epochs=2, stop=lambda: False)
    plan = with_passes(plan, members, 2)
    simulation = Simulation(plan.config, members, device=CPU)
    state = run_rounds(simulation, simulation.start(), simulation.histories())
    of_members = state.agents.moments.steps
    a_pass = -(-max(len(shard) for shard in members.train) // 7)
    assert plan.config.rounds == 2 * a_pass / {1: 1, 2: 2}.get(local_steps, a_pass)
    # The last batch of an epoch may be of few graphs.
    assert ((of_members - len(taken)).abs() <= 2).all()


def test_errors_are_shown_as_errors_and_differences_as_gains() -> None:
    raw = pd.DataFrame(
        {
            "dataset": ["a", "a", "b", "b"], "measure": ["accuracy"] * 2 + ["rmse"] * 2,
            "network": "GIN", "fedavg": [0.5, 0.7, -2.0, -4.0], "motifair": [0.6, 0.6, -1.0, -1.0],
            "pooled": [0.6, 0.6, -3.0, -3.0], "rounds": [10, 12, 5, 5],
        }
    )  # fmt: skip
    found = summary(raw).set_index("dataset")
    assert found.loc["a", ["pooled", "fedavg"]].tolist() == pytest.approx([0.6, 0.6])
    assert found.loc["b", ["pooled", "fedavg", "motifair"]].tolist() == [3, 3, 1]
    assert found.loc["b", "motifair_minus_pooled"] == 2
    assert found["rounds"].tolist() == [12, 5]
    assert found.loc["a", "fedavg_minus_pooled_low"] == pytest.approx(-0.1)


def test_a_finished_split_is_read_and_the_result_is_written(tmp_path: Path) -> None:
    settings = Settings(
        tmp_path, splits=1, rounds=1, datasets=("planted",), device="cpu", threads=1
    )
    raw = run(settings).raw["splits"]
    assert np.isfinite(raw[[*METHODS, "pooled"]].to_numpy()).all()
    (path,) = (tmp_path / "runs" / "pooled").iterdir()
    path.write_text(path.read_text().replace("planted", "read again"))
    again = run(settings)
    assert again.raw["splits"]["dataset"].tolist() == ["read again"]
    again.write(tmp_path / "pooled")
    assert "fedavg minus pooled" in (tmp_path / "pooled" / "README.md").read_text()
