"""Terms say which defences they have, and which measured cheats they leave open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from deployed import terms_of
from typer.testing import CliRunner

from motifair.cli.app import app
from motifair.consortium.cheats import (
    cheats_table,
    closed_by_audit,
    defences,
    differences,
    nearest_rule,
    open_cheats,
)
from motifair.consortium.template import federation_toml
from motifair.consortium.terms import FederationTerms
from motifair.graphs.schema import Schema
from motifair.statements.audits import AuditTerms
from motifair.studies.attacks import ATTACKS

LONG: dict[str, Any] = {"rounds": 200, "trial_rounds": 100}


def off(terms: FederationTerms) -> set[str]:
    return {d.setting.split(" = ")[0] for d in defences(terms) if not d.on}


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({}, {"aggregator", "reserve", "audit"}),
        ({"size": "claimed"}, {"aggregator", "reserve", "audit", "size"}),
        ({"max_size_ratio": 50.0}, {"aggregator", "reserve", "audit", "max_size_ratio"}),
        ({"aggregator": "median"}, {"reserve", "audit"}),
    ],
)
def test_a_defence_is_on_or_off_as_the_terms_say(
    options: dict[str, Any], missing: set[str]
) -> None:
    terms = terms_of(**LONG, **options)
    assert off(terms) == missing
    named = {text.split(" = ")[0] for text in differences(terms, "default")}
    assert named == set(options)


@pytest.mark.parametrize(
    ("rounds", "alone", "on"), [(200, 10, True), (200, 9, False), (9, 100, False), (200, 0, False)]
)
def test_peers_judge_models_that_were_trained_for_long_enough(
    rounds: int, alone: int, on: bool
) -> None:
    found = off(terms_of(rounds=rounds, trial_rounds=alone))
    assert ("alignment_against" not in found) == on


def test_the_packaged_table_is_of_attacks_that_there_are() -> None:
    table = cheats_table()
    about = {a.name: (a.about, a.invented) for a in ATTACKS}
    said = zip(table["about"], table["invented"], strict=True)
    assert dict(zip(table["attack"], said, strict=True)).items() <= about.items()
    assert set(table["attacker"]) == {"typical", "good", "harmful"}
    assert (table["gain_low"] <= table["gain"]).all()
    assert set(table[table["verdict"] == "gains"].index) == set(table[table["gain_low"] > 0].index)
    assert nearest_rule(terms_of()) == "default"


def test_what_pays_is_open_and_what_does_not_is_not() -> None:
    found = set(open_cheats("default")["attack"])
    assert {"claim ten times the graphs", "duplicate graphs, new fingerprints"} <= found
    assert not {"run down all others", "stay away after bad rounds", "renumber nodes"} & found


HELD = {"reserve": "the operator"}


def test_an_audit_is_a_defence_if_its_fine_is_more_than_claims_bring() -> None:
    assert off(terms_of(**LONG, money=HELD)) == {"aggregator", "audit"}
    assert off(terms_of(**LONG, money=HELD, audit={})) == {"aggregator"}
    assert off(terms_of(**LONG, money=HELD, audit={"fine": 3})) == {
        "aggregator",
        "audit: share 0.25 x fine 3",
    }


def test_an_audit_closes_what_it_finds_and_nothing_else() -> None:
    row = {"others_high": 0.01, "gain_high": 90.0}
    cheats = pd.DataFrame(
        [
            row | {"invented": 0.9, "attacker": "typical"},
            row | {"invented": 1.0, "attacker": "harmful"},
            row | {"invented": 0.0, "attacker": "typical"},
            row | {"invented": 1.0, "attacker": "good", "others_high": -0.1},
        ]
    )
    assert closed_by_audit(cheats, AuditTerms()).tolist() == [True, True, False, False]
    assert not closed_by_audit(cheats, None).any()
    # Half of the pay of a typical member is brought by its claims, all of a harmful one's.
    weak = AuditTerms(share=0.25, fine=3)
    assert closed_by_audit(cheats, weak).tolist() == [True, False, False, False]


def test_the_command_reads_a_file_of_terms(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    schema = Schema(features="label", columns=(0, 1), classes=(0, 1), width=2)
    path.write_text(federation_toml("trial", ["a", "b", "c"], schema))
    shown = CliRunner().invoke(app, ["check", "--terms", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "OFF  robust aggregation" in shown.output
    assert "on   graphs that do not exist do not pay" in shown.output
    before, found, after = shown.output.partition("Closed by the audit")
    assert found
    assert "claim ten times the graphs:" in after
    assert "claim ten times the graphs:" not in before
    assert "Not measured" not in shown.output
    path.write_text(path.read_text().replace("max_size_ratio = 2.0", "max_size_ratio = 9.0"))
    shown = CliRunner().invoke(app, ["check", "--terms", str(path), "--json"])
    content = json.loads(shown.output)
    assert content["differences"] == [
        "max_size_ratio = 9 (measured: 2)",
    ]
    assert content["open"][0]["verdict"] == "gains"
    assert content["closed by the audit"][0]["verdict"] == "gains"
