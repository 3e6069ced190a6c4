"""`motifair paper`: what it writes, how it is stopped, and how it answers mistakes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from motifair.cli import main
from motifair.studies import ablation
from motifair.studies.study import Settings, Study, StudyResult

# What the machines with a GPU do not have.
ABSENT = ("nvflare", "sqlalchemy", "alembic", "psycopg", "pyarrow", "cryptography", "opacus")
BLOCKED = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Blocker())
from motifair.cli import main
from motifair.studies import registry, table2
for name in registry.choose_studies("all"):
    registry.load_study(name)
table2.METHODS = ("fedavg", "motifair")
main()
"""


@pytest.fixture(autouse=True)
def few_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ablation, "METHODS", ("motifair", "motifair-diversity"))


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["motifair", "paper", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    code = stopped.value.code
    return code if isinstance(code, int) else 0


def quick(out: Path, data_dir: Path) -> list[str]:
    return ["--out", str(out), "--splits", "1", "--rounds", "2", "--datasets", "MUTAG",
            "--device", "cpu", "--threads", "1", "--data-dir", str(data_dir)]  # fmt: skip


def test_a_study_writes_its_folder_and_says_where(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    data_dir: Path,
) -> None:
    assert call(monkeypatch, "ablation", *quick(tmp_path, data_dir)) == 0
    printed = capsys.readouterr()
    assert "Results in" in printed.out
    assert "motifair: 8 of 8 rounds" in printed.err
    names = {p.name for p in (tmp_path / "ablation").iterdir()}
    assert names == {"ablation.csv", "splits.csv", "MUTAG.png", "MUTAG.svg", "README.md"}
    assert call(monkeypatch, "ablation", *quick(tmp_path, data_dir), "--quiet", "--json") == 0
    again = capsys.readouterr()
    assert again.err == ""
    rows = json.loads(again.out)["ablation"]["tables"]["ablation"]
    assert {r["method"] for r in rows} == {"motifair", "motifair-diversity"}


def test_interrupted_it_says_so_and_goes_on_when_given_again(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    data_dir: Path,
) -> None:
    def interrupted(settings: Settings) -> StudyResult:
        signal.raise_signal(signal.SIGINT)
        return ablation.run(settings)

    with monkeypatch.context() as patched:
        patched.setattr(ablation, "STUDY", Study("ablation", "", interrupted))
        assert call(patched, "ablation", *quick(tmp_path, data_dir)) == 130
    assert "Give the same command again to continue." in capsys.readouterr().err
    assert not (tmp_path / "ablation").exists()
    assert list(tmp_path.rglob("*.safetensors"))
    assert call(monkeypatch, "ablation", *quick(tmp_path, data_dir)) == 0
    assert (tmp_path / "ablation" / "README.md").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["tabel2"], "motifair: There is no study 'tabel2'. Did you mean table2?\n"),
        (
            ["ablation", "--datasets", "PROTEIN"],
            "motifair: No dataset is called 'PROTEIN'. Did you mean PROTEINS? For your own graphs "
            "give the path of a TU-format folder.\n",
        ),
        (
            ["ablation", "--device", "gpu"],
            "motifair: device takes auto or cpu or cuda, not 'gpu'.\n",
        ),
        (
            ["ablation", "--processes", "2"],
            "motifair: The study ablation has no pieces for several processes; leave --processes "
            "out.\n",
        ),
        (
            ["ablation", "--truth", "values"],
            "motifair: The study ablation measures no truth; leave --truth out.\n",
        ),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    data_dir: Path,
    words: list[str],
    sentence: str,
) -> None:
    out = tmp_path / "results"
    where = ["--out", str(out), "--data-dir", str(data_dir)]
    assert call(monkeypatch, *words, *where) == 2
    assert capsys.readouterr().err == sentence
    assert not out.exists()


def test_a_file_is_no_folder_for_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "results"
    file.write_text("mine")
    assert call(monkeypatch, "datasets", "--out", str(file)) == 2
    assert capsys.readouterr().err == f"motifair: --out {file} is a file; name a folder.\n"
    assert file.read_text() == "mine"


def test_it_needs_neither_the_engine_nor_the_database(tmp_path: Path, data_dir: Path) -> None:
    words = ["paper", "table2", *quick(tmp_path, data_dir), "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "table2" / "methods.csv").exists()
