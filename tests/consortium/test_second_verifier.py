"""The second verifier reads real ledgers: SQLite, and exported JSON."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from books import forge
from deployed import NAMES, World, away, key_of, terms_of

from motifair.consortium.store.export import export
from motifair.consortium.store.ledger import open_ledger
from motifair.statements.signatures import public_text

SCRIPT = Path(__file__).parents[2] / "scripts" / "verify_ledger.py"


def test_a_ledger_of_a_run_is_verified_by_the_script_alone(tmp_path: Path) -> None:
    world = World(tmp_path / "w", terms_of(members=NAMES[:3], rounds=2), away({"bank-b": {2}}))
    assert world.drive()
    place, exported = world.folder / "ledger.sqlite", tmp_path / "ledger.json"
    with open_ledger(place, write=False) as ledger:
        export(ledger, exported, "json")
    (tmp_path / "operator.pub").write_text(public_text(key_of("operator")))
    heads = world.folder / "sites" / "bank-a" / "heads.jsonl"

    def said(of: Path) -> str:
        # -I: without PYTHONPATH, so that nothing of ours can be imported by accident
        words = [sys.executable, "-I", SCRIPT, of, "--heads", heads]
        words += ["--operator-key", tmp_path / "operator.pub"]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout

    assert said(place) == said(exported) == "trial-1: verified\n"
    assert "motifair" not in [line.split()[1] for line in SCRIPT.read_text().splitlines()
                              if line.startswith(("import ", "from "))]  # fmt: skip
    forge(str(place), "UPDATE lines SET payoff = payoff + 1 WHERE number = 1")
    assert said(place).startswith("trial-1: entry 1: its hash is not the recorded one")
