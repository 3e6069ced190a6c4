"""Read a CSV file and find the columns that are asked for."""

from __future__ import annotations

import csv
import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from motifair.errors import MotifairError, nearest

SUFFIXES = (".csv", ".csv.gz")
SEPARATORS = (",", ";", "\t")
ALL = "all"  # every column that can be a target


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are read.

    Attributes:
        smiles: The column with SMILES; by default the one called `smiles`.
        targets: The columns to predict, see `find_targets`; None if they are not read.
        group: A column that shares the graphs out, and so is no target.
    """

    smiles: str = ""
    targets: str | None = ""
    group: str = ""


BY_NAME = Columns()  # SMILES by the name of their column, and the only target there is


@dataclass(frozen=True)
class Table:
    """What a table says of graphs besides the graphs themselves.

    Attributes:
        rows: A row for each graph, without the targets.
        smiles: The column with SMILES.
        targets: The columns to predict.
        unreadable: Line in the file and text of each SMILES that RDKit cannot read.
        emptied: Values of the column that shares graphs out none of whose rows has a graph.
    """

    rows: pd.DataFrame
    smiles: str
    targets: tuple[str, ...]
    unreadable: tuple[tuple[int, str], ...]
    emptied: tuple[str, ...] = ()


def is_csv(path: Path) -> bool:
    """Whether a path is that of a CSV file, compressed by gzip or not."""
    return path.name.lower().endswith(SUFFIXES)


def csv_stem(path: Path) -> str:
    """Return the name of a file without its suffixes.

    >>> csv_stem(Path("data/chembl.csv.gz")), csv_stem(Path("tox21.csv"))
    ('chembl', 'tox21')
    """
    return path.stem.removesuffix(".csv") if path.suffix == ".gz" else path.stem


def read_csv(path: Path) -> pd.DataFrame:
    """Read a table separated by commas, semicolons or tabs; its first line names the columns.

    Raises:
        MotifairError: If the file is not there, not UTF-8, damaged or empty, or lines have
            unequally many values.
    """
    try:
        frame = pd.read_csv(path, low_memory=False, sep=_separator(path))
    except UnicodeDecodeError as error:
        raise MotifairError(f"{path} is not UTF-8; save it as UTF-8 text.") from error
    except pd.errors.EmptyDataError as error:
        raise MotifairError(f"{path} is empty; give a table with names of columns.") from error
    except pd.errors.ParserError as error:
        why = str(error).strip().rpartition(": ")[2]
        raise MotifairError(
            f"{path} is not a table separated by commas, semicolons or tabs ({why}); fix the line."
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is corrupt or truncated"
        raise MotifairError(f"{path} cannot be read: {reason}; get the file again.") from error
    if frame.empty:
        raise MotifairError(f"{path} has no row below the names of its columns; add some.")
    return frame


def _separator(path: Path) -> str:
    """Return what separates most names of columns in the first line."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        first = file.readline().decode(errors="replace")
    return max(SEPARATORS, key=lambda s: len(next(csv.reader([first], delimiter=s), [])))


def find_column(frame: pd.DataFrame, name: str, path: Path) -> str:
    """Return the name of a column that must be there."""
    if name not in frame.columns:
        raise MotifairError(f"{path} has no column '{name}'. {nearest(name, named(frame))}")
    return name


def named(frame: pd.DataFrame) -> list[str]:
    """Return the columns that have a name."""
    return [str(c) for c in frame.columns if not str(c).startswith("Unnamed: ")]


def find_targets(
    frame: pd.DataFrame, asked: str, used: set[str], path: Path
) -> tuple[list[str], list[str]]:
    """Return the names of the columns to predict, and in words which others `all` leaves out.

    Args:
        frame: The table.
        asked: Names separated by commas; `all` for every column of numbers, or True and False,
            that vary, but row numbers (whole numbers in ascending order); nothing if there is only
            one such column.
        used: Columns that serve as something else.
        path: The file, for error messages.

    >>> table = pd.DataFrame({"id": [1, 2, 3], "toxic": [0, 1, 0], "smiles": ["C", "CC", "CCC"]})
    >>> find_targets(table, "", {"smiles"}, Path("a.csv"))
    (['toxic'], ['column id, which counts rows'])
    """
    if asked in frame.columns:  # a name may have a comma itself
        return [asked], []
    if asked and asked != ALL:
        return [find_column(frame, name.strip(), path) for name in asked.split(",")], []
    numbers = frame.select_dtypes(["number", "bool"])
    free = [c for c in named(numbers) if c not in used]
    rows = [c for c in free if _counts_rows(frame[c])]
    vary = numbers[free].nunique() > 1
    found = [c for c in free if c not in rows and vary[c]]
    constant = [c for c in free if not vary[c]]
    left = [f"column {c}, which counts rows" for c in rows]
    left += [f"{len(constant)} columns without two values ({_some(constant)})"] if constant else []
    if not found:
        texts = [c for c in named(frame) if c not in used and c not in free]
        left += [f"{_some(texts)}, which are not numbers alone"] if texts else []
        without = f" (left out: {'; '.join(left)})" if left else ""
        raise MotifairError(f"{path} has no column of numbers to predict{without}; add one.")
    if len(found) > 1 and not asked:
        raise MotifairError(
            f"{path} has {len(found)} columns of numbers ({_some(found)}); name those to predict "
            "with --targets, separated by commas, or all."
        )
    return found, left


def read_targets(frame: pd.DataFrame, names: list[str], path: Path) -> np.ndarray:
    """Return the targets of each row, `(rows, targets)`, NaN where a value is missing."""
    for name in names:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            bad = pd.to_numeric(frame[name], errors="coerce").isna() & frame[name].notna()
            raise MotifairError(
                f"Column '{name}' of {path} has '{frame[name][bad].iloc[0]}', which is not a "
                "number; write targets as numbers with a decimal point, classes as 0 and 1, and "
                "leave out what is missing."
            )
    values: np.ndarray = frame[names].to_numpy(np.float64)
    if np.isinf(values).any():
        name = names[int(np.isinf(values).any(axis=0).argmax())]
        raise MotifairError(f"Column '{name}' of {path} has an infinite number; remove it.")
    return values


def _counts_rows(values: pd.Series[Any]) -> bool:
    whole = pd.api.types.is_integer_dtype(values) and len(values) > 2
    return bool(whole and values.is_unique and values.is_monotonic_increasing)


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
