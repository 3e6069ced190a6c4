"""Motifs of molecules as SMILES and drawings."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import motifair
from motifair.graphs.molecules import as_graphs, parse_smiles
from motifair.motifs.extract import extract_motifs
from motifair.motifs.fragments import fragment
from motifair.report.gallery import gallery

# Rings without substituents, whose SMILES are known, and the bonds of an open chain.
KNOWN = {
    "c1ccccc1": {"c1ccccc1"},
    "C1CCOC1": {"C1CCOC1"},
    "c1ccncc1": {"c1ccncc1"},
    "C1=CC=CC1": {"C1=CCC=C1"},
    "FC#N": {"CF", "C#N"},
    "CC(=O)O": {"CC", "C=O", "CO"},
    "c1ccc2ccccc2c1": {"c1ccccc1"},
}


@pytest.mark.parametrize("smiles", KNOWN)
def test_motifs_of_a_molecule_are_named_by_their_smiles(smiles: str) -> None:
    graphs = as_graphs("one", parse_smiles([smiles]))
    assert graphs.node_label is not None
    motifs = extract_motifs(graphs, graphs.node_label, rings="chordless", max_ring=8)
    found = [fragment(key) for key in motifs.keys]
    assert {f.smiles for f in found if f is not None} == KNOWN[smiles]


ATOMS = st.sampled_from([5, 6, 7, 8, 9, 16, 17, 35])
BONDS = st.integers(0, 4)


@given(st.lists(st.tuples(ATOMS, BONDS), min_size=3, max_size=8), st.integers(0, 7))
def test_a_ring_is_named_alike_from_wherever_it_is_read(
    ring: list[tuple[int, int]], turn: int
) -> None:
    turned = ring[turn % len(ring) :] + ring[: turn % len(ring)]
    one, two = (
        fragment("ring " + " ".join(f"{a}/{b}" for a, b in each)) for each in (ring, turned)
    )
    assert one is not None
    assert two is not None
    assert one.smiles == two.smiles
    ElementTree.fromstring(f"<svg>{one.svg}</svg>")


@pytest.mark.parametrize(
    "key", ["bond <b>", "ring 6/1 6/1", "bond 6 999/1", "bond 6 6", "ring 6 6 6", "bond -6 6/1", ""]
)
def test_what_is_no_fragment_has_no_name(key: str) -> None:
    assert fragment(key) is None


def test_without_rdkit_keys_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motifair.motifs.fragments.find_spec", lambda _: None)
    (group,) = gallery({"a": ["bond 6 53/1"]}, molecules=True)
    assert (group.cards[0].key, group.cards[0].svg) == ("bond 6 53/1", "")


def test_report_and_statement_name_and_draw_fragments(tmp_path: Path) -> None:
    rows = [f"c1ccccc1{'C' * (k % 3 + 1)}=O,{k % 2},lab-{k % 4 // 2}" for k in range(60)]
    path = tmp_path / "few.csv"
    path.write_text("\n".join(["smiles,toxic,lab", *rows]) + "\n")
    options = {"rounds": 1, "hidden": 8, "device": "cpu", "threads": 1, "max_ring": 6}
    result = motifair.run(path, partition="lab", chance=False, **options)
    page = result.report(tmp_path / "report.html").read_text()
    stated = result.statement("lab-1", path=tmp_path / "statement.html")
    assert stated.motifs is not None
    assert {m.smiles for m in stated.motifs} == {"c1ccccc1", "CC", "C=O"}
    for text in (page, (tmp_path / "statement.html").read_text()):
        assert "c1ccccc1</code>" in text
        assert "class='bond-0 atom-0 atom-1'" in text
