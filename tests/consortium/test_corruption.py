"""Every file of a federation, flipped, cut, deleted or an old copy: as docs/operations.md says."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from deployed import NAMES, World, terms_of

from motifair.errors import MotifairError

MEMBERS, ROUNDS, ME = NAMES[:2], 4, NAMES[0]
FOLDERS = TemporaryDirectory()
SITE = f"sites/{ME}"
FILES = {
    "newest position": "run/position-000003.safetensors",
    "older position": "run/position-000002.safetensors",
    "upload": f"run/uploads/000003/{ME}.bin",
    "live status": "run/live.json",
    "ledger": "ledger.sqlite",
    "newest round of a member": f"{SITE}/trial-1/round-000003.safetensors",
    "older round of a member": f"{SITE}/trial-1/round-000002.safetensors",
    "heads": f"{SITE}/heads.jsonl",
}
SAME, ONCE, REFUSED = "ends the same", "absent once", "refused in a sentence"
OLDER = "goes on from an older state, present"
# What differs from SAME.
EXPECTED = {
    ("ledger", "cut"): REFUSED,
    ("ledger", "deleted"): REFUSED,
    ("ledger", "flipped"): REFUSED,
    ("newest round of a member", "flipped"): ONCE,
    ("newest round of a member", "cut"): ONCE,
    ("newest round of a member", "deleted"): OLDER,
    ("newest round of a member", "an old copy"): OLDER,
}


def world(folder: Path) -> World:
    return World(folder, terms_of(members=MEMBERS, rounds=ROUNDS, quorum=1, size="claimed"))


@cache
def halfway() -> Path:
    """Three of four rounds are done; `old` has the files as they were after two."""
    place = Path(FOLDERS.name) / "halfway"
    world(place).drive(rounds=2)
    shutil.copytree(place, Path(FOLDERS.name) / "old")
    world(place).drive(rounds=1)
    return place


@cache
def undisturbed() -> list[str]:
    place = Path(FOLDERS.name) / "whole"
    shutil.copytree(halfway(), place)
    made = world(place)
    assert made.drive()
    return [e.hash for e in made.entries()]


def damage(folder: Path, name: str, how: str) -> None:
    path, content = folder / FILES[name], (folder / FILES[name]).read_bytes()
    old = Path(FOLDERS.name) / "old" / FILES[name]
    path.unlink()
    if how == "flipped":
        half = content.find(b'"EUR"') if name == "ledger" else len(content) // 2  # no unused byte
        path.write_bytes(content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :])
    elif how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "an old copy" and old.exists():
        shutil.copy(old, path)
    elif how == "an old copy":  # of the same kind
        before = sorted((Path(FOLDERS.name) / "old" / FILES[name]).parent.glob(f"*{path.suffix}"))
        path.write_bytes(before[-1].read_bytes() if before else b"")


def what_happens(made: World) -> str:
    try:
        assert made.drive()
        hashes = [e.hash for e in made.entries()]
    except MotifairError:
        return REFUSED
    absent = [e.round for e in made.rounds() for x in e.lines if x.status != "present"]
    if not absent:
        return SAME if hashes == undisturbed() else OLDER
    return ONCE if len(absent) == 1 else "absent"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["flipped", "cut", "deleted", "an old copy"])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_does_what_the_operators_page_says(
    name: str, how: str, tmp_path: Path
) -> None:
    shutil.copytree(halfway(), tmp_path / "w")
    made = world(tmp_path / "w")
    damage(made.folder, name, how)
    assert what_happens(made) == EXPECTED.get((name, how), SAME)
