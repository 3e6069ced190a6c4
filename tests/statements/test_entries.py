"""The hash of an entry covers all of its content."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from hashlib import sha256

import pytest
from books import NAMES, make_run, terms
from hypothesis import given
from hypothesis import strategies as st

from motifair.statements.entry import AgreedTerms, Entry, Line, canonical, clean_reason

whole = st.integers(-(2**63) + 1, 2**63 - 1)
counts = st.integers(0, 2**63 - 1)
hexes = st.binary(min_size=32, max_size=32).map(bytes.hex)
lines = st.builds(
    Line,
    agent=st.text(min_size=1),
    status=st.sampled_from(["present", "absent", "rejected"]),
    reason=st.just(""),
    value=whole,
    alignment=st.none() | whole,
    diversity=st.none() | whole,
    compensation=whole,
    kept=whole,
    payoff=whole,
    upload=st.just("") | hexes,
    signature=st.just("") | hexes,
    recorded=st.none(),
)
entries = st.builds(
    Entry,
    run=st.text(),
    number=counts,
    kind=st.just("round"),
    round=counts,
    settled=st.booleans(),
    budget=counts,
    terms=st.just(""),
    lines=st.lists(lines, max_size=3, unique_by=lambda x: x.agent).map(
        lambda lines: tuple(sorted(lines, key=lambda x: x.agent))
    ),
    previous=hexes,
    recorded=st.none(),
)


@given(entries)
def test_an_entry_is_read_back_exactly(entry: Entry) -> None:
    again = Entry.from_json(entry.to_json())
    assert again == entry
    assert again.to_json() == entry.to_json()
    assert again.hash == entry.hash
    assert list(entry.flaws()) == []


@given(entries)
def test_the_hash_is_of_canonical_json(entry: Entry) -> None:
    text = entry.to_json()
    assert text.isascii()
    assert json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) == text
    assert sha256(text.encode()).hexdigest() == entry.hash


@given(entries, entries)
def test_entries_with_equal_hashes_are_equal(one: Entry, other: Entry) -> None:
    assert (one.hash == other.hash) == (one == other)


CHANGES: dict[str, object] = {
    "run": "other", "number": 9, "kind": "terms", "round": 9, "settled": False, "budget": 9,
    "terms": "{}", "lines": (), "previous": "1" * 64, "position": "1" * 64,
}  # fmt: skip
LINE_CHANGES: dict[str, object] = {
    "agent": "other", "status": "rejected", "reason": "late", "value": 9, "alignment": None,
    "diversity": 9, "compensation": 9, "kept": 9, "payoff": 9, "upload": "1" * 64,
    "signature": "11",
}  # fmt: skip


def test_every_field_is_in_the_hash() -> None:
    entry = make_run(1)[1]
    assert {f.name for f in fields(Entry)} - {"recorded", "signature"} == CHANGES.keys()
    assert {f.name for f in fields(Line)} - {"recorded"} == LINE_CHANGES.keys()
    hashes = {entry.hash}
    for name, new in CHANGES.items():
        hashes.add(replace(entry, **{name: new}).hash)  # type: ignore[arg-type]
    for name, new in LINE_CHANGES.items():
        line = replace(entry.lines[0], **{name: new})  # type: ignore[arg-type]
        hashes.add(replace(entry, lines=(line, *entry.lines[1:])).hash)
    assert len(hashes) == 1 + len(CHANGES) + len(LINE_CHANGES)


def test_the_hash_of_a_line_knows_its_place() -> None:
    entry = make_run(1)[1]
    line = entry.lines[0]
    places = [entry, replace(entry, number=7), replace(entry, run="other")]
    assert len({place.line_hash(line) for place in places}) == 3


def test_the_same_run_has_the_same_bytes() -> None:
    assert [e.to_json() for e in make_run()] == [e.to_json() for e in make_run()]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("status", "late"),
        ("reason", "two\nlines"),
        ("reason", "present, with a reason"),
        ("value", 0.5),
        ("value", 2**63),
        ("value", None),
        ("alignment", True),
        ("kept", "3"),
        ("upload", "AB" * 32),
        ("upload", "ab"),
        ("signature", "abc"),
    ],
)
def test_what_cannot_be_in_a_line_is_named(name: str, wrong: object) -> None:
    entry = make_run(1)[1]
    line = replace(entry.lines[2], **{name: wrong})  # type: ignore[arg-type]
    lines = (*entry.lines[:2], line, *entry.lines[3:])
    assert {agent for agent, _ in replace(entry, lines=lines).flaws()} == {NAMES[2]}


def test_a_signature_is_beside_what_is_hashed() -> None:
    entry = make_run(1)[1]
    signed = entry.signed(lambda text: text[:2])
    assert signed.signature == entry.hash[:2].encode().hex()
    assert (signed, signed.hash, signed.to_json()) == (entry, entry.hash, entry.to_json())
    assert [*replace(entry, signature="no hex").flaws()] == [
        ("", "the operator's signature is not in hex")
    ]


def test_terms_without_an_operator_have_the_text_of_motifair_0_1() -> None:
    assert "operator" not in terms().to_json()
    assert AgreedTerms.from_json(terms(operator="key").to_json()).operator == "key"


def test_terms_are_read_back_and_infinities_are_named() -> None:
    some = terms(config={"beta": float("inf"), "seed": 3})
    assert AgreedTerms.from_json(some.to_json()) == replace(some, config={"beta": "inf", "seed": 3})
    more = canonical(json.loads(some.to_json()) | {"note": "may be there"})
    assert AgreedTerms.from_json(more).budget == some.budget


@given(st.text(st.characters()))
def test_any_text_can_be_made_a_reason(text: str) -> None:
    reason = clean_reason(text)
    assert reason.isprintable()
    assert len(reason) <= 300
    assert clean_reason(reason) == reason.strip()
