"""The public face: names, version, lazy imports."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tomllib
from importlib import metadata, reload
from pathlib import Path
from typing import Any

import pytest

import motifair
from motifair import version
from motifair.cli import main
from motifair.federation.callbacks import Callback
from motifair.methods import Method, Seen

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
NAMES = {
    "Callback", "Comparison", "Config", "Method", "MotifairError", "Result", "Seen", "Sweep",
    "__version__", "against_truth", "compare", "load_result", "run", "sweep",
}  # fmt: skip


def test_dir_shows_the_public_names_and_each_can_be_had() -> None:
    assert set(dir(motifair)) == set(motifair.__all__) == NAMES
    for name in NAMES:
        assert getattr(motifair, name) is not None
    assert (motifair.Method, motifair.Seen, motifair.Callback) == (Method, Seen, Callback)
    with pytest.raises(AttributeError, match="no attribute 'rum'"):
        _ = motifair.rum


@pytest.mark.parametrize(
    "name",
    [
        "run", "compare", "sweep", "load_result", "Config", "Result.save", "Result.report",
        "Result.statement", "Result.plot", "Result.predict",
    ],
)  # fmt: skip
def test_what_is_public_says_its_arguments_and_shows_an_example(name: str) -> None:
    found: Any = motifair
    for part in name.split("."):
        found = getattr(found, part)
    text = found.__doc__
    assert "Arguments:\n" in text
    assert ">>> " in text
    if name not in ("Config", "Result.save"):
        assert "Returns:\n" in text
    if name != "Config":
        own = [p for p in inspect.signature(found).parameters if p not in ("self",)]
        assert all(re.search(rf"\b{p}\b", text) for p in own), own


def test_the_version_is_that_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    assert motifair.__version__ == tomllib.loads(PROJECT.read_text())["project"]["version"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["motifair", "--version"])
        with pytest.raises(SystemExit) as stopped:
            main()
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"motifair {motifair.__version__}\n"


def test_a_source_tree_that_is_not_installed_has_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    with monkeypatch.context() as patch:
        patch.setattr("importlib.metadata.version", missing)
        assert reload(version).__version__ == "0+unknown"
    reload(version)


@pytest.mark.parametrize("words", [[], ["--help"], ["--version"], ["run", "--help"]])
def test_the_command_starts_without_torch(words: list[str]) -> None:
    code = (
        "import sys\nfrom motifair.cli import main\n"
        f"sys.argv = ['motifair', *{words}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.exit('torch' in sys.modules or 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
