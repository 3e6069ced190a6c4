"""Who joins during a run is judged before its first round, as the others were before theirs."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from deployed import JUDGING, NAMES, SEEDS, Answer, Away, World, honest, key_of, terms_of

from motifair.consortium import coordinator as coordinator_module
from motifair.consortium.agent import MemberAgent
from motifair.consortium.audit import audit
from motifair.consortium.checkpoint import positions
from motifair.consortium.judging import peers_to_judge
from motifair.consortium.keys import signer
from motifair.consortium.member_data import MemberData, prepare_member_data
from motifair.consortium.run_state import RunCheckpoint, make_checkpoint
from motifair.consortium.terms import FederationTerms
from motifair.consortium.wire import AGREE, JOIN, JUDGE, Download
from motifair.errors import MotifairError
from motifair.federation.agents import AgentsState
from motifair.federation.trial import judged_agents
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.planted import planted
from motifair.methods import motifair as motifair_module
from motifair.report.verdicts import verdict_on_statement
from motifair.statements.statement import make_statement
from motifair.statements.verification import verify

FOUNDERS, NEW = NAMES[:3], "bank-d"
HELD_BY = dict(zip(NAMES, (0, 1, 5, 6), strict=True))  # agents of `planted` without damage
EACH = 100  # graphs; with fewer a model that is trained alone tells nothing
HARMFUL = {NEW: "inverted"}


def quick(members: tuple[str, ...] = NAMES, **options: Any) -> FederationTerms:
    """Terms under which models trained alone have learnt something in a second."""
    training = {
        "rounds": 40, "trial_rounds": 40, "learning_rate": 0.005, "local_epochs": 3, "hidden": 32,
    }  # fmt: skip
    return terms_of(members=members, **training | options)


@cache
def many(name: str) -> GraphSet:
    made = planted(7, seed=3)
    return made.graphs.select(np.flatnonzero(made.owner == HELD_BY[name])[:EACH])


@cache
def data_of(holder: str, terms: FederationTerms, kind: str) -> MemberData:
    graphs = many(holder)
    if kind == "inverted":
        graphs = replace(graphs, target=1 - graphs.target)
    if kind == "everybody's":
        graphs = GraphSet.concatenate("all", [many(name) for name in FOUNDERS])
    if kind == "fewer":
        graphs = graphs.select(np.arange(EACH // 2))
    given = (terms.config, terms.schema, holder, graphs, SEEDS[holder], terms.fingerprint_key)
    return prepare_member_data(*given)


def agent_of(holder: str, terms: FederationTerms, kind: str) -> MemberAgent:
    data, sign = data_of(holder, terms, kind), signer(key_of(holder))
    return MemberAgent(holder, terms, data, Path("nowhere"), sign=sign, seed=SEEDS[holder])


@cache
def trained(holder: str, terms: FederationTerms, kind: str) -> AgentsState | None:
    """A model trained alone, which does not depend on who else is there and takes a second."""
    return agent_of(holder, terms, kind)._own()


@dataclass
class Open(World):
    """A federation whose members may have other graphs than usual."""

    kind: Mapping[str, str] = field(default_factory=dict)

    def site(self, name: str) -> MemberAgent:
        kind = self.kind.get(name, "")
        agent = agent_of(name, self.terms, kind)
        agent.folder = self.folder / "sites" / name
        agent._own = lambda: deepcopy(trained(name, self.terms.with_members(NAMES), kind))  # type: ignore[method-assign]
        return agent

    def then(self, members: tuple[str, ...], **options: Any) -> Open:
        """The same run with other members or terms from here on."""
        return replace(self, terms=quick(members, **options), tasks={}, answers={})

    def paid(self, since: int) -> dict[str, int]:
        """What each member was paid in the rounds after one."""
        lines = [line for entry in self.rounds()[since:] for line in entry.lines]
        return {n: sum(x.payoff for x in lines if x.agent == n) for n in self.terms.members}

    def worth(self) -> dict[str, float]:
        return dict(zip(self.terms.members, self.checkpoint().server.worth.tolist(), strict=True))

    def ledger(self) -> list[str]:
        return [entry.to_json() for entry in self.entries()]

    def check_books(self) -> None:
        assert verify(self.entries()).fits
        assert audit(self.terms, self.folder / "run", self.entries()).fits


def joined_late(folder: Path, rounds: int = 4, **about: Any) -> Open:
    """Three members do two rounds, and some more with a fourth."""
    founded = Open(folder, quick(FOUNDERS), **about)
    founded.drive(rounds=2)
    world = founded.then(NAMES)
    world.drive(rounds=rounds)
    return world


def test_a_harmful_newcomer_is_paid_and_given_nothing(tmp_path: Path) -> None:
    world = joined_late(tmp_path, kind=HARMFUL)
    assert world.worth()[NEW] == 0
    assert world.paid(since=2)[NEW] == 0
    lines = [world.line(t, NEW) for t in (3, 4, 5, 6)]
    assert {(x.status, x.value, x.kept) for x in lines} == {("present", 0, 0)}
    coordinator = world.coordinator()
    initial = coordinator.model.layout.initial(world.terms.config.seed, torch.float32)
    assert torch.equal(torch.from_numpy(world.task(NEW, 3).weights), initial[coordinator.shared])  # type: ignore[arg-type]
    world.check_books()


@pytest.mark.parametrize("kind", [{}, HARMFUL], ids=["honest", "harmful"])
def test_who_comes_when_rounds_say_nothing_any_more_begins_with_what_its_graphs_are_worth(
    kind: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late in a training consensus, and so all evidence, is exactly 0 in most rounds."""
    founded = Open(tmp_path, quick(FOUNDERS), kind=kind)
    founded.drive(rounds=2)
    before = founded.checkpoint().server.value
    monkeypatch.setattr(motifair_module, "coverage", lambda u, worth, length: 0.0 * length)
    world = founded.then(NAMES)
    world.drive(rounds=3)
    worth = world.worth()
    part = worth[NEW] / sum(worth.values())
    assert (part == 0) == bool(kind)
    assert [world.line(t, NEW).value for t in (3, 4, 5)] == pytest.approx([1e12 * part] * 3)
    assert world.paid(since=2)[NEW] == pytest.approx(3 * 10_000 * part, abs=3)
    after = world.checkpoint().server.value
    torch.testing.assert_close(after[:3] / (1 - part), before)
    assert verify(world.entries()).fits
    for name in NAMES:
        assert not any(p.note for p in make_statement(world.entries(), name).rounds)


def test_an_honest_newcomer_is_paid_about_what_it_is_from_the_start(tmp_path: Path) -> None:
    world = joined_late(tmp_path / "late")
    whole = Open(tmp_path / "whole", quick())
    whole.drive(rounds=6)
    assert world.worth()[NEW] == pytest.approx(whole.worth()[NEW], rel=0.1)
    assert world.paid(since=2)[NEW] == pytest.approx(whole.paid(since=2)[NEW], rel=0.1)
    world.check_books()


@pytest.mark.parametrize("kind", [{}, HARMFUL], ids=["honest", "harmful"])
@pytest.mark.parametrize("stay", [FOUNDERS, FOUNDERS[1:]], ids=["all stay", "one leaves"])
def test_who_stays_is_worth_what_it_was_whoever_joins_or_leaves(
    stay: tuple[str, ...], kind: dict[str, str], tmp_path: Path
) -> None:
    founded = Open(tmp_path, quick(FOUNDERS), kind=kind)
    founded.drive(rounds=1)
    before = founded.worth()
    assert len(set(before.values())) == 3
    world = founded.then((*stay, NEW))
    world.drive(rounds=1)
    for name in stay:
        assert world.worth()[name] == pytest.approx(before[name], rel=1e-12)


def test_newcomers_and_members_judge_each_other_and_nobody_is_asked_twice(tmp_path: Path) -> None:
    world = joined_late(tmp_path, rounds=1)
    models = {n: world.task(n, JUDGING).models for n in NAMES}
    assert {n: len(m) for n, m in models.items() if m is not None} == dict.fromkeys(FOUNDERS, 1) | {
        NEW: 3
    }
    for name in FOUNDERS:
        np.testing.assert_array_equal(models[name][0], world.upload(NEW, 0).trial)  # type: ignore[index, arg-type]
    said = world.checkpoint().said
    assert said is not None
    assert torch.equal(said[0].isnan(), torch.eye(4, dtype=torch.bool))
    whole = Open(tmp_path / "whole", quick())
    whole.drive(rounds=1)
    torch.testing.assert_close(said, whole.checkpoint().said, equal_nan=True)
    task = world.task("bank-a", JUDGING)
    assert (task.round, task.number, task.head) == (2, 2, world.entries()[2].hash)


def test_a_newcomer_is_found_out_also_by_one_that_came_late_itself(tmp_path: Path) -> None:
    """Who came before was asked about the founders' models, so that its eyes are known."""
    world = Open(tmp_path, quick(("bank-a", "bank-b")), kind=HARMFUL)
    for members in (FOUNDERS, ("bank-c", "bank-b", NEW), ("bank-c", NEW)):
        world = world.then(tuple(sorted(members)))
        world.drive(rounds=1)
    assert world.worth()[NEW] == 0
    assert world.worth()["bank-c"] > 0
    assert all(world.line(t, NEW).payoff == 0 for t in (2, 3))
    world.check_books()


@pytest.mark.parametrize("stay", [(), ("bank-b",)], ids=["nobody stays", "one stays"])
def test_where_hardly_anybody_stays_all_judge_as_if_the_run_began(
    stay: tuple[str, ...], tmp_path: Path
) -> None:
    founded = Open(tmp_path / "world", quick(NAMES[:2]), kind=HARMFUL)
    founded.drive(rounds=1)
    world = founded.then((*stay, *NAMES[2:]))
    world.drive(rounds=1)
    begun = Open(tmp_path / "begun", world.terms, kind=HARMFUL)
    begun.drive(rounds=1)
    for name in NAMES[2:]:
        assert world.worth()[name] == pytest.approx(begun.worth()[name], rel=1e-12)
    assert (world.worth()[NEW] == 0) == bool(stay)  # of two, nobody can say who is wrong
    assert sum(world.values(2).values()) == pytest.approx(10**12, abs=1000)
    world.check_books()


def test_newcomers_do_not_vouch_for_each_other(tmp_path: Path) -> None:
    """Two whose classes are inverted find each other excellent, and two who stay do not."""
    inverted = dict.fromkeys(NAMES[2:], "inverted")
    founded = Open(tmp_path, quick(NAMES[:2]), kind=inverted)
    founded.drive(rounds=1)
    world = founded.then(NAMES)
    world.drive(rounds=1)
    said = world.checkpoint().said
    assert said is not None
    assert min(said[1, 2, 3], said[1, 3, 2]) > 0.3 > -0.3 > said[1, 2:, :2].max()
    assert {name: world.worth()[name] for name in inverted} == dict.fromkeys(inverted, 0)
    assert sum(world.paid(since=1)[name] for name in NAMES[:2]) == 10_000
    world.check_books()


def test_whom_nobody_can_judge_is_worth_nothing(tmp_path: Path) -> None:
    """A name with the graphs of all that are there: what they say of its model does not count."""
    founded = Open(tmp_path, quick(FOUNDERS), kind={NEW: "everybody's"})
    founded.drive(rounds=1)
    world = founded.then(NAMES)
    world.drive(rounds=1)
    server = world.coordinator().server(world.checkpoint().roster)
    assert server.judges[3].tolist() == [0] * 4
    assert server.believed[3] > 0
    assert (world.worth()[NEW], world.paid(since=1)[NEW]) == (0, 0)
    world.check_books()


def test_without_a_judge_nobody_joins_and_nothing_is_written(tmp_path: Path) -> None:
    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if (name, task.task) == ("bank-b", JUDGE):
            raise Away("no answer today")
        return answer()

    founded = Open(tmp_path, quick(FOUNDERS))
    founded.drive(rounds=2)
    before = founded.ledger()
    world = founded.then(NAMES)
    world.meddle = meddle
    with pytest.raises(MotifairError, match=r"'bank-b' did not judge its peers \(no answer today"):
        world.drive(rounds=1)
    assert world.ledger() == before
    world.meddle = honest
    world.drive(rounds=1)
    world.check_books()


class Crash(BaseException):
    """The process dies; never caught by the code under test."""


@pytest.mark.parametrize(
    ("dies", "task"),
    [("bank-b", JUDGE), ("bank-b", AGREE), (NEW, AGREE), ("bank-a", "train"), (NEW, "train")],
)
def test_a_crash_between_judging_and_the_first_round_changes_nothing(
    dies: str, task: str, tmp_path: Path
) -> None:
    undisturbed = joined_late(tmp_path / "undisturbed", rounds=2, kind=HARMFUL).ledger()

    def meddle(name: str, asked: Download, answer: Answer) -> bytes:
        if (name, asked.task) == (dies, task):
            raise Crash
        return answer()

    founded = Open(tmp_path / "world", quick(FOUNDERS), kind=HARMFUL)
    founded.drive(rounds=2)
    world = founded.then(NAMES)
    world.meddle = meddle
    with pytest.raises(Crash):
        world.drive(rounds=2)
    world.meddle = honest
    world.drive(rounds=2)
    assert world.ledger() == undisturbed
    world.check_books()


@pytest.mark.parametrize("retain", [True, False])
def test_lost_positions_are_rebuilt_through_a_newcomers_judgement(
    retain: bool, tmp_path: Path
) -> None:
    founded = Open(tmp_path, replace(quick(FOUNDERS), retain_uploads=retain), kind=HARMFUL)
    founded.drive(rounds=1)
    world = founded.then(NAMES)
    world.terms = replace(world.terms, retain_uploads=retain)
    world.drive(rounds=1)
    before = world.checkpoint()
    for path in positions(world.folder / "run"):
        path.unlink()
    world.drive(rounds=0)
    assert world.checkpoint().digest == before.digest


def test_who_joins_in_one_round_after_another_is_judged_by_it(tmp_path: Path) -> None:
    """Two changes of terms in one round: answers of one judge are two files."""
    world = Open(tmp_path, quick(NAMES[:2]), kind=HARMFUL)
    world.drive(rounds=1)
    for members in (FOUNDERS, NAMES):
        world = world.then(members)
        world.drive(rounds=0)
    assert [e.kind for e in world.entries()] == ["terms", "round", "terms", "terms"]
    kept = sorted(p.name for p in (world.folder / "run" / "uploads" / "000001").glob("*judge*"))
    assert kept == [
        "bank-a.judgement-1.bin", "bank-a.judgement-2.bin", "bank-b.judgement-1.bin",
        "bank-b.judgement-2.bin", "bank-c.judgement-1.bin", "bank-c.judgement-2.bin",
        "bank-d.judgement-2.bin",
    ]  # fmt: skip
    assert world.worth()[NEW] == 0
    world.check_books()


def test_a_judgement_of_an_earlier_time_is_not_taken(tmp_path: Path) -> None:
    """It is signed under the entry before, which is another one then."""
    world = Open(tmp_path, quick(NAMES[:2]))
    world.drive(rounds=1)
    world = world.then(FOUNDERS)
    world.drive(rounds=0)
    said = world.answers["bank-a", JUDGING]
    later = world.then(NAMES)
    checkpoint, coordinator = later.checkpoint(), later.coordinator()
    invited = coordinator.invitations()
    joined, _ = coordinator.collect({NEW: invited[NEW]}, {NEW: later.site(NEW)(invited[NEW])}, ())
    asked = coordinator.requests_to_judge(joined, checkpoint)
    accepted, rejected = coordinator.collect({"bank-a": asked["bank-a"]}, {"bank-a": said}, ())
    assert accepted == {}
    assert "an upload of head" in rejected["bank-a"]


def without_judgements(*parts: Any) -> RunCheckpoint:
    """A position as it was before positions kept models and what was said of them."""
    roster, *others, _ = parts
    return make_checkpoint(tuple(replace(j, trial=None) for j in roster), *others, None)


def test_a_position_from_before_goes_on_but_takes_no_newcomer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    founded = Open(tmp_path, quick(FOUNDERS))
    with monkeypatch.context() as earlier:
        earlier.setattr(coordinator_module, "make_checkpoint", without_judgements)
        founded.drive(rounds=1)
    founded.drive(rounds=1)
    assert founded.checkpoint().said is None
    left = founded.then(NAMES[:2])
    left.drive(rounds=1)
    assert left.worth().keys() == set(NAMES[:2])
    with pytest.raises(MotifairError, match="nothing is known of theirs; put back trial_rounds"):
        left.then((*NAMES[:2], NEW)).drive(rounds=1)
    left.check_books()


@pytest.mark.parametrize(("first", "then"), [(0, 40), (40, 0)])
def test_newcomers_are_judged_as_those_who_began_the_run(
    first: int, then: int, tmp_path: Path
) -> None:
    founded = Open(tmp_path, quick(FOUNDERS, trial_rounds=first))
    founded.drive(rounds=1)
    founded.then(FOUNDERS, trial_rounds=then).drive(rounds=1)
    with pytest.raises(MotifairError, match="put back trial_rounds of the terms with which it"):
        founded.then(NAMES, trial_rounds=then).drive(rounds=1)
    world = founded.then(NAMES, trial_rounds=first)
    world.drive(rounds=1)
    assert world.line(3, NEW).status == "present"
    world.check_books()


@pytest.mark.parametrize("members", [2, 4, 11, 12, 25])
def test_everybody_has_ten_judges_at_most_and_the_first_time_the_same_as_in_a_simulation(
    members: int,
) -> None:
    names = [f"m{k:02}" for k in range(members)]
    all_new = peers_to_judge(names, names, seed=7)
    assert [[names.index(p) for p in all_new[n]] for n in names] == judged_agents(
        members, 7
    ).tolist()
    for new in ({"m01"}, {"m00", "m01"}):
        peers = peers_to_judge(names, new, seed=7)
        for name in new:
            judges = [judge for judge, judged in peers.items() if name in judged]
            assert len(judges) == len(peers[name]) == min(members - 1, 10)
        assert all({judge, p} & new for judge, judged in peers.items() for p in judged)


# A member that left and comes back


def test_a_member_that_comes_back_is_judged_again(tmp_path: Path) -> None:
    world = Open(tmp_path, quick(), kind=HARMFUL)
    for members in (NAMES, FOUNDERS, NAMES):
        world = world.then(members)
        world.drive(rounds=1)
    assert world.task("bank-a", JUDGING).models is not None
    assert [world.line(t, NEW).payoff for t in (1, 3)] == [0, 0]
    world.check_books()
    said = make_statement(world.entries(), NEW)
    assert (said.payoff, said.judged) == (0, (1, 3))
    assert "round 1 and round 3 the others judged" in verdict_on_statement(said)
    assert make_statement(world.entries(), "bank-a").judged == (1,)


def test_a_member_does_not_come_back_with_other_graphs(tmp_path: Path) -> None:
    """Those by which it was paid are what an audit of claims asks for."""
    world = Open(tmp_path, quick())
    for members in (NAMES, FOUNDERS):
        world = world.then(members)
        world.drive(rounds=1)
    before = world.ledger()
    other = world.then(NAMES)
    other.kind = {NEW: "fewer"}
    answered = world.folder / "sites" / NEW / world.run / "round-000000.safetensors"
    answered.unlink()
    with pytest.raises(
        MotifairError, match=r"'bank-d' did not join \(it joined before with other graphs"
    ):
        other.drive(rounds=1)
    assert world.ledger() == before
    other.check_books()
    answered.unlink()
    world.then(NAMES).drive(rounds=1)


def test_who_did_not_join_after_all_may_change_its_graphs(tmp_path: Path) -> None:
    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if (name, task.task) == ("bank-a", JOIN):
            raise Away("no answer today")
        return answer()

    world = Open(tmp_path, quick(), meddle)
    with pytest.raises(MotifairError, match="'bank-a' did not join"):
        world.drive(rounds=1)
    (world.folder / "sites" / NEW / world.run / "round-000000.safetensors").unlink()
    world.meddle, world.kind = honest, {NEW: "fewer"}
    world.drive(rounds=1)
    world.check_books()
