"""A startup kit with any file damaged is refused in a sentence, or works: no traceback."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("nvflare")

from consortium import Consortium
from fuzzing import CASES, mangled, refused_or_read

from motifair.consortium.agent_process import settings_of
from motifair.consortium.transports.nvflare.processes import check_kit

NAME = "agent-00"


@pytest.mark.slow
def test_files_of_a_kit(tmp_path: Path) -> None:
    world = Consortium(tmp_path / "operator")
    world.prepare(2, 3)
    kit = tmp_path / NAME
    shutil.copytree(world.operator.kit(NAME), kit)
    files = sorted(path for path in kit.rglob("*") if path.is_file())
    random, used = Random(5), 0

    def use() -> None:
        check_kit(kit)
        settings_of(kit, world.graphs(NAME), None)

    assert refused_or_read(use)
    for case in range(CASES):
        path = files[case % len(files)]
        whole = path.read_bytes()
        path.unlink()
        if case % 7 == 0:
            path.mkdir()
        elif case % 7 > 1:
            path.write_bytes(mangled(whole, random))
        used += refused_or_read(use)
        path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        path.write_bytes(whole)
    assert 0 < used < CASES
