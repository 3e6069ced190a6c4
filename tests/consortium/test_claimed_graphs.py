"""Audits of claims: who is drawn shows its graphs, invented ones are found out and fined."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deployed import NAMES, World, content_of, graphs_of, honest, key_of, opened, sealed
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from motifair.cli.app import app
from motifair.consortium import agent_process
from motifair.consortium.audit import audit as recompute
from motifair.consortium.claims import Answer, Question, answer, claimed, outcome, questions
from motifair.consortium.keys import signer, write_key
from motifair.consortium.operator_folder import PUBLIC, SIGNING
from motifair.consortium.store.export import RESERVE
from motifair.consortium.template import members_toml
from motifair.consortium.terms import TERMS, FederationTerms, make_terms
from motifair.consortium.transports.nvflare import kits
from motifair.consortium.wire import JOIN, Download
from motifair.errors import MotifairError
from motifair.graphs.tu import write_tu
from motifair.mechanism.settlement import Share, settle
from motifair.statements.accounts import Accounts
from motifair.statements.audits import AuditTerms, found_out
from motifair.statements.signatures import public_text
from motifair.statements.verification import verify

ME, RUN = "bank-d", "trial-1"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVERYBODY = {"share": 1.0, "graphs": 8, "fine": 2, "days": 30}


def clause(**audit: Any) -> dict[str, Any]:
    return {
        "rounds": 1, "trial_rounds": 1, "money": {"reserve": "the operator"},
        "audit": EVERYBODY | audit,
    }  # fmt: skip


def inventing(name: str, task: Download, say: Callable[[], bytes]) -> bytes:
    """`ME` replaces half of its fingerprints by new ones, each graph being claimed as two."""
    if name != ME or task.task != JOIN:
        return honest(name, task, say)
    upload = opened(say())
    assert upload.fingerprints is not None
    words = upload.fingerprints.copy()
    words[::2] ^= np.uint64(0xABCD00)  # the last byte is the class
    return sealed(replace(upload, fingerprints=words))


def operated(folder: Path, content: dict[str, Any], meddle: Any = honest) -> World:
    """A finished run in an operator's folder."""
    world = World(folder, make_terms(content), meddle)
    with world.server(f"runs/{RUN}") as drive:
        assert drive()
    (folder / TERMS).write_text(members_toml(content))
    write_key(folder / SIGNING, key_of("operator"))
    (folder / PUBLIC).write_text(public_text(key_of("operator")))
    return world


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, World]:
    """Honest members, and a federation in which `ME` invents."""
    return {
        cheats: operated(
            tmp_path_factory.mktemp("w"), content_of(**clause()), inventing if cheats else honest
        )
        for cheats in (False, True)
    }


def asked_of(world: World, name: str, graphs: int = 8) -> Question:
    books = Accounts.of(RUN, [e for e in world.entries() if e.kind != "audit"])
    books.terms = replace(books.agreed, audit=EVERYBODY | {"graphs": graphs})
    found = {q.member: q for q in questions("trial", world.folder / "runs" / RUN, books)}
    return found[name]


def test_a_member_shows_the_graphs_that_it_has(worlds: dict[bool, World]) -> None:
    world = worlds[False]
    for name in NAMES:
        question = asked_of(world, name)
        assert len(question.asked) == 8
        found = answer(question, world.terms, graphs_of(name))
        assert found.missing == 0
        assert len(set(found.graphs)) == 8
        assert "has all 8 graphs" in str(found)
    assert asked_of(world, ME) == question
    everything = asked_of(world, ME, graphs=10_000)
    assert len(everything.asked) == everything.claimed
    other = answer(question, world.terms, graphs_of(NAMES[0]))
    assert other.missing == 8  # another's graphs do not do
    taken = found.graphs[:2]
    assert found.refused(taken).missing == 2
    with pytest.raises(MotifairError, match="not among those shown"):
        found.refused([10**6])


def test_a_fingerprint_claimed_twice_takes_two_graphs(worlds: dict[bool, World]) -> None:
    terms, graphs = worlds[False].terms, graphs_of(ME)
    question = asked_of(worlds[False], ME, graphs=1)
    twice = replace(question, asked=question.asked * 2)
    found = answer(question, terms, graphs).graphs[0]
    (copied,) = np.array([[*range(len(graphs)), found]])
    with_copy = answer(twice, terms, graphs.select(copied))
    assert with_copy.missing == 0
    assert len(set(with_copy.graphs)) == 2
    assert answer(twice, terms, graphs).missing == 1


def test_invented_fingerprints_have_no_graph(worlds: dict[bool, World]) -> None:
    world = worlds[True]
    everything = asked_of(world, ME, graphs=10_000)
    assert answer(everything, world.terms, graphs_of(ME)).missing == (everything.claimed + 1) // 2
    some = answer(asked_of(world, ME), world.terms, graphs_of(ME))
    assert 0 < some.missing <= 8
    assert f"no graph for {some.missing} of the 8" in str(some)
    assert some.to_json()["missing"] == some.to_json()["graphs"].count(-1)
    assert answer(asked_of(world, NAMES[0]), world.terms, graphs_of(NAMES[0])).missing == 0


def test_claims_of_who_has_left_are_those_it_joined_with(worlds: dict[bool, World]) -> None:
    folder = worlds[False].folder / "runs" / RUN
    words = claimed(folder, RUN, ME)
    parts = [folder / "uploads" / "000000" / f"{ME}.bin"]
    assert np.array_equal(opened(parts[0].read_bytes()).fingerprints, words)
    with pytest.raises(MotifairError, match="no fingerprints of bank-z"):
        claimed(folder, RUN, "bank-z")
    empty = folder.parent / "moved"
    (empty / "uploads" / "000000").mkdir(parents=True)
    (empty / "uploads" / "000000" / f"{ME}.bin").write_bytes(parts[0].read_bytes())
    assert np.array_equal(claimed(empty, RUN, ME), words)


def test_who_is_asked_for_what_follows_from_the_last_hash_alone() -> None:
    half = AuditTerms(share=0.5)
    heads = [f"{k:064x}" for k in range(2000)]
    drawn = np.array([[half.draws(head, name) for name in NAMES] for head in heads])
    assert np.abs(drawn.mean(axis=0) - 0.5).max() < 0.05
    assert np.abs(np.corrcoef(drawn.T) - np.eye(len(NAMES))).max() < 0.08
    assert all(AuditTerms(share=1).draws(head, ME) for head in heads[:50])


def test_answers_are_signed_to_the_point_and_in_time(worlds: dict[bool, World]) -> None:
    world = worlds[False]
    books = Accounts.of(RUN, [e for e in world.entries() if e.kind != "audit"])
    asked = questions("trial", world.folder / "runs" / RUN, books)
    assert [q.member for q in asked] == list(NAMES)
    answers = [
        answer(q, world.terms, graphs_of(q.member)).signed(signer(key_of(q.member))) for q in asked
    ]
    late = NOW + timedelta(days=30)
    lines = outcome(asked, answers[:3], books, NOW, late)
    assert [x.status for x in lines] == ["present"] * 3 + ["absent"]
    assert lines[3].reason == "no answer in 30 days"
    with pytest.raises(MotifairError, match=f"'{ME}' has not answered, and has time until 2026-01"):
        outcome(asked, answers[:3], books, NOW, late - timedelta(seconds=1))
    forged = answer(asked[0], world.terms, graphs_of(ME)).signed(signer(key_of(ME)))
    changed = replace(answers[0], graphs=(-1, *answers[0].graphs[1:]))
    for one in (forged, changed):
        with pytest.raises(MotifairError, match="not signed with its key"):
            outcome(asked, [one, *answers[1:]], books, NOW, NOW)
    other = replace(answers[0], question=replace(asked[0], asked=asked[0].asked[1:]))
    with pytest.raises(MotifairError, match="not to a question of this run"):
        outcome(asked, [other], books, NOW, NOW)


def test_questions_come_after_the_last_round_and_only_by_the_terms(
    worlds: dict[bool, World],
) -> None:
    entries, folder = worlds[False].entries(), worlds[False].folder / "runs" / RUN
    books = Accounts.of(RUN, entries[:1])
    with pytest.raises(MotifairError, match="at round 0 of 1; members are drawn by"):
        questions("trial", folder, books)
    books.terms = replace(books.agreed, audit={})
    with pytest.raises(MotifairError, match="have no audit of claims"):
        questions("trial", folder, books)


def at_the_desk(world: World, name: str, folder: Path) -> list[str]:
    """A kit and graphs of a member; return the words of the command that answers."""
    kit = folder / name
    (kit / "local").mkdir(parents=True)
    (kit / "local" / TERMS).write_text(members_toml(content_of(**clause())))
    write_tu(graphs_of(name), folder / f"{name}-graphs")
    question = folder / f"question-{name}.json"
    return [
        "federation", "answer", str(question), "--kit", str(kit),
        "--graphs", str(folder / f"{name}-graphs"),
    ]  # fmt: skip


def test_a_whole_audit_ends_in_the_ledger_and_in_the_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ME` invented, `bank-c` gives no answer: both are fined, which the reserve gets."""
    world = operated(tmp_path / "operator", content_of(**clause()), inventing)
    monkeypatch.setattr(kits, "name_of", lambda kit: kit.name)  # without a certificate
    monkeypatch.setattr(agent_process, "own_key", lambda kit: key_of(kit.name))
    where = ["--run", RUN, "--folder", str(world.folder)]

    def call(*words: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, list(words))
        assert result.exit_code == code, result.output
        return result

    out = tmp_path / "desks"
    said = call("federation", "ask", "--out", str(out), *where).output
    assert said.count("is to show 8 of") == 4
    given = []
    for name in ("bank-a", "bank-b", ME):
        line = at_the_desk(world, name, out)
        path = out / f"answer-{name}.json"
        call(*line, "--out", str(path), code=int(name == ME))
        shown = json.loads(call(*line, "--json", code=int(name == ME)).output)
        assert (shown["missing"] > 0) == (name == ME)
        given.append(str(path))
    early = call("federation", "settle", *given, *where, code=1).exception
    assert isinstance(early, MotifairError)
    assert "'bank-c' has not answered" in str(early)
    result = world.folder / "runs" / RUN / "result.json"
    os.utime(result, (0, 0))  # the days have passed
    said = call("federation", "settle", *given, *where).output
    assert "bank-a: all graphs were shown; fine 0.00 EUR" in said
    assert "bank-c: no answer in 30 days; fine" in said

    entries = world.entries()
    assert verify(entries, operator=public_text(key_of("operator"))).fits
    assert entries[-1].kind == "audit"
    again = call("federation", "settle", *given, *where, code=1).exception
    assert isinstance(again, MotifairError)
    assert "is recorded in its ledger" in str(again)
    ledger = ["--ledger", str(world.folder / "ledger.sqlite")]
    rows = json.loads(call("ledger", "balance", *ledger, "--json").output)
    amounts = {r["agent"]: {k: Decimal(r[k]) for k in ("earned", "fine", "balance")} for r in rows}
    assert sum(a["balance"] for a in amounts.values()) == 100
    assert amounts[RESERVE]["balance"] == amounts[ME]["fine"] + amounts["bank-c"]["fine"] > 0
    for name in NAMES:
        due = 2 * amounts[name]["earned"] if name in (ME, "bank-c") else 0
        assert amounts[name]["fine"] == due
        text = call("statement", *ledger, "--agent", name, "--format", "json").output
        statement = json.loads(text)
        assert Decimal(statement["payoff"]) == amounts[name]["balance"]
        assert sum(map(Decimal, statement["parts"].values())) == amounts[name]["balance"]
        assert ("did not find graphs" in statement["verdict"]) == bool(due)
        assert any("Audit of claims: " in s for s in statement["sentences"])
    call("statement", *ledger, "--agent", ME, "--out", str(tmp_path / "s.html"))
    assert "of 8 graphs were not shown" in (tmp_path / "s.html").read_text()
    assert recompute(world.terms, world.folder / "runs" / RUN, entries).fits
    call("ledger", "export", *ledger, "--out", str(tmp_path / "rows.csv"))
    assert (tmp_path / "rows.csv").read_text().count(",audit,") == 4
    with world.server(f"runs/{RUN}") as drive:
        assert drive()  # the run is over: a server that starts again adds nothing
    assert world.entries() == entries
    result.unlink()  # also where it does not know that it is over
    with world.server(f"runs/{RUN}") as drive, pytest.raises(MotifairError, match="is closed"):
        drive()
    assert world.entries() == entries


def test_a_kit_of_another_member_is_refused(
    worlds: dict[bool, World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kits, "name_of", lambda kit: NAMES[0])
    line = at_the_desk(worlds[False], ME, tmp_path)
    Path(line[2]).write_text(json.dumps(asked_of(worlds[False], ME).to_json()))
    refused = CliRunner().invoke(app, line).exception
    assert isinstance(refused, MotifairError)
    assert f"for {ME}, and the kit is of {NAMES[0]}" in str(refused)


def test_files_are_read_back_and_bad_ones_are_refused(
    worlds: dict[bool, World], tmp_path: Path
) -> None:
    question = asked_of(worlds[False], ME, graphs=3)
    path = tmp_path / "file.json"
    path.write_text(json.dumps(question.to_json()))
    assert Question.read(path) == question
    content = question.to_json()
    bad = [
        {}, [], {**content, "asked": []}, {**content, "asked": ["no word"]}, {**content, "x": 1},
        {**content, "round": "1"},
    ]  # fmt: skip
    for one in bad:
        path.write_text(json.dumps(one))
        with pytest.raises(MotifairError, match="is not a question"):
            Question.read(path)
    given = answer(question, worlds[False].terms, graphs_of(ME)).signed(signer(key_of(ME)))
    path.write_text(json.dumps(given.to_json()))
    assert Answer.read(path) == given
    right = given.to_json()
    for wrong in (
        {},
        {**right, "graphs": [1]},
        {**right, "signature": 5},
        {**right, "question": 1},
    ):
        path.write_text(json.dumps(wrong))
        with pytest.raises(MotifairError, match="is not an answer"):
            Answer.read(path)
    with pytest.raises(MotifairError, match="of federation elsewhere"):
        answer(replace(question, federation="elsewhere"), worlds[False].terms, graphs_of(ME))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"audit": {"share": 0.0}}, "share must be a number above 0"),
        ({"audit": {"share": True}}, "share must be a number above 0"),
        ({"audit": {"fine": 0.5}}, "fine must be a whole number from 1"),
        ({"audit": {"graphs": 0}}, "graphs must be a whole number from 1"),
        ({"audit": {"shares": 1}}, "has no 'shares'"),
        ({"money": {}}, "name it in \\[money\\]"),
        ({"money": {"reserve": "a\nb"}}, "reserve in \\[money\\] says who holds it"),
        ({"size": "claimed"}, 'need size = "believed"'),
    ],
)
def test_terms_of_an_audit_that_cannot_be_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(MotifairError, match=words):
        make_terms(content_of(**(clause() | change)))


def test_audit_and_reserve_are_part_of_what_members_agree_to() -> None:
    made = make_terms(content_of(**clause()))
    keys = dict.fromkeys(made.members, "")
    back: FederationTerms = made.as_agreed(made.for_ledger(keys))
    assert (back.audit, back.money) == (AuditTerms(**EVERYBODY), made.money)
    others = [clause(fine=3), clause() | {"money": {"reserve": "a bank"}}]
    digests = {make_terms(content_of(**other)).digest for other in others}
    assert len(digests | {made.digest}) == 3
    plain = make_terms(content_of(rounds=1, trial_rounds=1))
    assert "reserve" not in plain.for_ledger(keys).to_json()  # as ledgers had it before


@given(st.floats(0, 1), st.sampled_from([AuditTerms(), AuditTerms(share=1, fine=1, graphs=1)]))
def test_no_share_of_invented_graphs_pays_under_the_default(f: float, audit: AuditTerms) -> None:
    assert audit.share * audit.fine >= 1
    assert audit.expected_gain(f) <= 1e-12


@given(
    f=st.floats(0.001, 0.999),
    own=st.floats(0.01, 1),
    others=st.lists(st.floats(0.01, 1), min_size=1, max_size=9),
)
def test_nor_does_it_pay_as_rounds_are_settled(f: float, own: float, others: list[float]) -> None:
    """Values in proportion to claimed graphs, settled as the ledger does."""

    def paid(graphs: float) -> int:
        total = graphs + sum(others)
        shares = {str(k): Share(round(1e12 * x / total), 0, True) for k, x in enumerate(others)}
        shares["me"] = Share(round(1e12 * graphs / total), 0, True)
        limits = {"budget": 10**6, "max_penalty": 0, "liability": dict.fromkeys(shares, 0)}
        return settle(shares, **limits)["me"]  # type: ignore[arg-type]

    audit, truly, with_claims = AuditTerms(), paid(own), paid(own / (1 - f))
    fine = audit.share * found_out(f, audit.graphs) * audit.fine * with_claims
    assert with_claims - truly - fine <= 3  # units of money that were rounded


def test_an_audit_with_too_small_a_fine_leaves_a_gain() -> None:
    assert AuditTerms(share=0.25, fine=3).expected_gain(1.0) > 0
    assert AuditTerms(share=0.1, graphs=20, fine=5).expected_gain(0.9) > 0


def test_questions_find_out_as_often_as_is_said() -> None:
    """Drawn without replacement they find out a little more often."""
    rng = np.random.default_rng(0)
    claims = np.arange(60) < 12  # a fifth is invented
    found = [rng.choice(claims, 6, replace=False).any() for _ in range(4000)]
    assert found_out(0.2, 6) - 0.02 < np.mean(found) < found_out(0.2, 6) + 0.05
