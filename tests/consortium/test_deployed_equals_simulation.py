"""A deployed federation is the simulated one: same uploads, same values, same ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from deployed import (
    COMPARING,
    JUDGING,
    NAMES,
    SEEDS,
    VOTED,
    Secretive,
    World,
    graphs_of,
    key_of,
    terms_of,
)
from worlds import CPU

from motifair.consortium.coordinator import Coordinator
from motifair.consortium.keys import signer
from motifair.consortium.member_data import member_holdout
from motifair.consortium.rounds import RunDriver
from motifair.consortium.store.ledger import open_ledger
from motifair.consortium.terms import FederationTerms
from motifair.consortium.transports import OnReply
from motifair.consortium.wire import JUDGE, Download, Upload, unseal
from motifair.federation.members import prepare
from motifair.federation.protocol import Uploads
from motifair.federation.round import serve_round
from motifair.federation.server import Record
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState, agent_tensors
from motifair.federation.trial import judged_agents
from motifair.files import read_json
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.partition import Partition
from motifair.graphs.split import Split
from motifair.mechanism.settlement import to_pico

ROUNDS = 3
METHODS = ("motifair", "fedavg", "fedprox", "fedsage", "cgsv", "fedavg-own")
OPTIONS: dict[str, dict[str, object]] = {
    **{name: {"method": name} for name in METHODS},
    "motifair, convolutions": {"share": "conv"},
    "motifair, gradients": {**VOTED, "alignment_of": "gradient"},
    "motifair, votes": VOTED,
    "motifair, mini-batches": {"batch_size": 7, "local_epochs": 2},
    "motifair, common second moments": {"moments": "common"},
    "motifair, the default profile": {"profile": "default"},
    "motifair, the paper's profile": {"profile": "paper"},
    "motifair, a trial as long as the run": {"trial_rounds": 100},
    "motifair, nobody judges": {"trial_rounds": 0},
    "motifair, nothing of one's own": {"own_weight": 0.0},
    "motifair, coverage by claims": {"size": "claimed"},
    "motifair, a module of the user": {"model": "own_modules:GCN", "hidden": 8},
    "motifair, by value": {"aggregation": "value", "alignment_against": "all", "evidence": "sum"},
}
FOLDERS = TemporaryDirectory()


def all_terms(name: str) -> FederationTerms:
    return terms_of(rounds=ROUNDS, **OPTIONS[name])


@cache
def deployed(name: str) -> World:
    """A finished federation; not changed by any test."""
    world = World(Path(FOLDERS.name) / name, all_terms(name))
    assert world.drive()
    return world


def by_hand(terms: FederationTerms) -> Split:
    """The members' graphs as one split, with each member's own holdout."""
    parts = [graphs_of(name) for name in NAMES]
    first = np.cumsum([0, *(len(g) for g in parts)])
    cut = [member_holdout(terms.config, n, graphs_of(n), SEEDS[n]) for n in NAMES]
    partition = Partition(
        NAMES,
        global_test=np.arange(4),
        train=tuple(a + train for a, (train, _) in zip(first, cut, strict=False)),
        test=tuple(a + test for a, (_, test) in zip(first, cut, strict=False)),
    )
    return Split(GraphSet.concatenate("all", parts), partition, ())


@dataclass(frozen=True)
class Simulated:
    """One round of a simulation: what was uploaded, what the server recorded, and after it."""

    uploads: Uploads
    record: Record
    state: FederationState


@cache
def simulated(name: str, rows: int | None = None) -> tuple[Simulation, list[Simulated]]:
    """The federation of the same members and graphs in a simulation."""
    terms = all_terms(name)
    members = prepare(terms.config, by_hand(terms), seed=terms.config.seed)
    simulation = Secretive(
        terms.config, members, device=CPU, rows=rows, dtype=torch.float32, threads=1
    )

    def rounds() -> Iterator[Simulated]:
        state = simulation.start()
        for _ in range(terms.config.rounds):
            done = simulation.play(state)
            state = done.state
            yield Simulated(done.uploads, done.record, state)

    return simulation, list(rounds())


def rows_of(simulation: Simulation, uploads: Uploads, round: int) -> list[Upload]:
    """The uploads of each agent of a simulation."""
    index = simulation.members[0].index
    ends = np.cumsum(np.zeros(4, int) if index is None else index.sizes)
    rows = []
    for k, name in enumerate(NAMES):
        own = slice(ends[k - 1] if k else 0, ends[k])
        gradient, prototypes = uploads.gradient, uploads.prototypes
        rows.append(
            Upload(
                run="trial-1",
                round=round,
                agent=name,
                task="train",
                graphs=len(simulation.members[0].train[k]),
                update=uploads.update[k].numpy(),
                gradient=None if gradient is None else gradient[k].numpy(),
                gradient_norm=float(uploads.gradient_norm[k]),
                prototypes=None if prototypes is None else prototypes[own].numpy(),
                loss=float(uploads.loss[k]),
                moments=None if uploads.moments is None else uploads.moments[k].numpy(),
            )
        )
    return rows


@pytest.mark.parametrize("name", OPTIONS)
def test_each_site_uploads_the_bytes_that_a_simulation_computes_for_its_row(name: str) -> None:
    world = deployed(name)
    simulation, rounds = simulated(name)
    for t, expected in enumerate(rounds, start=1):
        for upload in rows_of(simulation, expected.uploads, t):
            content, _ = unseal(world.answers[upload.agent, t])
            # The only thing that a simulation does not have is a ledger.
            head = world.task(upload.agent, t).head
            assert content == replace(upload, head=head).encode(), (t, upload.agent)


@pytest.mark.parametrize("name", OPTIONS)
def test_members_train_and_judge_the_models_that_a_simulation_does(name: str) -> None:
    world = deployed(name)
    simulation, _ = simulated(name)
    asked = {agent for agent, t in world.tasks if t == JUDGING}
    assert asked == (set(NAMES) if simulation.method.trial_rounds else set())
    if not asked:
        assert all(world.upload(agent, 0).trial is None for agent in NAMES)
        return
    assert simulation.method.trial_rounds == min(ROUNDS, simulation.config.trial_rounds)
    own = simulation.own_models()
    assert own is not None
    models, said = own.weights, simulation.judgement(own)
    assert said is not None
    for j, (agent, peers) in enumerate(
        zip(NAMES, judged_agents(len(NAMES), world.terms.config.seed), strict=True)
    ):
        np.testing.assert_array_equal(world.upload(agent, 0).trial, models[j].numpy())
        np.testing.assert_array_equal(world.task(agent, JUDGING).models, models[peers].numpy())
        judgement = torch.stack([said.loss[peers, j], said.told[peers, j]], dim=-1)
        np.testing.assert_array_equal(world.upload(agent, JUDGING).judgement, judgement.numpy())
        assert said.loss[j, j].isnan()
    worth = simulation.start().server.worth
    assert torch.equal(world.checkpoint().server.worth, worth)
    assert len(set(worth.tolist())) > 1


@pytest.mark.parametrize("name", OPTIONS)
def test_the_ledger_holds_the_values_that_a_simulation_computes(name: str) -> None:
    world = deployed(name)
    _, rounds = simulated(name)
    for t, expected in enumerate(rounds, start=1):
        lines = world.rounds()[t - 1].lines
        assert [x.value for x in lines] == [to_pico(v) for v in expected.record["value"].tolist()]
        assert [x.kept for x in lines] == expected.record["kept"].tolist()
        for key in ("alignment", "diversity"):
            wanted = [None if v != v else to_pico(v) for v in expected.record[key].tolist()]
            assert [getattr(x, key) for x in lines] == wanted


@pytest.mark.parametrize("name", OPTIONS)
def test_payoffs_are_those_of_a_simulation_to_the_last_units(name: str) -> None:
    world = deployed(name)
    _, rounds = simulated(name)
    for entry, expected in zip(world.rounds(), rounds, strict=True):
        share = expected.record["payoff"] / expected.record["payoff"].sum() * entry.budget
        paid = torch.tensor([x.payoff for x in entry.lines])
        assert (paid - share).abs().max() < len(NAMES)


@pytest.mark.parametrize("name", OPTIONS)
def test_models_and_accuracies_at_the_end_are_those_of_a_simulation(name: str) -> None:
    world = deployed(name)
    simulation, rounds = simulated(name)
    last = rounds[-1]
    for k, agent in enumerate(NAMES):
        round, state = world.site(agent).state(world.run)
        assert round == ROUNDS + 1
        ours, theirs = agent_tensors(state), agent_tensors(last.state.agents.rows(slice(k, k + 1)))
        assert ours.keys() == theirs.keys()
        for part, tensor in theirs.items():
            assert torch.equal(ours[part], tensor), part
        assert (state.own is not None) == (simulation.method.own_weight > 0)
    assert torch.equal(world.checkpoint().server.weights, last.state.server.weights)
    accuracy, _ = simulation.agents.evaluate(last.state.agents)
    accuracies = read_json(world.folder / "run" / "result.json")["accuracy"]
    assert accuracies == dict(zip(NAMES, accuracy.tolist(), strict=True))


@pytest.mark.parametrize("name", METHODS)
def test_agents_trained_in_one_stack_agree_within_rounding(name: str) -> None:
    world = deployed(name)
    _, rounds = simulated(name, rows=len(NAMES))
    for t, expected in enumerate(rounds, start=1):
        for k, agent in enumerate(NAMES):
            sent = world.upload(agent, t)
            np.testing.assert_allclose(sent.update, expected.uploads.update[k].numpy(), atol=1e-4)
        values = torch.tensor([x.value / 1e12 for x in world.rounds()[t - 1].lines])
        torch.testing.assert_close(values, expected.record["value"].float(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", METHODS)
def test_another_run_of_the_same_members_writes_the_same_ledger(name: str, tmp_path: Path) -> None:
    again = World(tmp_path, deployed(name).terms)
    again.drive()
    assert [e.to_json() for e in again.entries()] == [e.to_json() for e in deployed(name).entries()]


class Backwards:
    """A transport with recorded answers, in another order."""

    def __init__(self, world: World) -> None:
        self.world = world

    def exchange(
        self, tasks: dict[str, bytes], deadline: float, on_reply: OnReply
    ) -> tuple[dict[str, bytes], dict[str, str]]:
        ((what, round),) = {(d.task, d.round) for d in map(Download.decode, tasks.values())}
        if what == JUDGE:
            round = COMPARING if round else JUDGING
        replies = {}
        for name in sorted(tasks, reverse=True):
            assert tasks[name] == self.world.tasks[name, round]
            replies[name] = self.world.answers[name, round]
            on_reply(name, 0.0)
        return replies, {}


@pytest.mark.parametrize("name", METHODS)
def test_the_same_uploads_in_another_order_give_the_same_ledger(name: str, tmp_path: Path) -> None:
    world = deployed(name)
    with open_ledger(tmp_path / "ledger.sqlite", write=True) as ledger:
        sign = signer(key_of("operator"))
        drive = RunDriver(
            Backwards(world), world.coordinator(), ledger, tmp_path / "run", sign=sign
        )
        assert drive()
        entries = [e.to_json() for e in ledger.entries(world.run)]
    assert entries == [e.to_json() for e in world.entries()]


def test_a_site_does_not_depend_on_what_the_others_do_meanwhile(tmp_path: Path) -> None:
    """An agent alone gives the same answers to the same tasks as among others."""
    world = deployed("motifair")
    alone = World(tmp_path, world.terms).site("bank-c")
    for t in (0, JUDGING, *range(1, ROUNDS + 2)):
        assert alone(world.tasks["bank-c", t]) == world.answers["bank-c", t]


# What an agent receives


def shared_motifs(world: World, name: str) -> set[str]:
    return {m for j in world.checkpoint().roster if j.name == name for m in j.motifs}


@pytest.mark.parametrize("name", METHODS)
def test_a_task_names_nobody_else_and_no_motif(name: str) -> None:
    world = deployed(name)
    motifs = {m for member in NAMES for m in shared_motifs(world, member)}
    for (member, _), task in world.tasks.items():
        assert Download.decode(task).agent == member
        for other in set(NAMES) - {member}:
            assert other.encode() not in task
        for motif in motifs:
            assert motif.encode() not in task


def test_a_task_holds_the_reward_of_that_agent_alone() -> None:
    world = deployed("motifair")
    simulation, rounds = simulated("motifair")
    state = simulation.start()
    for t, expected in enumerate(rounds, start=1):
        _, downloads, _ = serve_round(simulation.server, state.server, expected.uploads)
        for k, name in enumerate(NAMES):
            reward = world.task(name, t + 1).reward
            np.testing.assert_array_equal(reward, downloads.reward[k].float().numpy())
            assert np.count_nonzero(reward) <= world.line(t, name).kept
        state = expected.state


def test_a_task_holds_the_prototypes_of_the_agents_own_motifs_alone() -> None:
    world = deployed("motifair")
    coordinator: Coordinator = world.coordinator()
    server = coordinator.server(world.checkpoint().roster)
    simulation, rounds = simulated("motifair")
    states = [simulation.start(), *(expected.state for expected in rounds)]
    union = sorted({m for name in NAMES for m in shared_motifs(world, name)})
    assert sum(server.motifs) == len(union)
    for name in NAMES:
        own = [union.index(m) for m in sorted(shared_motifs(world, name))]
        assert len(own) < len(union)
        for t in range(1, ROUNDS + 2):
            task, state = world.task(name, t), states[t - 1].server
            np.testing.assert_array_equal(task.prototypes, state.prototypes[own].float().numpy())
            np.testing.assert_array_equal(task.active, state.active[own].numpy())


@pytest.mark.parametrize("name", ["fedavg", "fedsage", "cgsv"])
def test_methods_without_motifs_ask_for_none_and_send_none(name: str) -> None:
    world = deployed(name)
    for member in NAMES:
        assert shared_motifs(world, member) == set()
        assert all(world.upload(member, t).prototypes is None for t in range(ROUNDS + 1))
        assert all(world.task(member, t).prototypes is None for t in range(ROUNDS + 2))


def test_only_before_the_ledger_tasks_have_no_head_and_nobody_is_sent_weights() -> None:
    world = deployed("motifair")
    hashes = [e.hash for e in world.entries()]
    for (_, t), task in world.tasks.items():
        download = Download.decode(task)
        assert download.head == (hashes[t - 1] if t > 0 else "")
        assert download.weights is None
        assert download.terms == world.terms.digest
