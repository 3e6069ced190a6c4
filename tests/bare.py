"""An environment with the packages of a plain `pip install .` and nothing of any extra.

To install torch and the rest once more takes minutes and a gigabyte. So it is a new virtual
environment, empty, into which those packages of the present one are linked that the dependencies
of the project need, and theirs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def closure(requirements: list[str]) -> set[str]:
    """Return the names of all distributions that these requirements bring, in the end."""
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        for extra in ("", *wanted.extras):
            if (name, extra) in found:
                continue
            found.add((name, extra))
            needed = map(Requirement, metadata.requires(wanted.name) or ())
            waiting += [r for r in needed if not r.marker or r.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}


# One core, as in all other tests: to start workers takes longer than a few rounds.
ONE_CORE = """
import os, pathlib
from motifair import cores
cores._QUOTA = pathlib.Path(os.environ["MOTIFAIR_CACHE"], "cpu.max")
"""

# Several commands in one process: to import torch takes longer than any of them.
COMMANDS = f"""
{ONE_CORE}
import json, sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from motifair.cli import main

for words in json.loads(sys.argv[1]):
    sys.argv, code = ["motifair", *words], 0
    with redirect_stdout(StringIO()) as printed, redirect_stderr(printed):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code or 0, printed.getvalue()]), flush=True)
"""

BLOCKS = f"""
{ONE_CORE}
import json, sys

for number, block in enumerate(json.loads(sys.argv[1])):
    exec(compile(block, f"<block {{number}}>", "exec"), {{"__name__": "__main__"}})
"""


@dataclass(frozen=True)
class Bare:
    """The environment, and the folder where its commands run."""

    python: Path
    folder: Path

    def run(self, *words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run Python there; `motifair` is `-m motifair`."""
        environment = {
            "PATH": os.defpath,
            "HOME": str(self.folder / "home"),
            "OMP_NUM_THREADS": "1",
            "MOTIFAIR_CACHE": os.environ["MOTIFAIR_CACHE"],
            "COLUMNS": "200",
        }
        return subprocess.run(
            # In a shell, as a person types it: completion is installed for the one above a command.
            ["bash", "-c", '"$@"; exit $?', "bash", str(self.python), *map(str, words)],
            cwd=cwd or self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )

    def commands(
        self, commands: Sequence[Sequence[str]], cwd: Path | None = None
    ) -> list[tuple[int, str]]:
        """Run `motifair` commands; return the exit code of each, and what it printed."""
        ended = self.run("-c", COMMANDS, json.dumps(commands), cwd=cwd)
        assert ended.returncode == 0, ended.stderr
        return [tuple(json.loads(line)) for line in ended.stdout.splitlines()]

    def blocks(self, blocks: Sequence[str], cwd: Path | None = None) -> None:
        """Run blocks of Python, each with names of its own; they must succeed."""
        ended = self.run("-c", BLOCKS, json.dumps(blocks), cwd=cwd)
        assert ended.returncode == 0, ended.stderr


def make_bare(folder: Path) -> Bare:
    """Make the environment in `folder`, and a folder to work in."""
    venv.create(folder / "venv", with_pip=False)
    packages = next((folder / "venv").glob("lib/python*/site-packages"))
    (packages / "motifair.pth").write_text(f"{ROOT / 'src'}\n")
    for name in closure(PROJECT["dependencies"]):
        _link(metadata.distribution(name), packages)
    # `motifair doctor` reads what is declared from here; the package itself is the source tree.
    _link(metadata.distribution("motifair"), packages, only=".dist-info")
    (folder / "work" / "home").mkdir(parents=True)
    return Bare(folder / "venv" / "bin" / Path(sys.executable).name, folder / "work")


def _link(distribution: metadata.Distribution, packages: Path, only: str = "") -> None:
    for top in {path.parts[0] for path in distribution.files or ()}:
        if top.endswith(only) and top not in ("..", "__pycache__"):
            place, origin = packages / top, Path(str(distribution.locate_file(top)))
            if not place.exists():
                place.symlink_to(origin)
