"""Which cheats the terms of a federation leave open, by what was measured.

`cheats.csv` is the table `cheats` of `motifair paper manipulation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import pandas as pd

from motifair.config import Config, make_config
from motifair.consortium.terms import FederationTerms
from motifair.mechanism.bounds import MAX_SIZE_RATIO, REJECTED, SHORTENED
from motifair.methods import make_method
from motifair.statements.audits import AuditTerms

MEASURED: Mapping[str, Mapping[str, Any]] = {
    "default": {"profile": "default"},
    "literal": {"profile": "paper"},
}
# Options that decide who is paid what; others change how well a model learns.
DECISIVE = (
    "method", "alignment_of", "alignment_against", "alignment_rate", "corroboration", "evidence",
    "value_guard", "value_update", "value_rate", "diversity_weight", "aggregation", "size",
    "aggregator", "valuation", "aggregate_length", "payoff", "initial_value", "trial_rounds",
)  # fmt: skip
GAINS = "gains"
LEARNT = 10  # rounds alone: of models with fewer judges can say nothing (docs/manipulation.md)


@dataclass(frozen=True)
class Defence:
    """A defence, whether the terms have it on, and where they say so."""

    name: str
    on: bool
    setting: str


def defences(terms: FederationTerms) -> list[Defence]:
    """Return all defences, those that cannot be switched off first."""
    c, method = terms.config, make_method(terms.config)
    return [
        Defence(
            f"updates shortened beyond {SHORTENED:g} times the usual length, rejected beyond "
            f"{REJECTED:g} times or below a tenth of the median",
            True,
            f"always; max_norm = {terms.max_norm:g} is the limit for all",
        ),
        Defence("rounds without a valid upload are not paid", True, "always"),
        Defence(
            "nobody gains by another's absence: its share goes to the reserve",
            bool(terms.money.reserve),
            f'reserve = "{terms.money.reserve}"',
        ),
        Defence(
            "graphs that do not exist do not pay: claims are audited, with a fine",
            terms.audit is not None and terms.audit.share * terms.audit.fine >= 1,
            "audit = none" if terms.audit is None else _audit_words(terms.audit),
        ),
        Defence(
            "graphs counted up to a multiple of the median's",
            terms.max_size_ratio <= MAX_SIZE_RATIO,
            f"max_size_ratio = {terms.max_size_ratio:g}; measured with {MAX_SIZE_RATIO:g}",
        ),
        Defence(
            "distinct graphs, by fingerprints, and wired unlike chance",
            method.believes,
            f'size = "{c.size}"',
        ),
        Defence(
            "models trained alone judged by peers before the first round",
            method.trial_rounds >= LEARNT,
            f'alignment_against = "{c.alignment_against}", trial_rounds = {c.trial_rounds}: for '
            f"{method.trial_rounds} rounds; at least {LEARNT} are needed",
        ),
        Defence(
            "penalties for harm",
            method.pays_by_value
            and min(terms.money.max_penalty, terms.money.max_total_penalty) > 0,
            "max_penalty, max_total_penalty",
        ),
        Defence("robust aggregation", c.aggregator != "mean", f'aggregator = "{c.aggregator}"'),
    ]


def _audit_words(audit: AuditTerms) -> str:
    expected = audit.share * audit.fine
    return (
        f"audit: share {audit.share:g} x fine {audit.fine} = {expected:g} times the pay of who "
        f"shows none of {audit.graphs} graphs; at least 1 is needed"
    )


def differences(terms: FederationTerms, rule: str) -> list[str]:
    """Return the settings that decide on pay and are not as in a measured rule.

    >>> from motifair.config import Config
    >>> differing(Config(value_rate=0.5), Config())
    ['value_rate = 0.5 (measured: 0.2)']
    """
    found = differing(terms.config, make_config(MEASURED[rule]))
    if terms.max_size_ratio != MAX_SIZE_RATIO:
        found.append(f"max_size_ratio = {terms.max_size_ratio:g} (measured: {MAX_SIZE_RATIO:g})")
    return found


def differing(config: Config, measured: Config) -> list[str]:
    """Return the decisive options that differ, in words."""
    return [
        f"{name} = {config.value(name)} (measured: {measured.value(name)})"
        for name in DECISIVE
        if config.value(name) != measured.value(name)
    ]


def nearest_rule(terms: FederationTerms) -> str:
    """Return the measured rule from which the terms differ in the fewest settings."""
    known = [rule for rule in MEASURED if rule in set(cheats_table()["rule"])]
    return min(known, key=lambda rule: len(differences(terms, rule)))


@cache
def cheats_table() -> pd.DataFrame:
    """Return the measured table: a row for each rule, attack and attacker."""
    with files("motifair.consortium").joinpath("cheats.csv").open() as file:
        return pd.read_csv(file, comment="#")


def open_cheats(rule: str) -> pd.DataFrame:
    """Return the cheats that pay, then those that lower the others' accuracy, under a rule."""
    table = cheats_table()
    table = table[table["rule"] == rule]
    pays = table["verdict"] == GAINS
    return pd.concat([table[pays], table[~pays & (table["others_high"] < 0)]])


def closed_by_audit(cheats: pd.DataFrame, audit: AuditTerms | None) -> pd.Series:
    """Return for each cheat whether the expected fine of an audit is more than it brings.

    An auditor who looks at the graphs finds the share that is `invented`, made-up ones included.

    A gain is in percent of honest pay, but for a harmful member, whose honest pay may be nothing,
    of an equal share: so of the pay with it, gain / (100 + gain), or all of it, is brought by it.
    """

    def closed(invented: float, attacker: str, most: float, harms: bool) -> bool:
        if audit is None or not invented or harms:
            return False
        honest = 0.0 if attacker == "harmful" else 100.0
        brought = max(most, 0.0) / (honest + most) if honest + most > 0 else 0.0
        return audit.expected_gain(invented, brought) <= 0

    rows = zip(
        cheats["invented"],
        cheats["attacker"],
        cheats["gain_high"],
        cheats["others_high"] < 0,
        strict=True,
    )
    return pd.Series([closed(*row) for row in rows], index=cheats.index, dtype=bool)
