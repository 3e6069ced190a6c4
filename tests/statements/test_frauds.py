"""Each kind of fraud is noticed by a member with its kit alone, and by two verifiers alike.

The forger is the operator: it has the ledger and its own key, and computes all hashes and, where it
helps, all payoffs again. It does not have the members' keys.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from books import NAMES, RUN, line, private_key, public_key, signed, terms
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from motifair.statements.accounts import Accounts
from motifair.statements.entry import AgreedTerms, Entry, Line, terms_digest
from motifair.statements.verification import Head, signed_message, verify

OPERATOR = "operator"
SCRIPT = Path(__file__).parents[2] / "scripts" / "verify_ledger.py"
HISTORIES = 12  # honest ones; a thousand were tried by hand


@cache
def second() -> Any:
    """The verifier that imports nothing of ours."""
    spec = importlib.util.spec_from_file_location("verify_ledger", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def countersigned(given: Line, round_: int, head: str) -> Line:
    if not given.upload:
        return given
    message = signed_message(RUN, round_, given.agent, given.upload, head)
    return replace(
        given, signature=private_key(given.agent).sign(message, PKCS1v15(), SHA256()).hex()
    )


def consented(entry: Entry, by: tuple[str, ...] = NAMES, **with_keys: str) -> Entry:
    """Changed terms with the signatures of the members in `by`, or of other keys."""
    content = json.loads(entry.terms)
    content.pop("signatures", None)
    digest = terms_digest(entry.terms)
    signatures = {}
    for name in content["members"]:
        if name in by:
            message = signed_message(RUN, entry.round, name, digest, entry.previous)
            key = private_key(with_keys.get(name, name))
            signatures[name] = key.sign(message, PKCS1v15(), SHA256()).hex()
    return replace(entry, terms=json.dumps(content | {"signatures": signatures}))


def changed(*by: str, key: str = "", **terms: Any) -> list[Entry]:
    """The operator changes the terms at the end of the honest history, with some signatures."""
    books = Accounts.of(RUN, honest())
    given = json.loads(books.agreed.to_json()) | terms
    if key:
        given["members"] = given["members"] | {"bank-b": public_key(key)}
    made = consented(books.agree(json.dumps(given)), by, **({"bank-b": key} if key else {}))
    return [*honest(), signed(made, OPERATOR)]


def agreed(names: tuple[str, ...] = NAMES, **changes: object) -> AgreedTerms:
    return terms(names, operator=public_key(OPERATOR), **changes)


def history(seed: int) -> list[Entry]:
    """Three members, then four; with absences, penalties and rounds that are not settled."""
    random, books = Random(seed), Accounts(RUN)
    entries: list[Entry] = []

    def add(entry: Entry) -> None:
        entries.append(signed(replace(entry, position=f"{random.getrandbits(256):064x}"), OPERATOR))
        books.add(entries[-1])

    for names in (NAMES[:3], NAMES):
        add(consented(books.agree(agreed(names, quorum=random.choice([1, 2])))))
        for _ in range(3):
            lines = []
            for name in names:
                there = "present" if random.random() < 0.85 else "absent"
                value = random.uniform(-0.1, 0.6) if name == "bank-c" else random.uniform(0.1, 0.6)
                made = line(name, value, there, books.round + 1)
                lines.append(countersigned(made, books.round + 1, books.head))
            add(books.settle(lines))
    return entries


AUDIT = {"share": 0.5, "graphs": 8, "fine": 3, "days": 30}
SHOWN = {"bank-a": "present", "bank-b": "rejected", "bank-c": "absent", "bank-d": "absent"}


@cache
def audited(left: str = "") -> tuple[Entry, ...]:
    """A history with a reserve and, after its last round, an audit that draws `bank-a`, which shows
    its graphs, `bank-b`, which does not show all, and `bank-c`, which gives no answer.
    """
    for seed in range(1000):
        random, books, entries = Random(seed), Accounts(RUN), list[Entry]()
        names = tuple(n for n in NAMES if n != left)
        for members in (NAMES, names):
            if members != NAMES or not entries:
                made = agreed(members, rounds=2, quorum=1, reserve="the operator", audit=AUDIT)
                entries.append(signed(consented(books.agree(made)), OPERATOR))
                books.add(entries[-1])
            lines = []
            for name in members:
                there = "present" if random.random() < 0.8 else "absent"
                made_line = line(name, random.uniform(0.1, 0.6), there, books.round + 1)
                lines.append(countersigned(made_line, books.round + 1, books.head))
            entries.append(signed(books.settle(lines), OPERATOR))
            books.add(entries[-1])
        if books.drawn == list(NAMES[:3]) and books.reserve and min(books.earned.values()):
            answers = [answered(name, SHOWN[name], books) for name in books.drawn]
            return (*entries, signed(books.audit(answers), OPERATOR))
    raise AssertionError


def answered(name: str, status: str, books: Accounts) -> Line:
    made = replace(
        line(name, 0, "present", books.round),
        status=status,
        reason="" if status == "present" else "1 of 8 graphs was not shown",
        upload="" if status == "absent" else "ef" * 32,
        signature="",
    )
    return countersigned(made, books.round, books.head)


def of_audit(change: Callable[[Entry], Entry]) -> list[Entry]:
    return chained([*audited()[:-1], change(audited()[-1])])


def with_drawn(name: str, **changes: Any) -> Callable[[Entry], Entry]:
    def change(e: Entry) -> Entry:
        lines = (replace(x, **changes) if x.agent == name else x for x in e.lines)
        return replace(e, lines=tuple(lines))

    return change


AUDITS: dict[str, Callable[[], list[Entry]]] = {
    "drawn one left out": lambda: of_audit(lambda e: replace(e, lines=e.lines[1:])),
    "another one drawn": lambda: of_audit(
        lambda e: replace(e, lines=(*e.lines, replace(e.lines[0], agent="bank-d", signature="")))
    ),
    "fine let off": lambda: of_audit(with_drawn("bank-b", payoff=0)),
    "fine raised": lambda: of_audit(with_drawn("bank-c", payoff=-(10**6))),
    "fine for who showed all": lambda: of_audit(with_drawn("bank-a", payoff=-1)),
    "cleared without an answer": lambda: of_audit(
        with_drawn("bank-c", status="present", reason="", payoff=0)
    ),
    "found out without an answer": lambda: of_audit(
        with_drawn("bank-c", status="rejected", reason="8 of 8 graphs were not shown")
    ),
    "answer not signed": lambda: of_audit(with_drawn("bank-a", signature="")),
    "another answer": lambda: of_audit(with_drawn("bank-a", upload="ab" * 32)),
    "with a value": lambda: of_audit(with_drawn("bank-a", value=1)),
    "with a budget": lambda: of_audit(lambda e: replace(e, budget=5)),
    "settled": lambda: of_audit(lambda e: replace(e, settled=True)),
    "of another round": lambda: of_audit(lambda e: replace(e, round=e.round + 1)),
    "before the last round": lambda: chained([*audited()[:2], *audited()[3:]]),
    "twice": lambda: chained([*audited(), audited()[-1]]),
    "a round after it": lambda: chained([*audited(), audited()[1]]),
    "without a clause": lambda: chained([*honest(), replace(audited()[-1], round=6, lines=())]),
    "clause without a reserve": lambda: changed(*NAMES, audit=AUDIT),
    "clause without a fine": lambda: changed(*NAMES, reserve="x", audit=AUDIT | {"fine": 0}),
    "clause with other fields": lambda: changed(*NAMES, reserve="x", audit={"share": 1.0}),
}


@cache
def honest() -> tuple[Entry, ...]:
    """A history in which all members are present in round 3, its entry 3, and after it."""
    for seed in range(1000):
        made = history(seed)
        if all(x.status == "present" for e in made[3:] for x in e.lines) and made[3].settled:
            return tuple(made)
    raise AssertionError


def chained(entries: list[Entry]) -> list[Entry]:
    """Compute all hashes again, and sign as the operator."""
    done: list[Entry] = []
    for entry in entries:
        previous = done[-1].hash if done else "0" * 64
        done.append(signed(replace(entry, number=len(done), previous=previous), OPERATOR))
    return done


def settled(entries: list[Entry]) -> list[Entry]:
    """Compute all payoffs and hashes again, by the rules."""
    books, done = Accounts(RUN), []
    for entry in entries:
        made = books.agree(entry.terms) if entry.kind == "terms" else books.settle(entry.lines)
        done.append(signed(replace(made, position=entry.position), OPERATOR))
        books.add(done[-1])
    return done


def with_line(entry: Entry, **changes: Any) -> Entry:
    return replace(
        entry,
        lines=tuple(replace(x, **changes) if x.agent == "bank-b" else x for x in entry.lines),
    )


def with_terms(**changes: Any) -> list[Entry]:
    """The operator claims other terms from the first entry on."""
    made = list(honest())
    for k, entry in enumerate(made):
        if entry.kind == "terms":
            given = json.loads(entry.terms)
            made[k] = replace(entry, terms=json.dumps(given | changes))
    return made


def gone(entry: Entry, but: str = "") -> Entry:
    """Everybody but one member was absent."""
    absent: dict[str, Any] = {"status": "absent", "reason": "late", "upload": "", "signature": ""}
    lines = tuple(x if x.agent == but else replace(x, **absent) for x in entry.lines)
    return replace(entry, lines=lines)


def conspiracy() -> list[Entry]:
    """The one member that was there, by the forged history, signs all of it again."""
    books, done = Accounts(RUN), []
    for e in honest():
        if e.kind == "terms":
            made = books.agree(json.dumps(json.loads(e.terms) | {"quorum": 1}))
        else:
            lines = gone(e, "bank-a").lines
            made = books.settle([countersigned(x, e.round, books.head) for x in lines])
        done.append(signed(made, OPERATOR))
        books.add(done[-1])
    return done


def keys(**changes: str) -> dict[str, str]:
    return {n: public_key(n) for n in NAMES[:3]} | changes


LINES: dict[str, dict[str, Any]] = {
    "value": {"value": 10**12}, "value below zero": {"value": -1}, "alignment": {"alignment": 1},
    "diversity": {"diversity": 1}, "compensation": {"compensation": 99}, "kept": {"kept": 12345},
    "payoff": {"payoff": 10**6}, "rounding": {"payoff": 1}, "reason": {"reason": "it was late"},
    "upload": {"upload": "ab" * 32}, "no signature": {"signature": ""},
    "another signature": {"signature": "00" * 256},
    "forged absence": {"status": "absent", "reason": "late", "upload": "", "signature": ""},
    "forged rejection": {"status": "rejected", "reason": "too long"},
    "member renamed": {"agent": "bank-x"},
}  # fmt: skip
ENTRIES: dict[str, Callable[[Entry], Entry]] = {
    "settled denied": lambda e: replace(e, settled=not e.settled),
    "budget by one unit": lambda e: replace(e, budget=e.budget + 1),
    "budget times ten": lambda e: replace(e, budget=10 * e.budget),
    "round number": lambda e: replace(e, round=e.round + 1),
    "kind": lambda e: replace(e, kind="terms"),
    "terms in a round": lambda e: replace(e, terms="{}"),
    "position": lambda e: replace(e, position="cd" * 32),
    "position no hash": lambda e: replace(e, position="nonsense"),
    "line dropped": lambda e: replace(e, lines=e.lines[1:]),
    "line doubled": lambda e: replace(e, lines=(e.lines[0], *e.lines)),
    "lines out of order": lambda e: replace(e, lines=e.lines[::-1]),
    "stranger": lambda e: replace(e, lines=(*e.lines, replace(e.lines[0], agent="bank-x"))),
    "another run": lambda e: replace(e, run="another"),
}
TERMS: dict[str, dict[str, Any]] = {
    "budget": {"budget": 100_000}, "budget below zero": {"budget": -1}, "quorum": {"quorum": 0},
    "penalty": {"max_penalty": 9}, "total penalty": {"max_total_penalty": 9},
    "fewer rounds": {"rounds": 2}, "more rounds": {"rounds": 99}, "method": {"method": "fedavg"},
    "pays": {"pays": "equal"}, "digits": {"digits": 3}, "currency": {"currency": "USD"},
    "configuration": {"config": {"beta": 9.0}}, "no members": {"members": {}},
}  # fmt: skip
CHANGED: dict[str, Callable[[], list[Entry]]] = {
    "nobody": lambda: changed(budget=10**9),
    "all but one": lambda: changed(*NAMES[:3], quorum=1),
    "none by a member dropped and added": lambda: changed(
        *NAMES[:3], members={n: public_key(n) for n in (*NAMES[:3], "bank-x")}
    ),
    "with another key": lambda: changed(*NAMES, key="bank-z", budget=10**9),
    "signatures of the terms before": lambda: [
        *honest(),
        signed(Accounts.of(RUN, honest()).agree(_with_old_signatures(budget=10**9)), OPERATOR),
    ],
}


def _with_old_signatures(**terms: Any) -> str:
    before = next(e for e in reversed(honest()) if e.kind == "terms")
    return json.dumps(json.loads(before.terms) | terms)


WHOLE: dict[str, Callable[[], list[Entry]]] = {
    "tail cut": lambda: list(honest()[:-1]),
    "all cut": lambda: [],
    "head cut": lambda: list(honest()[1:]),
    "head cut and chained": lambda: chained(list(honest()[1:])),
    "entry dropped": lambda: chained([e for e in honest() if e.number != 3]),
    "entry doubled": lambda: chained([*honest()[:4], *honest()[3:]]),
    "entries swapped": lambda: chained([*honest()[:2], honest()[3], honest()[2], *honest()[4:]]),
    "all others absent": lambda: settled([gone(e, "bank-a") for e in honest()]),
    "all others absent, with the help of one": conspiracy,
    "all absent from the end on": lambda: settled([*honest()[:-1], gone(honest()[-1])]),
    "another history": lambda: history(12345),
    "signed by another operator": lambda: [signed(e, "bank-a") for e in honest()],
    "not signed": lambda: [replace(e, signature="") for e in honest()],
    "key of a member exchanged": lambda: settled(
        with_terms(members=keys(**{"bank-b": public_key("bank-z")}))[:4]
    ),
    "key of the operator exchanged": lambda: [
        signed(e, "bank-z") for e in chained(with_terms(operator=public_key("bank-z")))
    ],
    "key of the operator dropped": lambda: chained(with_terms(operator="")),
    "member dropped": lambda: settled(
        [
            replace(e, lines=tuple(x for x in e.lines if x.agent != "bank-b"))
            for e in with_terms(members={"bank-a": public_key("bank-a")})[:1]
        ]
    ),
}
FRAUDS: dict[str, Callable[[], list[Entry]]] = {
    **{
        f"line: {name}": lambda c=changes: chained(
            [with_line(e, **c) if e.number == 3 else e for e in honest()]
        )
        for name, changes in LINES.items()
    },
    **{
        f"line, settled by the rules: {name}": lambda c=changes: settled(
            [with_line(e, **c) if e.number == 3 else e for e in honest()]
        )
        for name, changes in LINES.items()
        if name not in ("compensation", "payoff", "rounding", "member renamed")
    },
    **{
        f"entry: {name}": lambda c=change: chained([c(e) if e.number == 3 else e for e in honest()])
        for name, change in ENTRIES.items()
    },
    **{f"terms: {name}": lambda c=c: chained(with_terms(**c)) for name, c in TERMS.items()},
    **{f"whole: {name}": made for name, made in WHOLE.items()},
    **{f"changed terms: {name}": made for name, made in CHANGED.items()},
    **{f"audit: {name}": made for name, made in AUDITS.items()},
}
# What cannot be seen without a head: nobody who was present signed what came after.
ONLY_BY_HEADS = {
    "whole: tail cut", "whole: all cut", "whole: all absent from the end on",
    "whole: another history", "whole: member dropped",
}  # fmt: skip


def plain(entries: list[Entry]) -> list[dict[str, Any]]:
    return [{"hash": e.hash, "signature": e.signature, **json.loads(e.to_json())} for e in entries]


def verdicts(entries: list[Entry], heads: list[Head]) -> tuple[bool, bool]:
    key = public_key(OPERATOR)
    theirs = second().verify(plain(entries), {h.number: h.hash for h in heads}, key)
    return verify(entries, heads, key).fits, theirs == ""


def test_there_are_at_least_fifty_kinds() -> None:
    assert len(FRAUDS) >= 50


@pytest.mark.parametrize("fraud", FRAUDS)
def test_a_fraud_is_noticed_by_both_verifiers(fraud: str) -> None:
    heads = [Head(e.number, e.hash) for e in honest() if not fraud.startswith("audit: ")]
    forged = FRAUDS[fraud]()
    assert verdicts(forged, heads) == (False, False)
    without = verdicts(forged, [])
    assert without[0] == without[1]
    assert without[0] == (fraud in ONLY_BY_HEADS)


@pytest.mark.parametrize("left", ["", "bank-c"])
def test_an_audit_fines_who_did_not_show_all_and_also_who_has_left(left: str) -> None:
    made = audited(left)
    assert verdicts(list(made), [Head(e.number, e.hash) for e in made]) == (True, True)
    books = Accounts.of(RUN, made)
    fines = {x.agent: -x.payoff for x in made[-1].lines}
    assert fines == books.audited
    assert fines == {"bank-a": 0} | {n: 3 * books.earned[n] for n in ("bank-b", "bank-c")}
    owed = sum(books.balance(name) for name in NAMES)
    assert owed + books.reserve + books.carried == 2 * 10_000
    assert any("in the reserve, which the operator holds" in n for n in verify(made).notes)
    assert any("not recorded yet; drawn: bank-a, bank-b, bank-c" in n
               for n in verify(made[:-1]).notes)  # fmt: skip


def test_terms_that_all_members_signed_may_change() -> None:
    made = changed(*NAMES, budget=77)
    assert verdicts(made, [Head(e.number, e.hash) for e in honest()]) == (True, True)
    left = changed(*NAMES[:3], members={n: public_key(n) for n in NAMES[:3]})
    assert verdicts(left, []) == (True, True)


def test_honest_histories_raise_no_alarm() -> None:
    for seed in range(HISTORIES):
        made = history(seed)
        heads = [Head(e.number, e.hash) for e in made]
        for some in (heads, heads[::2], []):
            assert verdicts(made, some) == (True, True), seed


def test_who_signed_after_an_entry_signed_it() -> None:
    """A value that pays nobody differently is still bound by the next round's signatures."""
    made = chained([with_line(e, kept=1) if e.number == 3 else e for e in honest()])
    finding = verify(made, operator=public_key(OPERATOR)).finding
    assert finding is not None
    assert (finding.number, finding.agent) == (4, "bank-a")
