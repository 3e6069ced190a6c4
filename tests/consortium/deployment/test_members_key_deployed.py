"""On the real engine, members hash motifs and graphs with a key that the operator never sees."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from consortium import Consortium, motifair_here, refused_here

from motifair.consortium.operator_folder import SERVER

pytestmark = pytest.mark.federation
RUN, MEMBERS, LATE = "run-1", ("agent-00", "agent-01"), "agent-02"


@pytest.fixture(scope="module")
def desks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each member, on which the operator has no hand."""
    return tmp_path_factory.mktemp("desks")


@pytest.fixture(scope="module")
def world(desks: Path) -> Iterator[Consortium]:
    """One member makes the key; all but the last have it next to their kits."""
    with Consortium(desks.parent / "operator") as made:
        said = motifair_here("federation", "members-key", "--out", desks / MEMBERS[0])
        (line,) = [x for x in said.splitlines() if x.startswith("members_key = ")]
        made.prepare(3, 2)
        terms = made.folder / "federation.toml"
        terms.write_text(terms.read_text().replace("\nmembers = ", f"\n{line}\nmembers = ", 1))
        text = motifair_here("federation", "terms", "--folder", made.folder)
        for name in (*MEMBERS, LATE):
            kit = shutil.move(made.operator.kit(name), desks / name / name)
            (kit / "local" / "federation.toml").write_text(text)
        shutil.copy(desks / MEMBERS[0] / "members.key", desks / MEMBERS[1])
        made.start_parts(SERVER)
        try:
            yield made
        finally:
            for name in (*MEMBERS, LATE):
                motifair_here("federation", "stop", "--kit", desks / name / name)


def start(world: Consortium, desks: Path, name: str) -> None:
    motifair_here("federation", "agent", "start", *words_of(world, desks, name))


def words_of(world: Consortium, desks: Path, name: str) -> tuple[object, ...]:
    return ("--kit", desks / name / name, "--graphs", world.graphs(name), "--detach")


def test_who_has_no_key_is_told_whom_to_ask_and_then_takes_part(
    world: Consortium, desks: Path
) -> None:
    for name in MEMBERS:
        start(world, desks, name)
    said = refused_here("federation", "agent", "start", *words_of(world, desks, LATE))
    assert "ask another member for it, not the operator" in said
    assert "\n" not in said
    shutil.copy(desks / MEMBERS[0] / "members.key", desks / LATE)
    start(world, desks, LATE)
    world.run_until(RUN, 2)
    rounds = [e for e in world.entries(RUN) if e.kind == "round"]
    assert [line.status for e in rounds for line in e.lines] == ["present"] * 6
    motifair_here("ledger", "verify", "--ledger", world.operator.ledger)
    motifair_here("ledger", "audit", "--run", RUN, "--folder", world.folder)


def test_nothing_at_the_operator_has_the_key_or_a_motif(world: Consortium, desks: Path) -> None:
    key = (desks / LATE / "members.key").read_text().strip()
    files = [p for p in world.folder.rglob("*") if p.is_file() and "graphs" not in p.parts]
    uploads = [p for p in files if p.parent.name == "uploads" or "uploads" in p.parts]
    assert len(uploads) >= 9  # three join, judge and train
    for path in files:
        content = path.read_bytes()
        assert key.encode() not in content, path
        assert bytes.fromhex(key) not in content, path
        assert b"bond 0" not in content, path
        assert b"ring 0" not in content, path
