"""Between machines graphs count as far as they are believed, whoever joins, leaves or lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from deployed import (
    BELIEVED,
    JUDGING,
    NAMES,
    SEEDS,
    Answer,
    World,
    away,
    graphs_of,
    key_of,
    opened,
    sealed,
    terms_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from motifair.config import make_config
from motifair.consortium.agent import MemberAgent
from motifair.consortium.audit import audit
from motifair.consortium.checkpoint import positions
from motifair.consortium.keys import signer
from motifair.consortium.member_data import member_holdout, prepare_member_data
from motifair.consortium.run_state import JoinedMember
from motifair.consortium.terms import FederationTerms
from motifair.consortium.wire import Download
from motifair.errors import MotifairError
from motifair.federation.belief import GraphSummary
from motifair.federation.members import prepare
from motifair.federation.protocol import Judgement, Uploads
from motifair.federation.round import serve_round
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.partition import Partition
from motifair.graphs.perturb import randomise_edges
from motifair.graphs.schema import Schema
from motifair.graphs.split import Split
from motifair.motifs.wiring import measure_count
from motifair.statements.verification import verify

TRAIN = 21  # training graphs of each member, all of them distinct
TWIN = {"bank-b": "bank-a"}
Graphs = Callable[[str], GraphSet]


@cache
def own_data(owner: str, terms: FederationTerms, graphs: Graphs = graphs_of) -> Any:
    key = terms.fingerprint_key
    return prepare_member_data(terms.config, terms.schema, owner, graphs(owner), SEEDS[owner], key)


@dataclass
class Copied(World):
    """A federation in which some members have another's graphs, or graphs that are made up."""

    owner: Mapping[str, str] = field(default_factory=dict)
    graphs: Graphs = graphs_of

    def site(self, name: str) -> MemberAgent:
        data = own_data(self.owner.get(name, name), self.terms, self.graphs)
        folder, sign = self.folder / "sites" / name, signer(key_of(name))
        return MemberAgent(name, self.terms, data, folder, sign=sign, seed=SEEDS[name])


def believing(**options: Any) -> FederationTerms:
    return terms_of(**BELIEVED | options)


def believed(world: World) -> list[float]:
    numbers: list[float] = world.coordinator().server(world.checkpoint().roster).believed.tolist()
    return numbers


def test_members_with_the_same_graphs_count_together_as_one(tmp_path: Path) -> None:
    world = Copied(tmp_path, believing(rounds=2), owner=TWIN)
    assert world.drive()
    assert believed(world) == [TRAIN / 2, TRAIN / 2, TRAIN, TRAIN]
    assert verify(world.entries()).fits
    assert audit(world.terms, world.folder / "run", world.entries()).fits


def made_up(name: str) -> GraphSet:
    graphs = graphs_of(name)
    return randomise_edges(graphs, graphs.node_label, 1) if name == "bank-c" else graphs


def test_made_up_graphs_are_hardly_believed(tmp_path: Path) -> None:
    world = Copied(tmp_path, believing(rounds=1), graphs=made_up)
    assert world.drive()
    counted = dict(zip(NAMES, believed(world), strict=True))
    assert counted.pop("bank-c") < TRAIN / 2
    assert list(counted.values()) == [TRAIN] * 3


@pytest.mark.parametrize("money", [{}, {"budget": "200.00"}], ids=["same terms", "other terms"])
def test_who_joins_later_with_graphs_of_another_halves_them_until_it_leaves(
    money: dict[str, str], tmp_path: Path
) -> None:
    """Also where terms changed before it joined: fingerprints have the same key."""
    three = ("bank-a", "bank-c", "bank-d")
    first = Copied(tmp_path, believing(members=three), owner=TWIN)
    first.drive(rounds=1)
    assert believed(first) == [TRAIN] * 3
    second = Copied(tmp_path, believing(members=NAMES, money=money), owner=TWIN)
    second.drive(rounds=1)
    assert believed(second) == [TRAIN / 2, TRAIN / 2, TRAIN, TRAIN]
    last = Copied(tmp_path, believing(members=three, money=money), owner=TWIN)
    assert last.drive()
    assert believed(last) == [TRAIN] * 3
    assert {line.status for e in last.rounds() for line in e.lines} == {"present"}
    assert verify(last.entries()).fits


def test_an_absent_members_graphs_are_still_counted_with_the_others(tmp_path: Path) -> None:
    world = Copied(tmp_path, believing(rounds=3), away({"bank-a": {2}}), owner=TWIN)
    assert world.drive()
    assert believed(world) == [TRAIN / 2, TRAIN / 2, TRAIN, TRAIN]
    assert world.line(2, "bank-a").status == "absent"
    assert verify(world.entries()).fits


def test_a_member_may_be_alone_in_a_round(tmp_path: Path) -> None:
    alone = away({name: {2} for name in NAMES[1:]})
    world = World(tmp_path, believing(rounds=3, quorum=1), alone)
    assert world.drive()
    assert all(entry.settled for entry in world.rounds())
    for t in (1, 2, 3):
        assert abs(sum(world.values(t).values()) - 10**12) <= 1000


def test_more_graphs_than_the_terms_let_count_are_not_believed(tmp_path: Path) -> None:
    def claim(name: str, task: Download, answer: Answer) -> bytes:
        upload = opened(answer())
        if (name, task.task) != ("bank-b", "join"):
            return answer()
        invented = np.arange(1000, dtype=np.uint64)
        return sealed(replace(upload, graphs=1000, fingerprints=invented))

    world = World(tmp_path, believing(rounds=1), claim)
    assert world.drive()
    assert believed(world) == [TRAIN, 2 * TRAIN, TRAIN, TRAIN]


# A run that goes on from its files


def test_a_run_in_pieces_is_the_run_in_one(tmp_path: Path) -> None:
    whole = Copied(tmp_path / "whole", believing(rounds=3), owner=TWIN)
    assert whole.drive()
    parts = Copied(tmp_path / "parts", whole.terms, owner=TWIN)
    for done in (False, False, True):
        assert parts.drive(rounds=1) == done
    assert [e.to_json() for e in parts.entries()] == [e.to_json() for e in whole.entries()]


def test_a_position_keeps_what_members_said_of_their_graphs(tmp_path: Path) -> None:
    world = World(tmp_path, believing())
    world.drive(rounds=1)
    for joined in world.checkpoint().roster:
        sent = world.upload(joined.name, 0)
        assert joined.summary is not None
        np.testing.assert_array_equal(joined.summary.fingerprints, sent.fingerprints)  # type: ignore[arg-type]
        np.testing.assert_array_equal(joined.summary.wiring, sent.wiring)  # type: ignore[arg-type]
        assert joined.summary.fingerprints.dtype == np.uint64


def test_a_position_of_an_older_version_is_refused_in_a_sentence(tmp_path: Path) -> None:
    world = World(tmp_path, terms_of())
    world.drive(rounds=1)
    path = positions(world.folder / "run")[-1]
    with safe_open(path, "pt") as file:
        about = file.metadata()
    del about["sha256"]
    save_file(load_file(path), path, about | {"format": "something"})
    with pytest.raises(MotifairError, match="is not a position of this version; use another"):
        world.drive()
    path.rename(path.with_name("position.safetensors"))
    with pytest.raises(MotifairError, match="an older version of motifair; finish the run with"):
        world.drive()


def test_terms_cannot_be_changed_to_believing_who_said_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, terms_of(size="claimed"))
    world.drive(rounds=1)
    before = [e.to_json() for e in world.entries()]
    world.terms = believing()
    with pytest.raises(MotifairError, match=r"without fingerprints .*; set size = .claimed."):
        world.drive()
    assert [e.to_json() for e in world.entries()] == before
    world.terms = believing(size="claimed")
    assert world.drive()


# What is sent


def summary_of(terms: FederationTerms, graphs: GraphSet, schema: Schema) -> GraphSummary:
    key = terms.fingerprint_key
    summary = prepare_member_data(terms.config, schema, "bank-a", graphs, 1, key).summary
    assert summary is not None
    return summary


def test_fingerprints_of_two_federations_cannot_be_compared() -> None:
    terms, graphs = believing(), graphs_of("bank-a")
    same = summary_of(believing(money={"budget": "7"}), graphs, terms.schema)
    other = summary_of(replace(terms, name="another"), graphs, terms.schema)
    ours = summary_of(terms, graphs, terms.schema)
    np.testing.assert_array_equal(ours.fingerprints, same.fingerprints)
    assert not set(ours.fingerprints.tolist()) & set(other.fingerprints.tolist())
    np.testing.assert_array_equal(ours.wiring, other.wiring)


@pytest.mark.parametrize("features", ["label", "degree", "attributes", "label+attributes"])
def test_what_the_model_does_not_read_makes_no_difference(features: str) -> None:
    """Labels or attributes that not all members need to have."""
    whole = graphs_of("bank-a")
    rng = np.random.default_rng(0)
    whole = replace(whole, attribute=rng.standard_normal((len(whole.degree), 2)))
    bare = replace(
        whole,
        node_label=whole.node_label if "label" in features else None,
        attribute=whole.attribute if "attributes" in features else None,
    )
    schema, terms = Schema.of(whole, features), believing()
    ours, theirs = (summary_of(terms, g, schema) for g in (whole, bare))
    np.testing.assert_array_equal(ours.fingerprints, theirs.fingerprints)
    np.testing.assert_array_equal(ours.wiring, theirs.wiring)
    assert ours.wiring.shape == (measure_count(labels="label" in features),)
    assert (np.abs(ours.wiring) <= 1).all()


@pytest.mark.parametrize("features", ["label", "degree", "attributes", "label+attributes"])
def test_a_simulation_summarises_graphs_as_their_members_do(features: str) -> None:
    rng = np.random.default_rng(0)
    graphs = graphs_of("bank-a")
    graphs = replace(graphs, attribute=rng.standard_normal((len(graphs.degree), 2)))
    config = make_config({"agents": 2, "features": features})
    halves = {"a": np.arange(12), "b": np.arange(12, 24)}
    cut = {name: member_holdout(config, name, graphs.select(h), 7) for name, h in halves.items()}
    train, test = (tuple(h[cut[name][k]] for name, h in halves.items()) for k in range(2))
    partition = Partition(("a", "b"), np.arange(2), train, test)
    members = prepare(config, Split(graphs, partition, ()), seed=1)
    schema = Schema.of(graphs, features)
    for name, simulated in zip(halves, members.summaries, strict=True):
        data = prepare_member_data(config, schema, name, graphs.select(halves[name]), 7, key=0)
        assert data.summary is not None
        np.testing.assert_array_equal(simulated.fingerprints, data.summary.fingerprints)
        np.testing.assert_array_equal(simulated.wiring, data.summary.wiring)


def test_agents_send_what_the_method_uses_and_nothing_else(tmp_path: Path) -> None:
    for k, options in enumerate([BELIEVED, {**BELIEVED, "size": "claimed"}, {"profile": "paper"}]):
        world = World(tmp_path / str(k), terms_of(rounds=1, **options))
        assert world.drive()
        for name in NAMES:
            joined, trained = world.upload(name, 0), world.upload(name, 1)
            said = {joined.fingerprints is not None, joined.wiring is not None}
            assert said == {options.get("size") == "believed"}
            judges = "alignment_against" in options
            assert (joined.trial is not None) == judges == ((name, JUDGING) in world.tasks)
            assert trained.trial is None
            assert trained.judgement is None
            assert trained.gradient is None
            assert trained.fingerprints is None
            assert trained.wiring is None


# Whatever is said, by whomever is there


def _of_others(said: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(said).fill_diagonal_(torch.nan)


summaries = st.builds(
    lambda words, seed, scale: GraphSummary(
        np.array(words, np.uint64),
        scale * np.random.default_rng(seed).uniform(-1, 1, measure_count(labels=True)),
    ),
    st.lists(st.integers(0, 12), min_size=1, max_size=8),
    st.integers(0, 99),
    st.sampled_from([0.0, 0.01, 1.0]),
)
losses = hnp.arrays(np.float64, (4, 4), elements=st.floats(0, 1e6))
discriminations = hnp.arrays(np.float64, (4, 4), elements=st.just(np.nan) | st.floats(-1, 1))
judgements = st.none() | st.builds(
    lambda loss, told: Judgement(_of_others(loss), _of_others(told)), losses, discriminations
)
attendance = st.lists(st.booleans(), min_size=4, max_size=4)


AGGREGATIONS = ("size", "trusted", "value")


def check_served(
    said: Sequence[GraphSummary],
    rounds: Sequence[tuple[Sequence[bool], int]],
    aggregation: str,
    judged: Judgement | None = None,
) -> list[float]:
    """Serve rounds of random updates, and check their numbers; return how much is believed."""
    terms = believing(hidden=8, aggregation=aggregation, prototype_weight=0.0)
    coordinator = World(Path("nowhere"), terms).coordinator()
    roster = [
        JoinedMember(name, len(s.fingerprints), ("bond 0 1",), s)
        for name, s in zip(NAMES, said, strict=True)
    ]
    server = coordinator.server(roster)
    assert (server.believed <= server.graphs).all()
    size = coordinator.shared.stop - coordinator.shared.start
    state = server.start(torch.zeros(size, dtype=torch.float64), judged=judged)
    assert state.worth.isfinite().all()
    assert (state.worth >= 0).all()
    for there, seed in rounds:
        present = torch.tensor(there)
        if not present.any() or float(state.value[present].sum()) <= 0:
            continue
        rng = np.random.default_rng(seed)
        update = torch.from_numpy(rng.standard_normal((4, size))).float() * present[:, None]
        nothing = torch.zeros(4)
        uploads = Uploads(update, None, nothing, None, nothing)
        state, downloads, _ = serve_round(server, state, uploads, None if all(there) else present)
        assert state.value.isfinite().all()
        assert abs(float(state.value.sum()) - 1) <= 1e-9
        assert downloads.reward.isfinite().all()
        assert state.weights.isfinite().all()
    numbers: list[float] = server.believed.tolist()
    return numbers


@settings(max_examples=40, deadline=None)
@given(
    st.lists(summaries, min_size=4, max_size=4),
    st.lists(st.tuples(attendance, st.integers(0, 2**31)), min_size=1, max_size=4),
    st.sampled_from(AGGREGATIONS),
    judgements,
)
def test_values_are_finite_and_add_up_to_one_whatever_is_said(
    said: list[GraphSummary],
    rounds: list[tuple[list[bool], int]],
    aggregation: str,
    judged: Judgement | None,
) -> None:
    check_served(said, rounds, aggregation, judged)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_a_round_of_those_alone_who_are_not_believed_goes_on(aggregation: str) -> None:
    real = np.full(measure_count(labels=True), 0.5)
    said = [
        GraphSummary(np.arange(10 * k, 10 * k + 10, dtype=np.uint64), real * (1 if k < 2 else -0.1))
        for k in range(4)
    ]
    rounds = [((False, False, True, True), 1), ((True,) * 4, 2)]
    assert check_served(said, rounds, aggregation) == [10, 10, 0, 0]
