"""A backup, taken at any moment of a run, continues to the same end."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from deployed import NAMES, Answer, World, content_of, terms_of

from motifair.consortium.backup import backup, restore
from motifair.consortium.operator_folder import OperatorFolder
from motifair.consortium.store.ledger import open_ledger
from motifair.consortium.template import members_toml
from motifair.consortium.wire import TRAIN, Download
from motifair.errors import MotifairError

OPTIONS = {"members": NAMES[:2], "rounds": 4}


def folder_of(world: World) -> OperatorFolder:
    """Add what an operator's folder has besides the run."""
    world.folder.mkdir(exist_ok=True)
    (world.folder / "federation.toml").write_text(members_toml(content_of(**OPTIONS)))
    (world.folder / "operator.key").write_text("secret")
    kit = world.folder / "kits" / "server"
    for place in ("startup", "local", "0b7e-job"):
        (kit / place).mkdir(parents=True, exist_ok=True)
        (kit / place / "file").write_text(place)
    return OperatorFolder(world.folder)


class Deployed(World):
    """A world whose run is where an operator's folder has it."""

    def drive(self, rounds: int | None = None) -> bool:
        with self.server(f"runs/{self.run}") as drive:
            return drive(rounds=rounds)


def test_a_backup_taken_in_a_run_ends_like_the_run(tmp_path: Path) -> None:
    archives: list[Path] = []

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if name == NAMES[0] and task.round in (2, 4) and task.task == TRAIN:
            archives.append(tmp_path / f"{task.round}.tar.gz")
            assert backup(folder_of(world), archives[-1])
            shutil.copytree(world.folder / "sites", tmp_path / f"sites-{task.round}")
        return answer()

    world = Deployed(tmp_path / "w", terms_of(**OPTIONS), meddle)
    assert world.drive()
    wanted = [e.to_json() for e in world.entries()]
    for archive in archives:
        assert archive.stat().st_mode & 0o077 == 0
        again = Deployed(tmp_path / archive.name.split(".")[0], world.terms)
        operator = restore(archive, again.folder)
        assert operator.terms.digest == world.terms.digest
        assert (again.folder / "operator.key").stat().st_mode & 0o077 == 0
        assert not list(again.folder.glob("kits/server/*job*"))
        shutil.copytree(tmp_path / f"sites-{again.folder.name}", again.folder / "sites")
        assert again.drive()
        assert [e.to_json() for e in again.entries()] == wanted


def test_a_ledger_ahead_of_the_positions_of_a_backup_is_caught_up(tmp_path: Path) -> None:
    """Rounds may end between the copies of positions and ledger; uploads are copied last."""
    world = Deployed(tmp_path / "w", terms_of(**OPTIONS))
    world.drive(rounds=1)
    older = shutil.copytree(world.folder / "runs" / world.run, tmp_path / "older")
    world.drive(rounds=2)
    for path in (world.folder / "runs" / world.run).glob("position-*"):
        path.unlink()
    for path in older.glob("position-*"):
        shutil.copy(path, world.folder / "runs" / world.run)
    assert world.drive()
    assert len(world.entries()) == 5


def test_a_damaged_backup_or_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    world = Deployed(tmp_path / "w", terms_of(**OPTIONS))
    world.drive(rounds=1)
    archive = tmp_path / "b.tar.gz"
    backup(folder_of(world), archive)
    with pytest.raises(MotifairError, match="is not empty; name a new folder"):
        restore(archive, world.folder)
    content = archive.read_bytes()
    for damaged in (content[: len(content) // 2], b"", flipped(content, 99)):
        archive.write_bytes(damaged)
        with pytest.raises(MotifairError, match="use another"):
            restore(archive, tmp_path / "new")
        assert not (tmp_path / "new").exists()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_a_flipped_bit_anywhere_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    world = Deployed(tmp_path / "w", terms_of(**OPTIONS))
    world.drive(rounds=1)
    archive, random = tmp_path / "b.tar.gz", Random(0)
    backup(folder_of(world), archive)
    content, whole = archive.read_bytes(), tree(restore(archive, tmp_path / "whole").folder)
    refused = 0
    for k in range(40):
        archive.write_bytes(flipped(content, random.randrange(len(content))))
        try:
            assert tree(restore(archive, tmp_path / str(k)).folder) == whole
        except MotifairError:
            refused += 1
            assert not (tmp_path / str(k)).exists()
    assert refused > 30


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def test_a_ledger_elsewhere_is_said_not_to_be_in_it(tmp_path: Path) -> None:
    world = Deployed(tmp_path / "w", terms_of(**OPTIONS))
    operator = folder_of(world)
    operator.__dict__["terms"] = replace(operator.terms, ledger=str(tmp_path / "books.sqlite"))
    with open_ledger(tmp_path / "books.sqlite", write=True):
        pass
    assert not backup(operator, tmp_path / "b.tar.gz")
