"""From recorded values to payoffs, round after round."""

from __future__ import annotations

from dataclasses import replace

import pytest
from books import NAMES, line, make_run, terms
from hypothesis import given
from hypothesis import strategies as st

from motifair.mechanism.settlement import PICO
from motifair.statements.accounts import Accounts
from motifair.statements.entry import Entry, Line


def books_with(**changes: object) -> Accounts:
    books = Accounts("run")
    books.add(books.agree(terms(signed=False, **changes)))  # type: ignore[arg-type]
    return books


def settle(books: Accounts, *lines: Line) -> Entry:
    entry = books.settle(lines)
    books.add(entry)
    return entry


def payoffs(entry: Entry) -> dict[str, int]:
    return {x.agent: x.payoff for x in entry.lines}


@given(st.integers(0, 10**6), st.integers(0, 4000), st.integers(0, 9000))
def test_every_unit_of_every_budget_is_paid_or_carried_and_no_cap_is_passed(
    seed: int, cap: int, total: int
) -> None:
    run = make_run(12, seed=seed, max_penalty=cap, max_total_penalty=total, signed=False)
    books = Accounts.of(run[0].run, run)
    balance = sum(books.earned.values()) - sum(books.fined.values())
    assert balance + books.carried == 12 * 10_000
    assert max(books.fined.values()) <= total
    assert all(x.payoff >= -cap for e in run for x in e.lines)
    for entry in run[1:]:
        assert sum(x.payoff for x in entry.lines) == (entry.budget if entry.settled else 0)


def test_below_the_quorum_nothing_is_settled_and_the_budget_is_carried_over() -> None:
    books = books_with(quorum=2)
    away = [line(n, 0.25, "absent") for n in NAMES[1:3]]
    few = [line(NAMES[0], 0.5), *away, line(NAMES[3], -0.25, "rejected")]
    for carried in (1, 2):
        entry = settle(books, *few)
        assert not entry.settled
        assert entry.budget == carried * 10_000
        assert set(payoffs(entry).values()) == {0}
    entry = settle(books, line(NAMES[0], 0.5), line(NAMES[1], 0.5), *few[2:])
    assert entry.settled
    assert entry.budget == 30_000
    assert sum(payoffs(entry).values()) == 30_000
    assert settle(books, *(line(n, 0.25) for n in NAMES)).budget == 10_000


def test_where_nobody_present_has_a_value_the_budget_is_carried_over() -> None:
    books = books_with()
    entry = settle(books, *(line(n, -0.1) for n in NAMES[:3]), line(NAMES[3], 0.9, "absent"))
    assert not entry.settled
    assert books.carried == 10_000
    assert books.fined[NAMES[0]] == 0


def test_a_member_pays_no_more_than_its_total_over_all_rounds() -> None:
    books = books_with(max_penalty=2_000, max_total_penalty=3_000)
    bad = [line(NAMES[0], 0.9), line(NAMES[1], 0.5), line(NAMES[2], 0.1)]
    paid = [payoffs(settle(books, *bad, line(NAMES[3], -0.5, s)))[NAMES[3]]
             for s in ("present", "absent", "present")]  # fmt: skip
    assert paid == [-2_000, -1_000, 0]


def test_compensation_is_over_the_settled_rounds_in_which_a_member_was_present() -> None:
    books = books_with(quorum=2)
    a, b, c, d = NAMES
    rest = [line(c, 0.1), line(d, 0.1)]
    settle(books, line(a, 0.2), line(b, 0.6), *rest)
    settle(books, line(a, 0.9), *(line(n, 0.6, "absent") for n in (b, c, d)))  # not settled
    settle(books, line(a, 0.7, "absent"), line(b, 0.6), *rest)
    settle(books, line(a, 0.7, "rejected"), line(b, 0.6), *rest)
    entry = settle(books, line(a, 0.5), line(b, 0.6), *rest)
    assert entry.lines[0].compensation == 3 * PICO // 10
    assert entry.lines[1].compensation == 0
    later = settle(books, line(a, 0.35), line(b, 0.6), *rest)
    assert later.lines[0].compensation == 0


def test_a_compensation_stands_only_where_it_is_paid() -> None:
    for pays, quorum, status in (
        ("equal", 1, "present"), ("value", 4, "absent"), ("value", 1, "absent"),
    ):  # fmt: skip
        books = books_with(pays=pays, quorum=1)
        settle(books, *(line(n, 0.1) for n in NAMES))
        books.terms = replace(books.agreed, quorum=quorum)
        entry = books.settle([line(NAMES[0], 0.9, status), *(line(n, 0.1) for n in NAMES[1:])])
        assert entry.lines[0].compensation == 0


def test_equal_pay_is_for_who_is_present_whatever_the_value() -> None:
    books = books_with(pays="equal")
    entry = settle(
        books, line(NAMES[0], 5), line(NAMES[1], -3), line(NAMES[2], 0), line(NAMES[3], 1, "absent")
    )
    assert list(payoffs(entry).values()) == [3334, 3333, 3333, 0]


@given(st.integers(0, 10_000), st.sampled_from(["value", "equal"]))
def test_what_absent_members_miss_is_in_the_reserve_to_the_unit(seed: int, pays: str) -> None:
    run = make_run(8, seed=seed, signed=False, pays=pays, reserve="the operator")
    books = Accounts(run[0].run)
    for entry in run:
        before, missed = books.reserve, books.withheld(entry) if entry.kind == "round" else {}
        books.add(entry)
        assert books.reserve - before == sum(missed.values())
        assert all(x.payoff <= 0 for x in entry.lines if x.status != "present")
    paid = sum(books.balance(name) for name in NAMES)
    assert paid + books.reserve + books.carried == 10_000 * books.round
    assert Accounts.of(run[0].run, make_run(8, seed=seed, signed=False, pays=pays)).reserve == 0


@pytest.mark.parametrize("pays", ["value", "equal"])
def test_with_a_reserve_nobody_gains_by_another_s_absence(pays: str) -> None:
    values = dict(zip(NAMES, (0.4, 0.3, 0.2, -0.1), strict=True))
    for reserve in ("", "the operator"):
        books = books_with(pays=pays, reserve=reserve, quorum=1)
        full = payoffs(books.settle([line(n, v) for n, v in values.items()]))
        some = payoffs(
            books.settle(
                [line(n, v, "absent" if n == "bank-b" else "present") for n, v in values.items()]
            )
        )
        assert some.pop("bank-b") == 0
        gained = [units - full[name] for name, units in some.items()]
        assert (gained == [0, 0, 0]) == bool(reserve)
        assert max(gained) > 0 or reserve


def test_a_round_in_which_only_absent_members_have_a_value_is_not_settled() -> None:
    books = books_with(reserve="the operator", quorum=1)
    entry = settle(books, line(NAMES[0], 0.9, "absent"), *(line(n, 0) for n in NAMES[1:]))
    assert (entry.settled, books.carried, books.reserve) == (False, 10_000, 0)


@given(st.integers(0, 1000), st.permutations(range(4)))
def test_settling_an_entry_again_gives_the_same_entry(seed: int, order: list[int]) -> None:
    run = make_run(8, seed=seed, signed=False)
    books = Accounts(run[0].run)
    for entry in run:
        if entry.kind == "round":
            assert books.settle([entry.lines[i] for i in order]) == entry
        books.add(entry)
    assert books == Accounts.of(run[0].run, run)


def test_new_terms_keep_what_was_carried_and_what_was_paid() -> None:
    books = books_with(quorum=4)
    bad = [line(n, v) for n, v in zip(NAMES, (0.9, 0.5, 0.1, -0.5), strict=True)]
    settle(books, *bad)
    settle(books, *bad[:3], line(NAMES[3], -0.5, "absent"))
    books.add(books.agree(terms(NAMES[:3], signed=False, budget=500)))
    entry = settle(books, *bad[:3])
    assert (entry.number, entry.round, entry.budget) == (4, 3, 10_500)
    assert books.fined[NAMES[3]] == 2_000
