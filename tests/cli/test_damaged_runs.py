"""A damaged file of a run ends a command in one sentence, never in a traceback.

By hand for longer: MOTIFAIR_MUTATIONS=300 pytest tests/cli/test_damaged_runs.py
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

import motifair
from motifair.cli.app import app
from motifair.errors import MotifairError

MUTATIONS = int(os.environ.get("MOTIFAIR_MUTATIONS", "30"))
CELLS = ("", "x", "-1", "1e999", "nan", "[]", "99999999999999999999")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "base"
    small = {"agents": 3, "rounds": 2, "hidden": 8, "device": "cpu", "threads": 1}
    motifair.run(out=out, progress=False, **small)
    return out


def flip(random: Random, content: bytes) -> bytes:
    place = random.randrange(len(content))
    changed = bytes([content[place] ^ 1 << random.randrange(8)])
    return content[:place] + changed + content[place + 1 :]


def drop_line(random: Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    del lines[random.randrange(len(lines))]
    return b"\n".join(lines)


def change_cell(random: Random, content: bytes) -> bytes:
    text = content.decode("latin1")
    found = random.choice(list(re.finditer(r"[0-9.]+|$", text)))
    return (text[: found.start()] + random.choice(CELLS) + text[found.end() :]).encode("latin1")


CHANGES: tuple[Callable[[Random, bytes], bytes], ...] = (
    flip,
    drop_line,
    change_cell,
    lambda random, content: content[: random.randrange(len(content))],
    lambda random, content: random.choice([b"", b"null", b"nonsense\n", b"[]", b"{}"]),
)


def mutate(random: Random, folder: Path) -> str:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ".lock")
    path, kind = random.choice(files), random.randrange(len(CHANGES) + 2)
    content = path.read_bytes()
    path.unlink()
    if kind < len(CHANGES):
        path.write_bytes(CHANGES[kind](random, content))
    elif kind == len(CHANGES):
        path.mkdir()
    return f"{path.name}, change {kind}"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_no_damaged_file_of_a_run_gives_a_traceback(base: Path, tmp_path: Path, part: int) -> None:
    for seed in range(part, MUTATIONS, 3):
        random, run = Random(seed), tmp_path / str(seed)
        shutil.copytree(base, run)
        what = mutate(random, run)
        words = random.choice(
            [
                ["show", run],
                ["resume", run, "--quiet"],
                ["report", run],
                ["statement", "--run", run, "--agent", "agent-00"],
                ["export", run, "--out", tmp_path / f"models-{seed}"],
            ]
        )
        ended = CliRunner().invoke(app, [str(word) for word in words])
        known = ended.exception is None or isinstance(ended.exception, MotifairError | SystemExit)
        assert known, (seed, what, words[0], ended.exception)
        shutil.rmtree(run)
