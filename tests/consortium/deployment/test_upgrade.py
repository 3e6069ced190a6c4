"""A folder that motifair 0.1 left is refused in a sentence that names the fix, and then goes on."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from consortium import Consortium, motifair_here, refused_here

from motifair.consortium.operator_folder import OPERATOR, SERVER

pytestmark = pytest.mark.federation
LEDGER = Path(__file__).parents[1] / "store" / "ledger_0_1.sql"  # two agents, three rounds
MEMBERS = ("agent-00", "agent-01")


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    """The folder of 0.1's demo: its ledger, kits that hold keys and name classes that have moved,
    states inside them, one position of a run; no operator's key, no requests.
    """
    with Consortium(tmp_path_factory.mktemp("upgrade") / "operator") as made:
        made.prepare(len(MEMBERS), 2)
        with sqlite3.connect(made.folder / "ledger.sqlite") as database:
            database.executescript(LEDGER.read_text())
        database.close()
        for kit in (made.folder / "kits").iterdir():
            resources = kit / "local" / "resources.json"
            if resources.exists():
                text = resources.read_text()
                resources.write_text(text.replace("motifair.consortium.", "motifair.federation."))
        for name in MEMBERS:
            kit = made.operator.kit(name)
            (kit / "local" / "operator.pub").unlink()
            (kit / "state").mkdir()
            (kit / "state" / "seed").write_text("7")
            (kit.parent / f"{name}.key").unlink(missing_ok=True)
        shutil.rmtree(made.folder / "requests")
        for name in ("operator.key", "operator.pub"):
            (made.folder / name).unlink()
        (made.operator.run("demo")).mkdir(parents=True)
        (made.operator.run("demo") / "position.safetensors").write_bytes(b"of 0.1")
        yield made


def test_nothing_starts_from_it_and_each_command_says_what_to_do(old: Consortium) -> None:
    kit = old.operator.kit
    start = ("agent", "start", "--kit", kit(MEMBERS[0]), "--graphs", old.graphs(MEMBERS[0]))
    server = ("server", "start", "--folder", old.folder, "--detach")
    commands: dict[tuple[object, ...], str] = {
        server: f"motifair federation renew {SERVER}.",
        (*start, "--detach"): f"motifair federation renew {MEMBERS[0]}.",
        ("run", "--folder", old.folder, "--run", "new"): f"motifair federation renew {SERVER}.",
        ("status", "--folder", old.folder, "--run", "demo"): "finish the run with that version",
    }
    for words, fix in commands.items():
        said = refused_here("federation", *words)
        assert "\n" not in said
        assert fix in said
    assert (kit(MEMBERS[0]) / "state" / "seed").exists()  # 0.1 can finish what it began
    verified = motifair_here("ledger", "verify", "--ledger", old.folder / "ledger.sqlite")
    assert "demo: 4 entries, 3 rounds, verified; head 4d715384" in verified


def test_with_renewed_kits_it_runs_again_on_the_same_ledger(old: Consortium) -> None:
    """The members' states are moved out of their kits, and old and new runs are verified."""
    kits = old.folder / "kits"
    (old.folder / "requests").mkdir()
    for name in MEMBERS:
        motifair_here("federation", "request", name, "--out", kits)
        (kits / f"{name}.csr").rename(old.folder / "requests" / f"{name}.csr")
    for name in (SERVER, OPERATOR, *MEMBERS):
        motifair_here("federation", "renew", name, "--folder", old.folder)
    motifair_here("federation", "server", "start", "--folder", old.folder, "--detach")
    for name in MEMBERS:
        where = ("--kit", kits / name, "--graphs", old.graphs(name), "--detach")
        assert "Moved its state from" in motifair_here("federation", "agent", "start", *where)
        assert (kits / f"{name}.state" / "seed").read_text() == "7"
    old.run_until("new", 2)
    ledger = old.folder / "ledger.sqlite"
    verified = motifair_here("ledger", "verify", "--ledger", ledger)
    assert "demo: 4 entries, 3 rounds, verified; head 4d715384" in verified
    assert "new: 3 entries, 2 rounds, verified" in verified
    said = refused_here("federation", "run", "--folder", old.folder, "--run", "demo")
    assert "finish the run with that version, or start a new one" in said
