"""Names that the shell completes. Nothing here may import torch: a key press waits for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from pathlib import Path

import typer

from motifair.cli.loggers import KINDS
from motifair.config import OPTIONS

Completion = Callable[[str], list[str]]

# Written down once more, since their homes import torch; a test compares.
METHODS = (
    "self-train", "fedavg", "fedprox", "fedsage", "gcfl", "gcfl+", "fedstar", "star-alone", "dw",
    "eu", "cffl", "cffl-lyu", "cgsv", "motifair", "motifair-alignment", "motifair-diversity",
    "motifair-allocation", "motifair-aggregation", "motifair-prototypes", "fedavg-own",
    "fedavg-own-stretched", "random-rewards",
)  # fmt: skip
DATASETS = ("planted", "twitter-like", "PROTEINS", "DD", "IMDB-BINARY", "MUTAG", "DBLP_v1")
STUDIES = (
    "datasets", "table2", "perturbed", "tradeoff", "payoff", "ablation", "lambda", "scale",
    "contribution", "claims", "manipulation", "search", "all",
)  # fmt: skip


def _fixed(names: Iterable[str]) -> Completion:
    known = list(names)

    def complete(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return complete


def choices(option: str) -> Completion:
    """Complete one of the choices of an option of `Config`."""
    return _fixed(OPTIONS[option].metadata["choices"])


partition = choices("partition")
features = choices("features")
device = _fixed(("auto", "cpu", "cuda"))
study = _fixed(STUDIES)
logger = _fixed(KINDS)
table_format = _fixed(("csv", "json", "parquet"))


def method(incomplete: str) -> list[str]:
    """Complete a method: ours, and those of other packages."""
    offered = [e.name for e in entry_points(group="motifair.methods")]
    return _fixed((*METHODS, *offered))(incomplete)


def methods(incomplete: str) -> list[str]:
    """Complete the last of several methods with commas."""
    earlier, comma, last = incomplete.rpartition(",")
    named = earlier.split(",")
    found = method(last) if comma else [*_fixed(["all"])(last), *method(last)]
    return [f"{earlier}{comma}{name}" for name in found if name not in named]


def dataset(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a dataset: those known by name, and those in the data folder."""
    named = ctx.params.get("data_dir") or os.environ.get("MOTIFAIR_DATA")
    found = list(DATASETS)
    if named:
        try:
            inside = sorted(Path(named).expanduser().iterdir())
        except OSError:
            inside = []
        found += [p.stem for p in inside if p.suffix == ".zip" or _is_dataset(p)]
    return _fixed(dict.fromkeys(found))(incomplete)


def assignment(incomplete: str) -> list[str]:
    """Complete key=value: every value where there are few."""
    found = []
    for name, option in OPTIONS.items():
        found += [f"{name}={choice}" for choice in option.metadata["choices"] or ("",)]
    return _fixed(found)(incomplete)


def _is_dataset(path: Path) -> bool:
    return any(path.glob("*_A.txt")) or any(path.glob("raw/*_A.txt"))
