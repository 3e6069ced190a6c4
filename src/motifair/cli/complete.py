"""Shell completion of names. Must not import torch, which would delay every key press."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from pathlib import Path

import typer

from motifair.cli.loggers import KINDS
from motifair.config import OPTIONS
from motifair.studies.registry import ALL, MODULES

Completion = Callable[[str], list[str]]

# Copies, since the modules that define these import torch; a test compares them.
METHODS = (
    "self-train", "fedavg", "fedprox", "fedsage", "gcfl", "gcfl+", "fedstar", "star-alone", "dw",
    "eu", "cffl", "cffl-lyu", "cgsv", "motifair", "motifair-alignment", "motifair-diversity",
    "motifair-allocation", "motifair-aggregation", "motifair-prototypes", "fedavg-own",
    "fedavg-own-stretched", "random-rewards",
)  # fmt: skip
DATASETS = ("planted", "twitter-like", "PROTEINS", "DD", "IMDB-BINARY", "MUTAG", "DBLP_v1")


def _fixed(names: Iterable[str]) -> Completion:
    known = list(names)

    def complete(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return complete


def choices(option: str) -> Completion:
    """Return a completion of the choices of an option of `Config`."""
    return _fixed(OPTIONS[option].metadata["choices"])


partition = choices("partition")
scenario = choices("scenario")
features = choices("features")
edges = choices("edges")
task = choices("task")
device = _fixed(("auto", "cpu", "cuda"))
study = _fixed((*MODULES, ALL))
logger = _fixed(KINDS)
table_format = _fixed(("csv", "json", "parquet"))


def method(incomplete: str) -> list[str]:
    """Complete a method: built-in, or a plugin's."""
    plugins = [e.name for e in entry_points(group="motifair.methods")]
    return _fixed((*METHODS, *plugins))(incomplete)


def methods(incomplete: str) -> list[str]:
    """Complete the last of several methods joined by commas."""
    earlier, comma, last = incomplete.rpartition(",")
    named = earlier.split(",")
    matches = method(last) if comma else [*_fixed(["all"])(last), *method(last)]
    return [f"{earlier}{comma}{name}" for name in matches if name not in named]


def dataset(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a dataset: one known by name, or one in the data folder."""
    folder = ctx.params.get("data_dir") or os.environ.get("MOTIFAIR_DATA")
    names = list(DATASETS)
    if folder:
        try:
            inside = sorted(Path(folder).expanduser().iterdir())
        except OSError:
            inside = []
        names += [p.stem for p in inside if p.suffix == ".zip" or _is_dataset(p)]
    return _fixed(dict.fromkeys(names))(incomplete)


def assignment(incomplete: str) -> list[str]:
    """Complete key=value, with every choice of an option that has choices."""
    words = []
    for name, option in OPTIONS.items():
        words += [f"{name}={choice}" for choice in option.metadata["choices"] or ("",)]
    return _fixed(words)(incomplete)


def _is_dataset(path: Path) -> bool:
    return any(path.glob("*_A.txt")) or any(path.glob("raw/*_A.txt"))
