"""Terms say which defences they have, and which measured cheats they leave open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deployed import terms_of
from typer.testing import CliRunner

from motifair.cli.app import app
from motifair.consortium.cheats import (
    cheats_table,
    defences,
    differences,
    nearest_rule,
    open_cheats,
)
from motifair.consortium.template import federation_toml
from motifair.consortium.terms import FederationTerms
from motifair.graphs.read import Schema
from motifair.studies.attacks import ATTACKS


def off(terms: FederationTerms) -> set[str]:
    return {d.setting.split(" = ")[0] for d in defences(terms) if not d.on}


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({}, {"aggregator"}),
        ({"size": "claimed"}, {"aggregator", "size"}),
        ({"max_size_ratio": 50.0}, {"aggregator", "max_size_ratio"}),
        ({"aggregator": "median"}, set()),
    ],
)
def test_a_defence_is_on_or_off_as_the_terms_say(
    options: dict[str, Any], missing: set[str]
) -> None:
    terms = terms_of(trial_rounds=100, **options)
    assert off(terms) == missing
    named = {text.split(" = ")[0] for text in differences(terms, "default")}
    assert named == set(options)


def test_peers_judge_unless_the_terms_say_otherwise() -> None:
    assert "alignment_against" not in off(terms_of())
    assert "alignment_against" in off(terms_of(trial_rounds=0))


def test_the_packaged_table_is_of_attacks_that_there_are() -> None:
    table = cheats_table()
    about = {a.name: a.about for a in ATTACKS}
    assert dict(zip(table["attack"], table["about"], strict=True)).items() <= about.items()
    assert set(table["attacker"]) == {"typical", "good", "harmful"}
    assert (table["gain_low"] <= table["gain"]).all()
    assert set(table[table["verdict"] == "gains"].index) == set(table[table["gain_low"] > 0].index)
    assert nearest_rule(terms_of()) == "default"


def test_what_pays_is_open_and_what_does_not_is_not() -> None:
    found = set(open_cheats("default")["attack"])
    assert {"claim ten times the graphs", "duplicate graphs, new fingerprints"} <= found
    assert not {"send nothing", "echo the reward", "renumber nodes"} & found


def test_the_command_reads_a_file_of_terms(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    schema = Schema(features="label", columns=(0, 1), classes=(0, 1), width=2)
    path.write_text(federation_toml("trial", ["a", "b", "c"], schema))
    shown = CliRunner().invoke(app, ["check", "--terms", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "OFF  robust aggregation" in shown.output
    assert "Not measured" not in shown.output
    path.write_text(path.read_text().replace("max_size_ratio = 2.0", "max_size_ratio = 9.0"))
    shown = CliRunner().invoke(app, ["check", "--terms", str(path), "--json"])
    content = json.loads(shown.output)
    assert content["differences"] == [
        "max_size_ratio = 9 (measured: 2)",
    ]
    assert content["open"][0]["verdict"] == "gains"
