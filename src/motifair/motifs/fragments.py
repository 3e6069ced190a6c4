"""Motifs of molecules as chemists read them: canonical SMILES of a bond or ring, and a drawing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

from motifair.graphs.molecules import AROMATIC, quiet

# Keys come from agents: what is not of the form that `extract` writes is no fragment.
KEY = re.compile(r"(bond \d{1,3}|ring(?: \d{1,3}/\d)+) \d{1,3}/\d")
SIZE = 100
HEAVIEST = 118  # the largest atomic number


@dataclass(frozen=True)
class Fragment:
    """A bond or ring of a molecule without its other atoms: SMILES, and the content of an SVG of
    width and height `SIZE`.
    """

    smiles: str
    svg: str


@cache
def fragment(key: str) -> Fragment | None:
    """Return the fragment of a motif's key, whose labels are atomic numbers and bond orders.

    Returns None if the key has another form, or RDKit is not installed.

    >>> fragment("bond 6 8/2").smiles, fragment("ring 6/4 6/4 6/4 6/4 6/4 7/4").smiles
    ('C=O', 'c1ccncc1')
    >>> fragment("bond <b>") is None
    True
    """
    if not KEY.fullmatch(key) or find_spec("rdkit") is None:
        return None
    kind, *words = key.split()
    parts = [word.partition("/") for word in words]
    elements, orders = [int(p[0]) for p in parts], [int(p[2] or 0) for p in parts]
    if max(elements) > HEAVIEST or (kind == "ring" and len(words) < 3):
        return None
    # The order of a bond stands after its second atom, that of a ring's edge after its first.
    edges = [(0, 1, orders[-1])]
    if kind == "ring":
        edges = [(k, (k + 1) % len(words), order) for k, order in enumerate(orders)]
    molecule = _molecule(elements, edges)
    return Fragment(_smiles(molecule), _svg(molecule))


def _molecule(elements: Sequence[int], edges: Sequence[tuple[int, int, int]]) -> Any:
    """Return atoms and bonds as an RDKit molecule with open valences."""
    from rdkit import Chem

    kinds = Chem.BondType
    types = {1: kinds.SINGLE, 2: kinds.DOUBLE, 3: kinds.TRIPLE, AROMATIC: kinds.AROMATIC}
    molecule = Chem.RWMol()
    for element in elements:
        atom = Chem.Atom(element)
        atom.SetNoImplicit(True)
        molecule.AddAtom(atom)
    for first, second, order in edges:
        molecule.AddBond(first, second, types.get(order, kinds.UNSPECIFIED))
        if order == AROMATIC:
            molecule.GetBondBetweenAtoms(first, second).SetIsAromatic(True)
            for end in (first, second):
                molecule.GetAtomWithIdx(end).SetIsAromatic(True)
    molecule.UpdatePropertyCache(strict=False)
    Chem.FastFindRings(molecule)
    return molecule


def _smiles(molecule: Any) -> str:
    """Return canonical SMILES: those of the molecule with hydrogens, if it can exist."""
    from rdkit import Chem

    text = str(Chem.MolToSmiles(molecule))
    with quiet():
        whole = Chem.MolFromSmiles(text)
    return text if whole is None else str(Chem.MolToSmiles(whole))


def _svg(molecule: Any) -> str:
    from rdkit.Chem.Draw import rdMolDraw2D

    drawer = rdMolDraw2D.MolDraw2DSVG(SIZE, SIZE)
    options: Any = drawer.drawOptions()
    options.clearBackground, options.padding = False, 0.15
    options.useBWAtomPalette()
    rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule, kekulize=False)
    drawer.FinishDrawing()
    text = str(drawer.GetDrawingText())
    inside = text.partition("<!-- END OF HEADER -->")[2].rpartition("</svg>")[0]
    return inside.replace("#000000", "currentColor").strip()  # readable on dark pages, too
