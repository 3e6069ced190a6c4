"""Terms: errors in one sentence, and the same digest for the same terms."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
from deployed import NAMES, content_of, key_of, terms_of
from hypothesis import given
from hypothesis import strategies as st

from motifair.consortium.terms import SIMULATION_ONLY, FederationTerms, make_terms, read_terms
from motifair.errors import MotifairError
from motifair.methods import METHODS
from motifair.statements.entry import AgreedTerms
from motifair.statements.signatures import public_text

GONE = object()


def changed(**sections: Any) -> dict[str, Any]:
    """The content with some keys of some sections set or removed."""
    asked = sections.get("training")
    method = {k: v for k, v in asked.items() if k == "method"} if isinstance(asked, dict) else {}
    content = copy.deepcopy(content_of(**method))
    for name, changes in sections.items():
        if not isinstance(changes, dict):
            content[name] = changes
            continue
        section = content.setdefault(name, {}) | changes
        content[name] = {k: v for k, v in section.items() if v is not GONE}
    return {k: v for k, v in content.items() if v is not GONE}


def sentence(content: dict[str, Any]) -> str:
    """The one-sentence error of refused terms."""
    with pytest.raises(MotifairError) as error:
        make_terms(content)
    text = str(error.value)
    assert "\n" not in text
    assert re.match(r"[A-Z\[a-z]", text)
    assert text.endswith((".", "?"))
    return text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (changed(federation={"members": ["a", "b", "a"]}), "Two members are called 'a'"),
        (changed(federation={"members": ["a"]}), "at least two members"),
        (changed(federation={"members": "a, b"}), "at least two members"),
        (changed(federation={"members": ["a", "B"]}), "name is 'B'; use lower-case letters"),
        (changed(federation={"members": ["a", "b c"]}), "A member's name is 'b c'"),
        (changed(federation={"members": ["a", "../b"]}), "A member's name is '../b'"),
        (changed(federation={"members": ["a", ""]}), "A member's name is ''"),
        (changed(federation={"members": ["a", 5]}), "A member's name is '5'"),
        (changed(federation={"members": ["a", "b" * 64]}), "at most 63"),
        (changed(federation={"name": "Our Trial"}), "The federation's name is 'Our Trial'"),
        (changed(federation={"name": GONE}), "has no 'name'; add it to [federation]"),
        (changed(federation={"quorum": 5}), "quorum must be a whole number from 1 to 4, not 5"),
        (changed(federation={"quorum": 0}), "quorum must be"),
        (changed(federation={"quorum": 2.0}), "quorum must be a whole number"),
        (changed(federation={"quorum": True}), "quorum must be a whole number"),
        (changed(federation={"quorum": GONE}), "federation.toml has no 'quorum'"),
        (changed(federation={"deadline": 0}), "deadline must be a number"),
        (changed(federation={"deadline": "60"}), "deadline must be a number"),
        (changed(federation={"deadline": float("nan")}), "deadline must be a number"),
        (changed(federation={"max_norm": -1}), "max_norm must be a number"),
        (changed(federation={"max_norm": float("inf")}), "max_norm must be a number"),
        (changed(federation={"max_size_ratio": 0.5}), "max_size_ratio must be a number from 1"),
        (changed(federation={"max_time_ratio": 1.0}), "max_time_ratio must be a number from 2"),
        (changed(federation={"quorom": 2}), "[federation] has no 'quorom'. Did you mean quorum?"),
        (changed(federation=5), "[federation] of federation.toml must be a section"),
        (changed(federation=GONE), "federation.toml has no '"),
        (changed(server={"pord": 1}), "[server] has no 'pord'. Did you mean port?"),
        (changed(server="localhost"), "[server] of federation.toml must be a section"),
        (changed(mony={"budget": "1"}), "no section 'mony'. Did you mean money?"),
        (changed(money={"budget": 100.0}), "budget must be an amount in quotes"),
        (changed(money={"max_penalty": 0.5}), "max_penalty must be an amount in quotes"),
        (changed(money={"max_total_penalty": "-1"}), "max_total_penalty must be an amount"),
        (changed(money={"budget": "a lot"}), "budget must be an amount"),
        (changed(money={"budget": "NaN"}), "budget must be an amount"),
        (changed(money={"budget": "Infinity"}), "budget must be an amount"),
        (changed(money={"budget": "1000000000"}), "budget must be an amount"),
        (changed(money={"budget": None}), "budget must be an amount"),
        (changed(money={"budget": "0.0000001"}), "at most 6 decimal places"),
        (changed(money={"tax": "1"}), "[money] has no 'tax'"),
        (changed(money={"currency": GONE}), "federation.toml has no 'currency'; add it to [money]"),
        (changed(money=GONE), "federation.toml has no 'budget'; add it to [money]"),
        (changed(training={"method": "gcfl"}), "gcfl runs in simulation only; use motifair"),
        (changed(training={"method": "gcfl+"}), "runs in simulation only"),
        (changed(training={"method": "cffl-lyu"}), "runs in simulation only"),
        (changed(training={"method": "fedavgg"}), "no method 'fedavgg'. Did you mean fedavg"),
        (changed(training={"hiden": 3}), "hiden"),
        (changed(training={"hidden": 3}), "hidden"),
        (changed(training={"hidden": "wide"}), "hidden"),
        (changed(training={"rounds": 0}), "rounds"),
        (changed(training={"method": "fedavg", "beta": 3.0}), "Method fedavg does not use beta"),
        (changed(training=[1]), "[training] of federation.toml must be a section"),
        (changed(schema=GONE), "A schema needs features"),
        (changed(schema={"width": 3}), "width of a schema"),
        (changed(schema={"features": "colour"}), "features of a schema"),
        (changed(schema={"classes": [1, 0]}), "classes of a schema"),
        (changed(schema=7), "A schema needs features"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)  # fmt: skip
def test_bad_terms_are_refused_in_one_sentence(content: dict[str, Any], words: str) -> None:
    assert words in sentence(content)


@pytest.mark.parametrize("name", sorted(SIMULATION_ONLY))
def test_options_of_simulations_are_refused(name: str) -> None:
    assert f"[training] cannot set {name}" in sentence(changed(training={name: 1}))


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_method_with_memory_or_loans_or_no_common_model_is_not_deployed(
    name: str,
) -> None:
    content = changed(training={"method": name})
    if name in ("gcfl", "gcfl+", "cffl", "cffl-lyu", "fedstar", "self-train", "star-alone"):
        assert f"{name} runs in simulation only" in sentence(content)
    else:
        assert make_terms(content).config.method == name


@pytest.mark.parametrize("payoff", ["equal", "individual", "union", "shapley"])
def test_a_payoff_that_cannot_be_deployed_is_what_is_named(payoff: str) -> None:
    assert "payoff" in sentence(changed(training={"payoff": payoff}))


@pytest.mark.parametrize(
    "server", [{"port": "8002"}, {"port": 0}, {"port": 1.5}, {"host": 7}, {"retain_uploads": "no"},
               {"ledger": 3}, {"host": ""}], ids=str,
)  # fmt: skip
def test_settings_of_the_server_are_checked(server: dict[str, Any]) -> None:
    assert next(iter(server)) in sentence(changed(server=server))


def test_true_is_no_amount_of_money() -> None:
    assert "budget must be an amount" in sentence(changed(money={"budget": True}))


def test_what_is_left_out_of_the_server_is_as_usual() -> None:
    terms = make_terms(changed(server={"port": 9000, "retain_uploads": False}))
    assert (terms.host, terms.port, terms.retain_uploads) == ("localhost", 9000, False)
    assert terms.ledger == "ledger.sqlite"


def test_members_are_in_order_of_name_whatever_the_file_says() -> None:
    terms = make_terms(changed(federation={"members": ["c", "a", "b"]}))
    assert terms.members == ("a", "b", "c")
    assert terms.config.agents == 3


# Digest


def test_the_digest_does_not_depend_on_who_takes_part() -> None:
    fewer = make_terms(changed(federation={"members": ["x", "y"]}))
    assert fewer.digest == terms_of().digest


def test_the_digest_does_not_depend_on_where_the_server_is() -> None:
    moved = make_terms(changed(server={"host": "other.example", "port": 1234}))
    assert moved.digest == terms_of().digest


@pytest.mark.parametrize(
    "content",
    [
        changed(federation={"name": "other"}),
        changed(federation={"deadline": 31}),
        changed(federation={"max_norm": 9e3}),
        changed(federation={"max_size_ratio": 3.0}),
        changed(federation={"max_time_ratio": 3.0}),
        changed(money={"budget": "100.01"}),
        changed(money={"currency": "CHF"}),
        changed(money={"max_penalty": "20.01"}),
        changed(money={"max_total_penalty": "50.01"}),
        changed(training={"rounds": 5}),
        changed(training={"seed": 6}),
        changed(training={"beta": 2.0}),
        changed(training={"method": "fedavg"}),
        changed(schema={"classes": [0, 1, 2]}),
    ],
)
def test_the_digest_changes_with_whatever_a_member_agrees_to(content: dict[str, Any]) -> None:
    assert make_terms(content).digest != terms_of().digest


def test_infinite_beta_has_a_digest_and_goes_into_the_ledger() -> None:
    terms = terms_of(beta="inf")
    assert len(terms.digest) == 64
    assert isinstance(AgreedTerms.from_json(for_ledger(terms).to_json()), AgreedTerms)


# Money


@pytest.mark.parametrize(
    ("amounts", "digits", "units"),
    [
        (("100.00", "20.00", "50.00"), 2, (10_000, 2_000, 5_000)),
        (("100", "20", "50"), 0, (100, 20, 50)),
        ((100, 20, 50), 0, (100, 20, 50)),
        (("100", "0.5", "1.255"), 3, (100_000, 500, 1_255)),
        (("0.000001", "0", "0"), 6, (1, 0, 0)),
        (("999999999.999999", "0", "0"), 6, (999_999_999_999_999, 0, 0)),
        (("1e3", "0", "0"), 0, (1000, 0, 0)),
    ],
)  # fmt: skip
def test_money_has_as_many_digits_as_its_finest_amount(
    amounts: tuple[Any, ...], digits: int, units: tuple[int, ...]
) -> None:
    names = ("budget", "max_penalty", "max_total_penalty")
    money = terms_of(money=dict(zip(names, amounts, strict=True))).money
    assert money.digits == digits
    assert (money.budget, money.max_penalty, money.max_total_penalty) == units


@given(st.integers(0, 10**9 - 1), st.integers(0, 6), st.integers(0, 10**6 - 1))
def test_an_amount_is_exact_to_the_last_unit(whole: int, digits: int, part: int) -> None:
    part %= 10**digits
    text = f"{whole}.{part:0{digits}}" if digits else str(whole)
    money = terms_of(money={"budget": text, "max_penalty": "0", "max_total_penalty": "0"}).money
    assert money.budget * 10 ** (digits - money.digits) == whole * 10**digits + part


# For the ledger, and from files


def for_ledger(terms: FederationTerms) -> AgreedTerms:
    return terms.for_ledger({name: public_text(key_of(name)) for name in NAMES})


@pytest.mark.parametrize(
    ("method", "pays"),
    [
        ("motifair", "value"),
        ("motifair-diversity", "value"),
        ("fedavg", "equal"),
        ("cgsv", "equal"),
    ],
)
def test_the_ledger_gets_keys_money_and_how_is_paid(method: str, pays: str) -> None:
    agreed = for_ledger(terms_of(method=method, quorum=3))
    assert list(agreed.members) == list(NAMES)
    assert all("PUBLIC KEY" in key for key in agreed.members.values())
    assert (agreed.budget, agreed.digits, agreed.quorum, agreed.rounds) == (10_000, 2, 3, 4)
    assert (agreed.method, agreed.pays) == (method, pays)
    assert AgreedTerms.from_json(agreed.to_json()) == agreed


TOML = """
[federation]
name = "trial"
members = ["bank-a", "bank-b"]
quorum = 2
deadline = 30
max_norm = 100
[money]
currency = "EUR"
budget = "100.00"
max_penalty = "20.00"
max_total_penalty = "50.00"
[training]
rounds = 7
[schema]
features = "label"
columns = [0, 1]
classes = [-1, 1]
width = 2
"""


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(TOML)
    terms = read_terms(path)
    assert (terms.members, terms.config.rounds) == (("bank-a", "bank-b"), 7)
    assert terms == make_terms(terms.given)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff\xfe", "cannot be read: it is not text"),
        (b"[federation", "is not valid TOML"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "federation.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(MotifairError, match=words) as error:
        read_terms(path)
    assert "federation.toml" in str(error.value)
