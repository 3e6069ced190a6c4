"""Molecules as graphs: SMILES in a column of a CSV file, read by RDKit (extra `chem`)."""

from __future__ import annotations

import hashlib
import io
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from motifair.errors import MotifairError
from motifair.extras import require
from motifair.files import cache_folder, write_atomic
from motifair.graphs.csv_file import (
    Columns,
    Table,
    csv_stem,
    find_column,
    find_targets,
    named,
    read_targets,
)
from motifair.graphs.graph_set import NO_CLASS, GraphSet, Ints
from motifair.graphs.targets import as_matrix

FORMAT = 1  # part of the cache key: increase it when reading changes
CHUNK = 2000  # molecules that are read at a time
CACHED = 1000  # molecules from which the result is cached
LONG = 20_000  # molecules from which progress is shown
AROMATIC, OTHER_BOND = 4, 0  # edge labels; others are the bond's order 1, 2 or 3
ATTRIBUTES = ("charge", "hydrogens", "aromatic", "in a ring", "sp", "sp2", "sp3")
SMILES = "smiles"
LARGEST_RING = 8  # atoms of the largest ring that is a motif, by default


@dataclass(frozen=True)
class Molecules:
    """Atoms and bonds of molecules, in flat arrays.

    Attributes:
        nodes: Number of atoms of each text, 0 where RDKit cannot read it.
        edges: Atoms of each bond, numbered within all molecules, `(bonds, 2)`.
        element: Atomic number of each atom.
        bond: 1, 2, 3 for single, double and triple bonds, 4 for aromatic ones, else 0.
        attribute: `ATTRIBUTES` of each atom.
        stereo: Whether any molecule has stereochemistry, which the arrays do not hold.
    """

    nodes: Ints
    edges: Ints
    element: Ints
    bond: Ints
    attribute: np.ndarray
    stereo: bool


def read_molecules(path: Path, frame: pd.DataFrame, columns: Columns) -> tuple[GraphSet, Table]:
    """Make graphs of the SMILES in a table: atoms are nodes, bonds edges, hydrogens implicit.

    A node's label is its atomic number, an edge's its bond (1, 2, 3, or 4 if aromatic), and the
    attributes of a node are `ATTRIBUTES`. SMILES that RDKit cannot read and molecules without any
    target are left out, and counted in `GraphSet.ignored`.

    Raises:
        MotifairError: If a column is missing or cannot be used, no SMILES can be read, or RDKit is
            not installed.
    """
    column = smiles_column(frame, columns.smiles, path)
    names: list[str] = []
    left_out: list[str] = []
    if columns.targets is not None:
        used = {column, columns.group}
        names, left_out = find_targets(frame, columns.targets, used, path)
    values = read_targets(frame, names, path)
    texts = frame[column].fillna("").astype(str).tolist()
    molecules = parse_smiles(texts)
    readable, labelled = molecules.nodes > 0, ~np.isnan(values).all(axis=1) | (not names)
    kept = readable & labelled
    if not kept.any():
        raise MotifairError(
            f"No molecule of {path} has a value of {', '.join(names[:3])}; name other --targets."
            if readable.any()
            else f"RDKit cannot read the SMILES in column '{column}' of {path} (such as "
            f"'{texts[0][:40]}'); name the column that has them with --smiles."
        )
    unreadable = tuple((int(k) + 2, texts[k]) for k in np.flatnonzero(~readable))
    ignored = [*_unreadable(unreadable), *_unlabelled(int((readable & ~labelled).sum()))]
    ignored += [*left_out, *(["stereochemistry"] if molecules.stereo else [])]
    graphs = as_graphs(csv_stem(path), molecules, ignored)
    graphs = graphs.select(np.flatnonzero(labelled[readable]))
    rows = frame.loc[kept, [c for c in named(frame) if c not in names]].reset_index(drop=True)
    table = Table(rows, column, tuple(names), unreadable, _emptied(frame, columns.group, kept))
    return _with_targets(graphs, values[kept], names), table


def smiles_column(frame: pd.DataFrame, asked: str, path: Path) -> str:
    """Return the column with SMILES: the one asked for, or the one called `smiles`, in any case."""
    found = [c for c in named(frame) if c.lower() == (asked or SMILES).lower()]
    if asked and (asked in found or not found):
        return find_column(frame, asked, path)
    if len(found) != 1:
        raise MotifairError(
            f"{path} has no column '{SMILES}'; name the one with SMILES with --smiles (there are "
            f"{', '.join(named(frame)[:8])}), or give edges in columns graph, source, target and y."
        )
    return found[0]


def parse_smiles(texts: Sequence[str]) -> Molecules:
    """Return the atoms and bonds of SMILES; of many, from the file cache.

    >>> acid = parse_smiles(["CC(=O)O", "no molecule"])
    >>> acid.nodes.tolist(), acid.element.tolist(), acid.bond.tolist()
    ([4, 0], [6, 6, 8, 8], [1, 2, 1])
    """
    require("chem", "Reading molecules")
    stored = _cached("molecules", texts, lambda: vars(_parse(texts)))
    return Molecules(**{**stored, "stereo": bool(stored["stereo"])})


def scaffolds(texts: Sequence[str]) -> list[str]:
    """Return the Murcko scaffold of each molecule as canonical SMILES, empty if it has no ring.

    >>> scaffolds(["Cc1ccccc1", "OCCc1ccccc1", "CCO"])
    ['c1ccccc1', 'c1ccccc1', '']
    """
    require("chem", "partition=scaffold")
    from rdkit import Chem
    from rdkit.Chem.Scaffolds.MurckoScaffold import GetScaffoldForMol

    def scaffold(text: str) -> str:
        bare = GetScaffoldForMol(Chem.MolFromSmiles(text))  # type: ignore[no-untyped-call]
        return str(Chem.MolToSmiles(bare))

    def compute() -> dict[str, Any]:
        with quiet():
            found = [s for chunk in _chunks(texts, "Scaffolds") for s in map(scaffold, chunk)]
        # As one text: an array of strings would pad each to the length of the longest.
        return {"lines": np.frombuffer("\n".join(found).encode(), np.uint8)}

    lines: np.ndarray = _cached("scaffolds", texts, compute)["lines"]
    return lines.tobytes().decode().split("\n")


def _parse(texts: Sequence[str]) -> Molecules:
    with quiet():
        return _joined([_chunk(chunk) for chunk in _chunks(texts, "Molecules")])


def _chunk(texts: Sequence[str]) -> Molecules:
    from rdkit import Chem

    nodes, atoms, bonds, stereo, shift = [], [], [], False, 0
    for text in texts:
        molecule = Chem.MolFromSmiles(text) if text.strip() else None
        nodes.append(0 if molecule is None else molecule.GetNumAtoms())
        if molecule is None:
            continue
        atoms += [_atom(atom) for atom in molecule.GetAtoms()]
        bonds += [
            (shift + b.GetBeginAtomIdx(), shift + b.GetEndAtomIdx(), int(b.GetBondType()))
            for b in molecule.GetBonds()
        ]
        stereo |= "@" in text or "/" in text or "\\" in text
        shift += nodes[-1]
    atom = np.array(atoms, np.int16).reshape(-1, 6)
    bond = np.array(bonds, np.int64).reshape(-1, 3)
    hybrid = Chem.HybridizationType
    kinds = [atom[:, 5] == int(h) for h in (hybrid.SP, hybrid.SP2, hybrid.SP3)]
    label = np.where(bond[:, 2] == int(Chem.BondType.AROMATIC), AROMATIC, bond[:, 2])
    return Molecules(
        nodes=np.array(nodes, np.int64),
        edges=bond[:, :2],
        element=atom[:, 0].astype(np.int64),
        bond=np.where(label <= AROMATIC, label, OTHER_BOND),
        attribute=np.column_stack([atom[:, 1:5], *kinds]).astype(np.int8),
        stereo=stereo,
    )


def _atom(atom: Any) -> tuple[int, ...]:
    return (
        atom.GetAtomicNum(),
        atom.GetFormalCharge(),
        atom.GetTotalNumHs(),
        atom.GetIsAromatic(),
        atom.IsInRing(),
        int(atom.GetHybridization()),
    )


def _joined(parts: Sequence[Molecules]) -> Molecules:
    shift = np.cumsum([0] + [len(p.element) for p in parts])
    edges = [p.edges + k for p, k in zip(parts, shift, strict=False)]

    def join(name: str) -> np.ndarray:
        return np.concatenate([getattr(p, name) for p in parts])

    return Molecules(
        join("nodes"),
        np.concatenate(edges),
        join("element"),
        join("bond"),
        join("attribute"),
        any(p.stereo for p in parts),
    )


def _chunks(texts: Sequence[str], what: str) -> Iterator[Sequence[str]]:
    """Yield parts of a list; of a long one with progress, if the standard error is a terminal."""
    from rich.console import Console
    from rich.progress import track

    starts = range(0, len(texts), CHUNK)
    hidden = len(texts) < LONG or not sys.stderr.isatty()
    console = Console(stderr=True)
    for start in track(starts, what, console=console, transient=True, disable=hidden):
        yield texts[start : start + CHUNK]


def quiet() -> Any:
    """Keep RDKit from printing a line for each SMILES that it cannot read."""
    from rdkit.rdBase import BlockLogs

    return BlockLogs()


def as_graphs(name: str, molecules: Molecules, ignored: Sequence[str] = ()) -> GraphSet:
    """Return the molecules that could be read as graphs without classes."""
    nodes = molecules.nodes[molecules.nodes > 0]
    return GraphSet.build(
        name,
        nodes=nodes,
        edges=molecules.edges,
        target=np.full(len(nodes), NO_CLASS),
        class_values=(),
        node_label=molecules.element,
        edge_label=molecules.bond,
        attribute=molecules.attribute,
        ignored=ignored,
    )


def _with_targets(graphs: GraphSet, values: np.ndarray, names: Sequence[str]) -> GraphSet:
    """Return graphs with a class each if there is one column of 0 and 1, else with numbers."""
    if not names:
        return graphs
    if as_matrix(values) is not None:
        return graphs.with_values(values, names)
    classes, target = np.unique(values[:, 0].astype(np.int64), return_inverse=True)
    return replace(graphs, target=target, class_values=tuple(classes.tolist()))


def _unreadable(rows: Sequence[tuple[int, str]]) -> Iterator[str]:
    if rows:
        shown = [(line, text[:60] + "..." * (len(text) > 60) or "empty") for line, text in rows[:3]]
        some = "; ".join(f"line {line}: {text}" for line, text in shown)
        more = f"; and {len(rows) - 3} more" if len(rows) > 3 else ""
        yield f"{len(rows)} SMILES that RDKit cannot read ({some}{more})"


def _unlabelled(count: int) -> Iterator[str]:
    if count:
        yield f"{count} molecules without a value of any target"


def _emptied(frame: pd.DataFrame, group: str, kept: np.ndarray) -> tuple[str, ...]:
    """Return the values of a column that only rows which are left out have."""
    if group not in frame.columns:
        return ()
    values = frame[group]
    return tuple(map(str, values[~values.isin(values[kept])].dropna().unique()))


def _cached(
    kind: str, texts: Sequence[str], compute: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Return arrays that were computed of SMILES; of many, from the file cache."""
    if len(texts) < CACHED:
        return compute()
    digest = hashlib.sha256(f"{FORMAT}\n".encode())
    for text in texts:
        digest.update(f"{text}\n".encode())
    path = cache_folder(kind) / f"{digest.hexdigest()}.npz"
    try:
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error):  # missing or damaged
        arrays = compute()
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_atomic(path, buffer.getvalue())
    return arrays
