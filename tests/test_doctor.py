"""`motifair doctor` finds problems, names the fix, and changes nothing."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from importlib import metadata
from pathlib import Path

import pytest
import torch

from motifair import doctor, kernels
from motifair.cli import main
from motifair.consortium.store.ledger import open_ledger
from motifair.doctor import Check, examine
from motifair.extras import install


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip reading all datasets, which takes seconds, unless a test needs it."""
    monkeypatch.delenv("MOTIFAIR_DATA", raising=False)


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["motifair", "doctor", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code if isinstance(stopped.value.code, int) else 0


def rows(name: str, *, data_dir: Path | None = None, ledger: str | None = None) -> list[Check]:
    return [c for c in examine(data_dir, ledger) if c.check.split()[0] == name]


def test_on_a_sound_machine_nothing_fails(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    data_dir: Path,
    tmp_path: Path,
) -> None:
    assert call(monkeypatch, "--data-dir", str(data_dir), "--json") == 0
    rows = {row["check"]: row for row in json.loads(capsys.readouterr().out)}
    assert {"python", "packages", "processor", "gpu", "kernels", "data", "cache", "disk",
            "clock"} <= set(rows)  # fmt: skip
    assert "ledger" not in rows
    assert rows["kernels"]["status"] == "ok"
    assert f"torch {torch.__version__}" in rows["packages"]["found"]
    assert "MUTAG" in rows["data"]["found"]
    assert call(monkeypatch, "--data-dir", str(tmp_path)) == 0  # to read them all takes seconds
    assert "kernels" in capsys.readouterr().out


def test_what_fails_is_exit_code_1_and_has_a_fix(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert call(monkeypatch, "--data-dir", str(tmp_path / "nowhere"), "--json") == 1
    (row,) = [r for r in json.loads(capsys.readouterr().out) if r["status"] == "fail"]
    assert row["check"] == "data"
    assert "is not a folder" in row["found"]
    assert row["fix"] == "Give an existing one."
    assert call(monkeypatch, "--data-dir", str(tmp_path / "nowhere")) == 1
    assert "Give an existing one." in " ".join(capsys.readouterr().out.split())


def test_a_data_folder_of_the_environment_that_is_missing_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MOTIFAIR_DATA", str(tmp_path / "gone"))
    (check,) = rows("data")
    assert (check.status, check.fix) == ("fail", "Point it to an existing one.")
    monkeypatch.delenv("MOTIFAIR_DATA")
    (check,) = rows("data")
    assert check.status == "ok"
    assert "MOTIFAIR_DATA" in check.fix


def test_a_dataset_that_cannot_be_read_fails_beside_those_that_can(
    data_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "MUTAG.zip").symlink_to(data_dir / "MUTAG.zip")
    (tmp_path / "DD.zip").write_bytes(b"PK not really")
    good, bad = rows("data", data_dir=tmp_path)
    assert (good.status, good.found) == ("ok", f"{tmp_path}: MUTAG")
    assert (bad.check, bad.status) == ("data DD", "fail")
    assert bad.fix


def test_an_empty_data_folder_is_a_warning(tmp_path: Path) -> None:
    (check,) = rows("data", data_dir=tmp_path)
    assert check.status == "warn"


def test_a_cache_that_cannot_be_written_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MOTIFAIR_CACHE", str(tmp_path / "file" / "cache"))
    (check,) = rows("cache")
    assert check.status == "fail"
    assert "MOTIFAIR_CACHE" in check.fix
    monkeypatch.setenv("MOTIFAIR_CACHE", str(tmp_path / "cache"))
    (check,) = rows("cache")
    assert check.status == "ok"
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_ledger_is_reached_and_left_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "ledger.sqlite"
    open_ledger(place, write=True).close()
    before = hashlib.sha256(place.read_bytes()).hexdigest()
    (check,) = rows("ledger", ledger=str(place))
    assert check.status == "ok"
    assert "0 runs" in check.found
    assert hashlib.sha256(place.read_bytes()).hexdigest() == before


def test_a_ledger_that_is_none_fails(tmp_path: Path) -> None:
    (check,) = rows("ledger", ledger=str(tmp_path / "nowhere.sqlite"))
    assert check.status == "fail"
    assert not (tmp_path / "nowhere.sqlite").exists()
    (tmp_path / "text").write_text("this is no database, but it is long enough to look at" * 20)
    (check,) = rows("ledger", ledger=str(tmp_path / "text"))
    assert check.status == "fail"
    (check,) = rows("ledger", ledger="mysql://somewhere/else")
    assert (check.status, "postgresql://" in check.found + check.fix) == ("fail", True)


@pytest.mark.parametrize(("revision", "word"), [("v999", "newer"), (None, "no ledger")])
def test_a_ledger_of_another_schema_fails(tmp_path: Path, revision: str | None, word: str) -> None:
    place = tmp_path / "ledger.sqlite"
    open_ledger(place, write=True).close()
    raw = sqlite3.connect(place)
    if revision:
        raw.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    else:
        raw.execute("DELETE FROM alembic_version")
    raw.commit()
    raw.close()
    (check,) = rows("ledger", ledger=str(place))
    assert check.status == "fail"
    assert word in check.found


def test_a_password_in_the_url_of_a_ledger_is_not_printed() -> None:
    url = "postgresql://motifair:geheim@127.0.0.1:9/books?connect_timeout=2"
    (check,) = rows("ledger", ledger=url)
    assert check.status == "fail"
    assert "geheim" not in check.found + check.fix


def test_packages_are_compared_with_what_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["torch>=99", "no-such-thing>=1", "numpy>=1", 'pandas>=99; extra == "old"',
              'not-there>=2; extra == "absent"', 'rich>=1; extra == "there"']  # fmt: skip
    monkeypatch.setattr(metadata, "requires", lambda name: wanted)
    monkeypatch.setattr(doctor, "_names_of_extras", lambda: ["old", "absent", "there", "dev"])
    torch_row, absent = rows("packages")
    assert torch_row.status == absent.status == "fail"
    assert torch_row.fix == "pip install 'torch>=99'"
    assert "nothing is installed" in absent.found
    extras = {c.check: c for c in rows("extra")}
    assert extras["extra old"].status == "warn"
    assert extras["extra old"].fix == install("old")
    assert extras["extra absent"].status == "ok"
    assert extras["extra absent"].fix == f"If needed: {install('absent')}"
    assert extras["extra there"].fix == ""


def test_a_source_tree_that_was_never_installed_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    (check,) = rows("packages")
    assert check.status == "warn"
    assert rows("extra") == []


def test_a_kernel_that_computes_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernels.dense
    monkeypatch.setattr(kernels, "dense", lambda *given: right(*given) + 1)
    check = rows("kernels")[0]
    assert check.status == "fail"
    assert check.found.startswith("dense on cpu")


def test_a_check_that_breaks_down_has_failed_and_the_others_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*given: object) -> object:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(kernels, "bag_sum", broken)
    (check,) = rows("kernels")
    assert (check.status, check.found) == ("fail", "RuntimeError: no compiler")
    assert rows("clock")


def test_the_processor_is_told_with_the_cores_that_may_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "usable_cores", lambda: 3)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    (check,) = rows("processor")
    assert (check.status, check.found[:9]) == ("ok", "3 of 64 c")


def test_little_disk_and_a_wrong_clock_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 2**20

    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage)
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert rows("disk")[0].status == "fail"
    assert rows("clock")[0].status == "warn"
