"""Deployed federations on binary tasks and numbers: the simulated ones, from the agreed schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import deployed
import numpy as np
import pytest
import torch
from deployed import NAMES, SEEDS, Secretive, World, content_of
from worlds import CPU

from motifair.consortium.member_data import member_holdout, prepare_member_data
from motifair.consortium.terms import FederationTerms, make_terms
from motifair.errors import MotifairError
from motifair.federation.members import prepare
from motifair.federation.simulation import Simulation
from motifair.files import read_json
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.partition import Partition
from motifair.graphs.schema import Schema
from motifair.graphs.split import Split
from motifair.graphs.task import TargetSums, Task
from motifair.models import GIN
from motifair.statements.statement import make_statement

KINDS = {"binary": "roc-auc", "regression": "rmse"}
PLAIN = deployed.graphs_of
deployed.schema()  # it is kept: not that of the graphs below


def numbers(graphs: GraphSet) -> np.ndarray:
    return np.stack([graphs.nodes, graphs.degree[graphs.node_start[:-1]]], axis=1).astype(float)


USUAL = np.median(np.concatenate([numbers(PLAIN(name)) for name in NAMES]), axis=0)


def graphs_of(kind: str) -> Callable[[str], GraphSet]:
    """The members' graphs with numbers read off them, some of them missing."""

    def targets(name: str) -> GraphSet:
        graphs = PLAIN(name)
        values = numbers(graphs)
        if kind == "binary":
            values = (values > USUAL).astype(float)
        missing = np.random.default_rng(NAMES.index(name)).random(values.shape) < 0.2
        return graphs.with_values(np.where(missing, np.nan, values), ("size", "degree"))

    return targets


def agreed(kind: str) -> FederationTerms:
    """Terms with scale and rates by the sums of the members' training graphs."""
    graphs = {name: graphs_of(kind)(name) for name in NAMES}
    schema = Schema.of(GraphSet.concatenate("all", list(graphs.values())), "label")
    content = content_of(rounds=2, test_fraction=0.4)
    terms = make_terms({**content, "schema": schema.to_json()})
    sums = []
    for name, own in graphs.items():
        train, _ = member_holdout(terms.config, name, own, SEEDS[name])
        assert own.values is not None
        sums.append(TargetSums.of(own.values[train]))
    said = [TargetSums.from_json(s.to_json()) for s in sums]
    return make_terms({**content, "schema": schema.scaled_by(said).to_json()})


def simulated(terms: FederationTerms, kind: str) -> Simulation:
    parts = [graphs_of(kind)(name) for name in NAMES]
    first = np.cumsum([0, *(len(g) for g in parts)])
    cut = [member_holdout(terms.config, n, g, SEEDS[n]) for n, g in zip(NAMES, parts, strict=True)]
    train, test = (tuple(a + c[k] for a, c in zip(first, cut, strict=False)) for k in (0, 1))
    split = Split(
        GraphSet.concatenate("all", parts), Partition(NAMES, np.arange(4), train, test), ()
    )
    members = prepare(terms.config, split, seed=terms.config.seed)
    return Secretive(terms.config, members, device=CPU, dtype=torch.float32, threads=1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_deployed_federation_on_other_tasks_is_the_simulated_one(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployed, "graphs_of", graphs_of(kind))
    terms = agreed(kind)
    assert (terms.config.task, terms.config.metric) == (kind, KINDS[kind])
    world = World(tmp_path, terms)
    assert world.drive()
    simulation = simulated(terms, kind)
    state = simulation.start()
    assert len(set(state.server.worth.tolist())) > 1
    for _ in range(terms.config.rounds):
        state = simulation.play(state).state
    assert torch.equal(world.checkpoint().server.weights, state.server.weights)
    accuracy, _ = simulation.agents.evaluate(state.agents)
    result = read_json(tmp_path / "run" / "result.json")
    assert result["metric"] == KINDS[kind]
    assert result["accuracy"] == dict(zip(NAMES, accuracy.tolist(), strict=True))
    statement = make_statement(world.entries(), NAMES[0], accuracy=result["accuracy"])
    assert statement.metric == KINDS[kind]


def member(kind: str, values: np.ndarray | None, names: tuple[str, ...] = ()) -> None:
    """Prepare a member's graphs with these targets, or with its classes, for a federation."""
    terms, graphs = agreed(kind), PLAIN(NAMES[0])
    if values is not None:
        graphs = graphs.with_values(values, names)
    prepare_member_data(terms.config, terms.schema, NAMES[0], graphs, SEEDS[NAMES[0]], 0)


@pytest.mark.parametrize(
    ("kind", "values", "names", "sentence"),
    [
        ("binary", None, (), r"has other targets \(1\) than were agreed \(size, degree\)"),
        ("binary", np.zeros((24, 2)), ("degree", "size"), r"has other targets \(degree, size\)"),
        ("binary", np.full((24, 2), 0.5), (), "Graph 0 of .* answers size by 0.5; give 0 or 1"),
        ("regression", np.full((24, 2), np.nan), (), "would train on graphs without a label"),
    ],
)
def test_members_with_other_targets_are_refused(
    kind: str, values: np.ndarray | None, names: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(MotifairError, match=sentence):
        member(kind, values, names)


def test_a_member_with_numbers_in_a_federation_of_classes_is_refused() -> None:
    terms = make_terms(content_of())
    graphs = graphs_of("regression")(NAMES[0])
    with pytest.raises(MotifairError, match="has numbers as targets, but the classes are 0, 1"):
        prepare_member_data(terms.config, terms.schema, NAMES[0], graphs, 0, 0)


def test_a_schema_with_a_task_is_read_again_and_refused_when_damaged() -> None:
    schema = agreed("regression").schema
    assert Schema.from_json(schema.to_json()) == schema
    assert schema.task is not None
    for changed in ({"scale": [1.0, 0.0]}, {"mean": [1.0]}, {"kind": "sums"}, {"names": ["size"]}):
        content = {**schema.to_json(), "task": {**schema.task.to_json(), **changed}}
        with pytest.raises(MotifairError):
            Schema.from_json(content)
    with pytest.raises(MotifairError, match="Sums number 1 are of 1 targets, but the schema has 2"):
        schema.scaled_by([TargetSums.of(np.zeros((3, 1)))])
    with pytest.raises(MotifairError, match="metric=f1 is not for task=regression"):
        make_terms({**content_of(metric="f1"), "schema": schema.to_json()})


def test_terms_of_binary_tasks_without_base_rates_begin_as_they_did() -> None:
    schema = agreed("binary").schema
    assert schema.task is not None
    content = schema.task.to_json()
    assert min(content["rates"]) > 0
    assert Schema.from_json(schema.to_json()) == schema
    earlier = Task.from_json({name: content[name] for name in ("kind", "names")})
    assert earlier.log_odds == ()
    rows = [GIN(5, 2, 4, 1, task=t).layout.initial(0, torch.float64) for t in (earlier, None)]
    assert torch.equal(*rows)
    for wrong in ([0.5], [0.0, 0.5], [0.5, 1.0]):
        with pytest.raises(MotifairError, match=r"rates .* fix them"):
            Task.from_json({**content, "rates": wrong})
    with pytest.raises(MotifairError, match="Sums number 2 are of targets other than 0 and 1"):
        schema.scaled_by([TargetSums.of(np.full((3, 2), k)) for k in (1.0, 2.0)])


def test_the_classes_of_a_sample_may_be_agreed_on_as_numbers() -> None:
    graphs = PLAIN(NAMES[0])
    schema = Schema.of(graphs, "label", task="regression")
    assert schema.task is not None
    assert schema.classes == ()
    values = np.array(graphs.class_values, float)[graphs.target]
    assert schema.task.mean == pytest.approx((values.mean(),))
