"""What every test needs: one thread, a private cache, and the datasets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from motifair.graphs.graph_set import GraphSet
from motifair.graphs.tu import load_tu

torch.set_num_threads(1)
settings.register_profile("motifair", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("motifair")


@pytest.fixture(scope="session", autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["MOTIFAIR_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real datasets: required in CI, elsewhere their tests may be skipped."""
    named = os.environ.get("MOTIFAIR_DATA")
    if not named:
        if os.environ.get("CI"):
            pytest.fail("MOTIFAIR_DATA is not set, but in CI the real datasets are required.")
        pytest.skip("needs the real datasets: set MOTIFAIR_DATA to the folder that holds them")
    return Path(named)


@pytest.fixture(scope="session")
def mutag(data_dir: Path) -> GraphSet:
    return load_tu("MUTAG", data_dir)


@pytest.fixture(scope="session")
def proteins(data_dir: Path) -> GraphSet:
    return load_tu("PROTEINS", data_dir)


@pytest.fixture(scope="session")
def imdb(data_dir: Path) -> GraphSet:
    return load_tu("IMDB-BINARY", data_dir)
