"""Runs with a PyG module of the user: everything else is as with a built-in network."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_modules import GCN, Bare, built_in
from safetensors.torch import load_file
from worlds import simulate, small_config, small_split

import motifair
from motifair.errors import MotifairError
from motifair.experiments.plan import make_plan, read_plan
from motifair.experiments.result import Result
from motifair.experiments.run import execute
from motifair.export import load_model, predict
from motifair.export.runs import export_run
from motifair.federation.loop import Stopped
from motifair.graphs.planted import planted

WHERE: dict[str, Any] = {"device": "cpu", "threads": 1}
SMALL: dict[str, Any] = {"agents": 3, "rounds": 3, "model": "own_modules:GCN", "hidden": 8}


def assert_same(ours: Result, theirs: Result) -> None:
    for a, b in zip(ours.splits, theirs.splits, strict=True):
        assert np.array_equal(a.alone, b.alone)
        for column, values in a.history.columns.items():
            assert np.array_equal(values, b.history.columns[column], equal_nan=True), column


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"share": "conv", "batch_size": 7},
        {"profile": "paper", "alignment_of": "gradient", "local_epochs": 2},
        {"method": "fedprox"},
    ],
    ids=["default", "conv", "paper", "fedprox"],
)
def test_a_module_equal_to_the_built_in_network_has_its_rounds(options: dict[str, Any]) -> None:
    config = small_config(dropout=0.0, rounds=2, **options)
    with_module = replace(config, model="own_modules:PlainGIN")
    split = small_split(config)
    simulation, states, history = simulate(config, split)
    other, own_states, own = simulate(with_module, split)
    for column, values in history.columns.items():
        np.testing.assert_allclose(values, own.columns[column], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(history.global_accuracy, own.global_accuracy)
    features = simulation.members[0].features
    layout = built_in(features.width, 2, features.edges, config.hidden, config.layers)
    for row, own_row in zip(states[-1].agents.weights, own_states[-1].agents.weights, strict=True):
        named = layout.to_state_dict(row)
        for name, weight in other.model.layout.to_state_dict(own_row).items():
            torch.testing.assert_close(named[name], weight, rtol=0, atol=1e-8)


def test_a_stopped_run_goes_on_bit_by_bit_with_any_number_of_workers(tmp_path: Path) -> None:
    whole = motifair.run(**SMALL, **WHERE)
    assert whole.config.model == "own_modules:GCN"
    two = make_plan("planted", SMALL, device="cpu", threads=2)
    asked = itertools.count(1)
    with pytest.raises(Stopped):
        # The baselines have three rounds each, and nobody is asked after the last one.
        execute(two, tmp_path / "run", stop=lambda: next(asked) >= 5)
    assert_same(execute(read_plan(tmp_path / "run"), tmp_path / "run"), whole)
    with pytest.raises(MotifairError, match=r"another run \(model=own_modules:GCN\)"):
        motifair.run(agents=3, rounds=3, hidden=8, out=tmp_path / "run", **WHERE)


def test_a_run_says_what_it_trains_and_whether_there_are_prototypes() -> None:
    with_embeddings = make_plan("planted", SMALL)
    assert str(with_embeddings.inputs).endswith("2 classes (0, 1), the model own_modules:GCN.")
    assert with_embeddings.config.prototype_weight == 0.1
    bare = make_plan("planted", {"model": Bare})
    assert "own_modules:Bare (no prototypes, which need embeddings)" in str(bare.inputs)
    assert bare.config.prototype_weight == 0
    fedavg = make_plan("planted", {"model": Bare, "method": "fedavg"})
    assert str(fedavg.inputs).endswith("the model own_modules:Bare.")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": Bare, "prototype_weight": 0.2}, "returns no embeddings"),
        ({"model": Bare, "hidden": 16}, "has no argument hidden; leave it out"),
        ({"model": GCN, "layers": 2}, "has no argument layers"),
        ({"model": GCN, "method": "fedstar"}, "fedstar has a network of its own"),
        ({"model": Bare, "share": "conv", "method": "fedsage"}, "fedsage has a network"),
        ({"model": lambda width: GCN(width, 3)}, r"returned \(2, 3\)"),
    ],
)
def test_what_a_module_does_not_read_is_refused(
    options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(MotifairError, match=words):
        motifair.run(out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_modules_without_convolutions_by_name_cannot_share_them_alone() -> None:
    class Renamed(torch.nn.Module):
        def __init__(self, width: int, outputs: int) -> None:
            super().__init__()
            self.inside = Bare(width, outputs)

        def forward(self, data: Any) -> torch.Tensor:
            return self.inside(data)

    with pytest.raises(MotifairError, match=r"parameters called convs\.\*"):
        make_plan("planted", {"model": Renamed, "share": "conv"})


def test_a_comparison_takes_a_module_and_trains_alone_once() -> None:
    compared = motifair.compare(methods="fedavg,motifair", **SMALL, **WHERE)
    assert {r.config.model for r in compared.results.values()} == {"own_modules:GCN"}
    first, second = (r.splits[0].alone for r in compared.results.values())
    assert np.array_equal(first, second)


def test_a_module_given_in_python_goes_on_in_python_alone(tmp_path: Path) -> None:
    options = {**SMALL, "rounds": 1, "model": lambda width, outputs: GCN(width, outputs, 8)}
    del options["hidden"]
    result = motifair.run(**options, out=tmp_path / "run", **WHERE)
    assert result.config.model.startswith("python:<lambda>-")
    assert len(result.predict(list(_objects()))) == 3  # the same process knows it
    config = tmp_path / "run" / "config.json"
    config.write_text(config.read_text().replace(result.config.model, "python:gone-00000000"))
    with pytest.raises(MotifairError, match=r"call motifair\.run with the same model"):
        read_plan(tmp_path / "run")


def _objects() -> Any:
    import networkx as nx

    for size in (3, 4, 5):
        ring = nx.cycle_graph(size)
        nx.set_node_attributes(ring, 3, "label")
        yield ring


def test_exported_modules_predict_as_in_the_run_and_load_into_the_module(tmp_path: Path) -> None:
    result = motifair.run(**SMALL, out=tmp_path / "run", **WHERE)
    graphs = planted(2, seed=7).graphs
    *agents, server = export_run(tmp_path / "run", tmp_path / "models")
    with pytest.raises(MotifairError, match="is the module own_modules:GCN; give it as module="):
        load_model(server)
    for folder, agent in ((server, "server"), (agents[1], "agent-01")):
        found = predict(load_model(folder, GCN), graphs)
        assert found.equals(result.predict(graphs, agent=agent))
    state = load_file(server / "model.safetensors")
    GCN(5, 2, 8).load_state_dict(state)
    with pytest.raises(MotifairError, match="not those of this network"):
        load_model(server, "own_modules:PlainGIN")
    builtin = motifair.run(method="fedavg", rounds=1, agents=3, out=tmp_path / "gin", **WHERE)
    assert builtin.config.model == ""
    plain = export_run(tmp_path / "gin", tmp_path / "gins")[-1]
    with pytest.raises(MotifairError, match="is none of your own; leave module out"):
        load_model(plain, GCN)


def test_code_that_changed_since_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = motifair.run(**{**SMALL, "rounds": 1}, out=tmp_path / "run", **WHERE)
    original = GCN.__init__
    monkeypatch.setattr(
        GCN, "__init__", lambda self, width, outputs: original(self, width, outputs, 16)
    )
    with pytest.raises(MotifairError, match="its code has changed"):
        result.predict(list(_objects()))
