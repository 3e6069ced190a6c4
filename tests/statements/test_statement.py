"""A statement adds up to the payoff, and says what is true."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest
from books import NAMES, line, make_run, terms, write
from histories import POOL, any_history, terms_of, true_history
from hypothesis import given
from hypothesis import strategies as st

from motifair.consortium.source import read_ledger
from motifair.errors import MotifairError
from motifair.mechanism.settlement import PICO
from motifair.statements.accounts import Accounts
from motifair.statements.entry import Entry
from motifair.statements.explanations import without_password
from motifair.statements.statement import PARTS, Statement, make_statement

RANDOMS = st.integers(0, 2**32).map(Random)
SIZES = {name: 10 + k for k, name in enumerate(POOL)}


def statements(entries: list[Entry], **known: object) -> dict[str, Statement]:
    names = {x.agent for e in entries for x in e.lines}
    return {n: make_statement(entries, n, **known) for n in sorted(names)}  # type: ignore[arg-type]


def agreed(
    *values: float, config: dict[str, object] | None = None, **changes: object
) -> list[Entry]:
    """One settled round in which members have these values."""
    books = Accounts("run")
    names = NAMES[: len(values)]
    made = terms(names, signed=False, quorum=1, config=config or {}, **changes)
    entries = [books.agree(made)]
    books.add(entries[0])
    entries.append(books.settle(line(n, v) for n, v in zip(names, values, strict=True)))
    return entries


# Parts add up


@given(RANDOMS)
def test_parts_add_up_to_the_payoff_to_the_unit_in_every_round_and_in_total(random: Random) -> None:
    entries = any_history(random)
    by_agent = statements(entries, graphs=SIZES)
    for name, s in by_agent.items():
        lines = [(e, x) for e in entries for x in e.lines if x.agent == name]
        assert [p.payoff for p in s.rounds] == [x.payoff for _, x in lines]
        assert [p.hash for p in s.rounds] == [e.hash for e, _ in lines]
        for p in s.rounds:
            assert sum(p.amounts.values()) == p.payoff
            assert all(type(units) is int for units in p.amounts.values())
            assert set(p.amounts) <= set(PARTS)
            if p.value_parts is not None:
                parts = vars(p.value_parts).values()
                assert sum(parts) == p.value
        assert sum(s.totals.values()) == s.payoff == sum(x.payoff for _, x in lines)
        assert sum(s.totals[part] for part in s.parts) == s.payoff


@given(RANDOMS)
def test_over_all_members_each_rule_pays_out_the_settled_budgets(random: Random) -> None:
    entries = any_history(random)
    by_agent = statements(entries, graphs=SIZES)
    settled = sum(e.budget for e in entries if e.settled)
    assert sum(s.payoff for s in by_agent.values()) == settled
    assert sum(s.equal for s in by_agent.values()) == settled
    assert sum(s.shapley or 0 for s in by_agent.values()) == settled


@given(RANDOMS)
def test_every_amount_is_its_part_of_the_budget_and_rounding_is_small(random: Random) -> None:
    entries, _ = true_history(random)
    for name, s in statements(entries).items():
        for p in s.rounds:
            entry = entries[p.number]
            if not p.settled or p.status != "present" or p.value < 0:
                continue
            gains = sum(
                x.value + x.compensation
                for x in entry.lines
                if x.value >= 0 and x.status == "present"
            )
            assert p.value_parts is not None
            for part, pico in {**vars(p.value_parts), "compensation": p.compensation}.items():
                due = Fraction(entry.budget * pico, gains)
                assert abs(p.amounts[part] - due) <= Fraction(1, 2), (name, part)
            fines = sum(-x.payoff for x in entry.lines if x.payoff < 0)
            due = Fraction(fines * (p.value + p.compensation), gains)
            assert abs(p.amounts["redistribution"] - due) <= Fraction(1, 2)
            assert abs(p.amounts["rounding"]) <= 3


# Parts are correct


@given(RANDOMS, st.sampled_from([-1.0, -0.3, 0.1]))
def test_parts_of_the_value_are_those_of_a_naive_recursion(random: Random, low: float) -> None:
    entries, states = true_history(random, low)
    rounds = [e for e in entries if e.kind == "round"]
    for name, s in statements(entries).items():
        for p in s.rounds:
            naive = states[rounds.index(entries[p.number])]
            assert p.value_parts is not None
            for stated, part in zip(vars(p.value_parts).values(), naive.parts, strict=True):
                assert abs(stated - part[name] * PICO) <= 1000, (name, p.round)
            assert "does not follow" not in p.note


@given(RANDOMS)
def test_a_value_that_does_not_follow_from_what_is_recorded_is_told(random: Random) -> None:
    entries, _ = true_history(random)
    (first, *others), books = entries, Accounts("random")
    books.add(first)
    a, *rest = others[0].lines
    entry = books.settle([replace(a, value=a.value + 10**6), *rest])
    noted = make_statement([first, entry], a.agent).rounds[0].note
    assert noted.endswith("the value does not follow from the recorded evidence: ask for an audit")


def test_a_round_by_hand() -> None:
    config = {
        "value_rate": 1.0, "value_update": "additive", "evidence": "sum", "initial_value": "equal",
    }  # fmt: skip
    books = Accounts("run")
    made = terms(NAMES[:2], signed=False, config={**config, "diversity_weight": 0.0})
    entries = [books.agree(made)]
    books.add(entries[0])
    first, second = line(NAMES[0], 0.75), line(NAMES[1], 0.25)
    lines = [replace(first, alignment=PICO), replace(second, alignment=0)]
    entries.append(books.settle(lines))
    a, b = (s.rounds[0] for s in statements(entries).values())
    assert a.amounts | {"rounding": 0} == {
        "initial": 2_500, "alignment": 5_000, "diversity": 0, "adjustment": 0, "compensation": 0,
        "redistribution": 0, "rounding": 0,
    }  # fmt: skip
    assert (b.amounts["initial"], b.amounts["alignment"], b.payoff) == (2_500, 0, 2_500)
    assert (a.lean, b.lean) == (1.0, 0.0)


def test_nothing_of_the_initial_value_is_paid_where_the_first_round_sets_the_values() -> None:
    config = {"initial_value": "evidence", "diversity_weight": 0.0, "value_rate": 0.2}
    books = Accounts("run")
    entries = [books.agree(terms(NAMES[:2], signed=False, config=config))]
    books.add(entries[0])
    for _ in range(2):  # the same evidence again changes nothing
        pairs = ((NAMES[0], 0.75), (NAMES[1], 0.25))
        lines = [replace(line(n, v), alignment=round(v * PICO)) for n, v in pairs]
        entries.append(books.settle(lines))
        books.add(entries[-1])
    for s, paid in zip(statements(entries).values(), (7_500, 2_500), strict=True):
        for p in s.rounds:
            assert "does not follow" not in p.note
            assert {k: v for k, v in p.amounts.items() if v} == {"alignment": paid}
        assert "it starts with what a member's first round shows" in s.sentences[0]


@pytest.mark.parametrize(
    ("about", "values"),
    [
        ({"value_guard": False}, (0.8, 0.2)),
        ({"value_guard": True}, (17 / 22, 5 / 22)),
        ({"profile": "paper"}, (17 / 22, 5 / 22)),  # terms of 0.1, without the option
    ],
)
def test_opposed_evidence_is_raised_where_the_terms_say_so(
    about: dict[str, object], values: tuple[float, float]
) -> None:
    config = {
        "value_rate": 1.0, "value_update": "additive", "evidence": "sum", "initial_value": "equal",
        **about,
    }  # fmt: skip
    books = Accounts("run")
    made = terms(NAMES[:2], signed=False, config={**config, "diversity_weight": 0.0})
    entries = [books.agree(made)]
    books.add(entries[0])
    first, second = (line(name, value) for name, value in zip(NAMES, values, strict=False))
    lines = [replace(first, alignment=PICO // 2), replace(second, alignment=-PICO // 4)]
    entries.append(books.settle(lines))
    for statement in statements(entries).values():
        assert "does not follow" not in statement.rounds[0].note
        assert (statement.rounds[0].amounts["adjustment"] == 0) == (values[0] == 0.8)


def test_the_federation_leans_on_updates_by_weight_and_by_the_alignment_of_the_round_alone() -> (
    None
):
    config = {
        "alignment_against": "all", "alignment_rate": 0.5, "aggregation": "size",
        "value_rate": 0.05,
    }  # fmt: skip
    entries = two_rounds(config)
    s = make_statement(entries, NAMES[0], graphs={NAMES[0]: 30, NAMES[1]: 10})
    assert [p.lean for p in s.rounds] == pytest.approx([12 / 14, 12 / 18])
    assert [p.round for p in s.leaned_on] == [1, 2]
    by_value = make_statement(entries, NAMES[0])
    assert [p.lean for p in by_value.rounds] == pytest.approx([2 / 3, 0.4])
    assert "weighted by value" in by_value.sentences[-1]


def test_coverage_is_a_share_of_the_step_whatever_the_weights() -> None:
    entries = two_rounds({"alignment_against": "coverage"})
    for graphs in ({NAMES[0]: 30, NAMES[1]: 10}, {}):
        s = make_statement(entries, NAMES[0], graphs=graphs)
        assert [p.lean for p in s.rounds] == pytest.approx([2 / 3, 0.5])
        assert s.leaning.startswith("Its share of the round's coverage")
        assert not any("weighted by value" in sentence for sentence in s.sentences)


def two_rounds(config: dict[str, object]) -> list[Entry]:
    """Two members whose alignments are 0.4 and 0.2, then 0.4 and 0.4."""
    books = Accounts("run")
    entries = [books.agree(terms(NAMES[:2], signed=False, config=config))]
    books.add(entries[0])
    for phi in ((0.4, 0.2), (0.4, 0.4)):  # with rate 0.5, of the second alone: 0.4 and 0.6
        pairs = zip(NAMES, phi, strict=False)
        lines = [replace(line(n, 0.5), alignment=round(x * PICO)) for n, x in pairs]
        entries.append(books.settle(lines))
        books.add(entries[-1])
    return entries


VOTED = {"alignment_against": "peers-by-value", "diversity_weight": 8.0}


@pytest.mark.parametrize(
    ("config", "adds", "is_"),
    [
        ({}, "each round adds coverage, and", "what its graphs are worth to the others"),
        (VOTED, "adds alignment and diversity, and", "agreement of its updates with the"),
        ({**VOTED, "diversity_weight": 0.0}, "adds alignment, and", "agreement of its updates"),
        (
            {"diversity_weight": 1.0},
            "adds coverage and diversity, and",
            "what its graphs are worth",
        ),
    ],
)
def test_words_are_those_of_what_the_terms_pay(
    config: dict[str, object], adds: str, is_: str
) -> None:
    s = make_statement(agreed(0.5, 0.3, 0.2, config=config), NAMES[0])
    assert adds in s.sentences[0]
    assert s.meaning["alignment"].startswith(is_)
    assert ("diversity" in s.parts) == (config.get("diversity_weight", 0.0) != 0)


def test_terms_that_change_to_coverage_are_explained_by_both_meanings() -> None:
    books = Accounts("run")
    entries = []
    for config in (VOTED, {}):
        entries.append(books.agree(terms(NAMES[:2], signed=False, config=config)))
        books.add(entries[-1])
        entries.append(books.settle([line(n, 0.5) for n in NAMES[:2]]))
        books.add(entries[-1])
    s = make_statement(entries, NAMES[0])
    assert s.alignments == ("alignment", "coverage")
    assert "agreement of its updates" in s.meaning["alignment"]
    assert "what its graphs are worth to the others" in s.meaning["alignment"]
    assert len({p for p in s.sentences if "each round adds" in p}) == 2


def test_who_pays_equally_and_methods_of_another_rule_are_not_taken_apart() -> None:
    s = make_statement(agreed(0.5, 0.3, 0.2, method="fedavg", pays="equal"), NAMES[0])
    assert s.rounds[0].amounts == {"equal": 3_333, "rounding": 1}
    assert "paid the same" in s.sentences[0]
    s = make_statement(agreed(0.5, 0.3, 0.2, method="of-their-own"), NAMES[0])
    assert s.rounds[0].amounts["value"] == 5_000
    assert s.rounds[0].value_parts is None
    assert "its own rule" in s.sentences[0]
    assert s.leaned_on == ()


# What is unusual about a round


def test_a_penalty_is_one_part_and_says_which_limit_kept_it_low() -> None:
    values = (0.9, 0.5, -0.4)
    other: dict[str, object] = {"method": "of-their-own"}  # accepts any value
    free = agreed(*values, **other, max_penalty=9_000, max_total_penalty=9_000)
    assert make_statement(free, NAMES[2]).rounds[0].note == ""
    for caps, words in (((500, 9_000), "per round"), ((9_000, 400), "in total")):
        entries = agreed(*values, **other, max_penalty=caps[0], max_total_penalty=caps[1])
        p = make_statement(entries, NAMES[2]).rounds[0]
        assert p.amounts == {"penalty": -min(caps)}
        assert p.note == f"penalty limited by what the terms allow {words}"
        gained = make_statement(entries, NAMES[0]).rounds[0]
        assert gained.amounts["redistribution"] == pytest.approx(min(caps) * 0.9 / 1.4, abs=1)


def test_rounds_without_pay_say_why() -> None:
    books = Accounts("run")
    entries = [books.agree(terms(signed=False, quorum=2, method="of-their-own"))]
    books.add(entries[0])
    for status in (("present", "absent"), ("present", "rejected"), ("absent", "present")):
        first, second = status
        rest = "absent" if second == "absent" else "present"
        lines = [line(NAMES[0], 0.4, first), line(NAMES[1], 0.3, second)]
        lines += [line(n, 0.1, rest) for n in NAMES[2:]]
        entries.append(books.settle(lines))
        books.add(entries[-1])
    a, b = (make_statement(entries, n) for n in NAMES[:2])
    assert a.rounds[0].note == "not settled (below the quorum), the budget is carried over"
    assert b.rounds[0].note.startswith("absent (no answer in 60 s); not settled")
    assert b.rounds[1].note == "rejected (no answer in 60 s)"
    assert a.rounds[2].note == "absent (no answer in 60 s)"
    assert [p.payoff > 0 for p in a.rounds] == [False, True, False]
    assert a.rounds[2].amounts == a.rounds[0].amounts == {}
    entries = agreed(-0.5, -0.5)
    assert "no present member could be paid" in make_statement(entries, NAMES[0]).rounds[0].note


# Other contents


@given(st.randoms(use_true_random=False), st.sampled_from(["value", "equal"]))
def test_with_a_reserve_a_member_reads_what_it_missed_and_where_it_went(
    random: Random, pays: str
) -> None:
    entries = make_run(6, seed=random.randrange(10**6), signed=False, pays=pays, reserve="the bank")
    made = statements(entries)
    missed = {name: sum(p.withheld for p in s.rounds) for name, s in made.items()}
    assert sum(missed.values()) == Accounts.of(entries[0].run, entries).reserve
    for name, s in made.items():
        assert sum(s.totals.values()) == s.payoff
        for p in s.rounds:
            assert sum(p.amounts.values()) == p.payoff
            assert abs(p.amounts.get("rounding", 0)) <= 6
            assert ("went to the reserve" in p.note) == (p.withheld > 0)
        told = [x for x in s.sentences if "went to the reserve, which the bank holds" in x]
        assert len(told) == (missed[name] > 0)


def test_motifs_are_marked_by_who_else_has_them_and_by_whether_they_count() -> None:
    motifs = {
        NAMES[0]: ("ring 1 1 1", "bond 0 0", "bond 0 1"),
        NAMES[1]: ("bond 0 1",),
        NAMES[2]: (),
    }
    for needed in (1, 2):
        entries = agreed(0.5, 0.3, 0.2, config={"corroboration": needed, "diversity_weight": 1.0})
        s = make_statement(entries, NAMES[0], motifs=motifs)
        assert s.motifs is not None
        assert [(m.key, m.others, m.counts) for m in s.motifs] == [
            ("bond 0 0", 0, needed == 1),
            ("ring 1 1 1", 0, needed == 1),
            ("bond 0 1", 1, True),
        ]
    idle = make_statement(agreed(0.5, 0.3, 0.2), NAMES[0], motifs=motifs)
    assert idle.motifs is not None
    assert [m.counts for m in idle.motifs] == [None] * 3
    assert make_statement(entries, NAMES[0]).motifs is None


def test_without_numbers_of_graphs_there_is_no_shapley_payoff_and_a_sentence_says_so() -> None:
    entries = agreed(0.5, 0.3, 0.2)
    s = make_statement(entries, NAMES[0])
    assert s.shapley is None
    assert "unknown here" in s.sentences[-1]
    s = make_statement(entries, NAMES[0], graphs=dict.fromkeys(NAMES[:3], 7))
    assert s.shapley == s.equal == 3_334
    s = make_statement(entries, NAMES[0], graphs=dict.fromkeys(NAMES[:2], 7))
    assert NAMES[2] in s.sentences[-1]


def test_the_json_has_exact_amounts_that_add_up_and_the_hash_of_every_entry() -> None:
    entries = make_run()
    s = make_statement(entries, NAMES[0], ledger="postgresql://me:secret@host/db")
    content = s.to_json()
    cents = {k: int(v.replace(".", "")) for k, v in content["parts"].items()}
    assert sum(cents.values()) == s.payoff == int(content["payoff"].replace(".", ""))
    assert content["ledger"] == {"entries": len(entries), "head": entries[-1].hash}
    assert [r["hash"] for r in content["rounds"]] == [e.hash for e in entries[1:]]
    assert set(content["parts"]) == set(content["meaning"])
    commands = [c["command"] for c in content["verification"]]
    verify = "motifair ledger verify --ledger postgresql://me@host/db"
    assert commands[0] == f"{verify} --heads HEADS --operator-key KEY"
    assert commands[1] == "motifair ledger audit --folder FOLDER --run bank-run"
    assert "secret" not in str(content)


def test_one_round_alone_has_its_own_totals() -> None:
    s = make_statement(make_run(), NAMES[0])
    one = s.only(2)
    assert one.payoff == s.rounds[1].payoff == sum(one.totals.values())
    with pytest.raises(MotifairError, match="not a member in round 9; its rounds are 1 to 6"):
        s.only(9)


def test_mistakes_end_in_a_sentence() -> None:
    entries = make_run(2)
    with pytest.raises(MotifairError, match=r"no agent 'bank-x'.*bank-a, bank-b, bank-c, bank-d"):
        make_statement(entries, "bank-x")
    with pytest.raises(MotifairError, match="has no terms"):
        make_statement([], "bank-a")
    with pytest.raises(MotifairError, match="damaged"):
        make_statement([replace(entries[0], terms="{}"), *entries[1:]], "bank-a")
    first, *others = entries[1].lines
    forged = replace(entries[1], lines=(replace(first, payoff=first.payoff + 1), *others))
    with pytest.raises(MotifairError, match=r"Round 1 .*motifair ledger verify"):
        make_statement([entries[0], forged, entries[2]], "bank-b")
    begun = make_statement(entries[:1], "bank-a")
    assert (begun.payoff, begun.rounds, begun.parts) == (0, (), ())


def test_a_password_does_not_stand_in_a_statement() -> None:
    for url in ("postgresql://a:p@w:rd@h/db", "postgresql://a@h/db?password=p@w:rd"):
        assert without_password(url) == "postgresql://a@h/db"


def test_terms_in_which_a_limit_is_nothing_are_no_trouble() -> None:
    books = Accounts("run")
    made = terms_of(Random(0), ["a"], budget=0, max_penalty=0, max_total_penalty=0, quorum=0)
    entries = [books.agree(made)]
    books.add(entries[0])
    entries.append(books.settle([line("a", 1.0)]))
    assert make_statement(entries, "a").payoff == 0


def test_a_ledger_in_a_database_gives_the_same_statement(place: str) -> None:
    entries = make_run()
    write(place, entries)
    assert make_statement(read_ledger(place), NAMES[0]) == make_statement(entries, NAMES[0])
    with pytest.raises(MotifairError, match="There is no run 'x'"):
        read_ledger(place, "x")
    write(place, make_run(1, run="another"))
    with pytest.raises(MotifairError, match=r"2 runs \(another, bank-run\); name one"):
        read_ledger(place)
