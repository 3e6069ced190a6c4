"""Molecules in CSV files: atoms, bonds, targets, and what is wrong with a file."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motifair.errors import MotifairError
from motifair.graphs import molecules
from motifair.graphs.csv_file import Columns
from motifair.graphs.dataset import Dataset
from motifair.graphs.inputs import describe_inputs
from motifair.graphs.molecules import Molecules, parse_smiles, scaffolds
from motifair.graphs.read import NO_CLASS, read_graphs, read_table

TABLE = """id,name,toxic,logp,smiles,year
1,ethanol,0,-0.3,CCO,1999
2,benzene,1,2.1,c1ccccc1,2001
3,broken,1,1.0,c1ccccc,2001
4,acetate,,0.5,CC(=O)[O-].[Na+],2003
5,missing,0,0.1,,2003
"""


def write(folder: Path, text: str = TABLE, name: str = "few.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_atoms_and_bonds_are_labelled_and_bad_smiles_counted(tmp_path: Path) -> None:
    path = write(tmp_path)
    graphs, table = read_table(path, Columns(targets="toxic"))
    assert table is not None
    assert graphs.nodes.tolist() == [3, 6]
    assert graphs.node_label is not None
    assert graphs.node_label.tolist() == [6, 6, 8, 6, 6, 6, 6, 6, 6]
    assert graphs.edge_label is not None
    assert set(graphs.edge_label.tolist()) == {1, 4}
    assert (graphs.class_values, graphs.target.tolist(), graphs.values) == ((0, 1), [0, 1], None)
    assert table.rows["name"].tolist() == ["ethanol", "benzene"]
    assert table.unreadable == ((4, "c1ccccc"), (6, ""))
    assert graphs.ignored == (
        "2 SMILES that RDKit cannot read (line 4: c1ccccc; line 6: empty)",
        "1 molecules without a value of any target",
    )


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ('\ufeffSMILES;y\n"C";0\nCC;1\n', ""),
        ("smiles\ty\r\nC\t0\r\nCC \t1\r\n\r\n", ""),
        ("smiles,active\nC,False\nCC,True\n", ""),
        ('smiles,"IC50 > 5, in nM; pH 7",id\nC,0,1\nCC,1,2\n', "IC50 > 5, in nM; pH 7"),
    ],
)
def test_tables_as_spreadsheets_write_them(text: str, asked: str, tmp_path: Path) -> None:
    graphs, _ = read_table(write(tmp_path, text), Columns(targets=asked))
    assert (graphs.nodes.tolist(), graphs.target.tolist()) == ([1, 2], [0, 1])


def test_few_whole_numbers_are_said_to_be_read_as_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, "smiles,kind\nC,0\nCC,2\nCCC,1\n")
    data = Dataset(read_table(path, Columns())[0])
    kinds = ("regression", "classes")
    said = [describe_inputs(data, "label", motifs=False, task=task).uses[-1] for task in kinds]
    assert said[0] == "1 target (kind; numbers: if its 3 values are classes, use task=classes)"
    assert said[1] == "3 classes (0, 1, 2)"


def test_attributes_are_those_that_are_named(tmp_path: Path) -> None:
    graphs = read_table(write(tmp_path), Columns(targets="logp"))[0]
    assert graphs.attribute is not None
    by_name = dict(zip(molecules.ATTRIBUTES, graphs.attribute.T, strict=True))
    assert by_name["hydrogens"].tolist() == [3, 2, 1, *[1] * 6, 3, 0, 0, 0, 0]
    assert by_name["charge"].tolist() == [*[0] * 12, -1, 1]
    assert (
        by_name["aromatic"].tolist() == by_name["in a ring"].tolist() == [0] * 3 + [1] * 6 + [0] * 5
    )
    assert by_name["sp2"][3:9].all()
    assert by_name["sp3"][:2].all()


def test_all_targets_are_columns_of_numbers_but_row_numbers_and_the_group(tmp_path: Path) -> None:
    path = write(tmp_path)
    graphs, table = read_table(path, Columns(targets="all", group="year"))
    assert table is not None
    assert graphs.target_names == table.targets == ("toxic", "logp")
    assert graphs.values is not None
    assert np.array_equal(graphs.values, [[0, -0.3], [1, 2.1], [np.nan, 0.5]], equal_nan=True)
    graphs = read_table(path, Columns(targets="all"))[0]
    assert graphs.target_names == ("toxic", "logp", "year")
    assert "column id, which counts rows" in graphs.ignored


def test_columns_that_do_not_vary_are_no_targets_and_named(tmp_path: Path) -> None:
    path = write(tmp_path, "smiles,a,b,empty,same\nC,0,.5,,1\nCC,1,.2,,1\nCCC,0,.1,,\n")
    graphs = read_table(path, Columns(targets="all"))[0]
    assert graphs.target_names == ("a", "b")
    assert graphs.ignored == ("2 columns without two values (empty, same)",)


def test_a_compressed_file_and_another_column_of_smiles_read_the_same(tmp_path: Path) -> None:
    text = TABLE.replace("smiles", "Structure")
    packed = tmp_path / "few.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    read = read_table(packed, Columns("structure", "toxic"))[0]
    assert read.name == "few"
    assert read.digest() == read_table(write(tmp_path), Columns(targets="toxic"))[0].digest()


def test_graphs_to_predict_need_no_target(tmp_path: Path) -> None:
    path = write(tmp_path, "smiles\nCCO\nCC\n")
    graphs = read_graphs(path, Columns(targets=None))
    assert graphs.target.tolist() == [NO_CLASS, NO_CLASS]
    assert graphs.nodes.tolist() == [3, 2]


MISTAKES = [
    (TABLE, Columns("smile", "toxic"), "has no column 'smile'. Did you mean smiles?"),
    (TABLE, Columns(targets="toxik"), "has no column 'toxik'. Did you mean toxic?"),
    (TABLE, Columns(), "has 3 columns of numbers (toxic, logp, year); name those to predict"),
    (TABLE, Columns(targets="name"), "Column 'name' of {} has 'ethanol', which is not a number"),
    (TABLE, Columns("name", "toxic"), "RDKit cannot read the SMILES in column 'name'"),
    (TABLE.replace("smiles", "mol"), Columns(targets="toxic"), "name the one with SMILES with"),
    ("smiles,y\nCCO,\nCC,\n", Columns(targets="y"), "No molecule of {} has a value of y"),
    ("smiles,name\nCCO,a\n", Columns(), "no column of numbers to predict (left out: name, which"),
    ("smiles;y\nCCO;1,5\nC;2,5\n", Columns(targets="y"), "write targets as numbers with a dec"),
    ("smiles,y\nCCO,inf\nCC,1\n", Columns(), "Column 'y' of {} has an infinite number"),
    ("", Columns(), "{} is empty"),
    ("smiles,y\n", Columns(), "{} has no row below"),
    ("smiles,y\nC,1\nC,1,2,3\n", Columns(), "{} is not a table separated by commas"),
    ("graph,source,target,y\n0,0,1,0\n", Columns(targets="y"), "{} has edges, whose columns are"),
]


@pytest.mark.parametrize(("text", "columns", "sentence"), MISTAKES)
def test_a_mistake_is_one_sentence(
    tmp_path: Path, text: str, columns: Columns, sentence: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(MotifairError) as raised:
        read_table(path, columns)
    assert sentence.format(path) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", "smiles,y\nC,1\ncafé,0\n".encode("latin-1"), "is not UTF-8"),
        ("a.csv.gz", gzip.compress(TABLE.encode(), mtime=0)[:40], "corrupt or truncated"),
        ("a.csv.gz", b"smiles,y\nC,1\n", "cannot be read"),
    ],
)
def test_a_damaged_file_is_one_sentence(
    tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(MotifairError, match=sentence):
        read_table(path, Columns())


def test_without_rdkit_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motifair.extras.find_spec", lambda _: None)
    with pytest.raises(MotifairError, match=r"pip install 'motifair\[chem\]'"):
        read_table(write(tmp_path), Columns(targets="toxic"))


def test_the_cache_returns_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["CCO", "C/C=C/C", "nothing", "c1ccncc1"]
    read = parse_smiles(texts)
    monkeypatch.setattr(molecules, "CACHED", 1)
    monkeypatch.setattr(molecules, "CHUNK", 2)
    first = parse_smiles(texts)
    known = scaffolds(texts[:2])
    monkeypatch.setattr(molecules, "_parse", None)
    monkeypatch.setattr(molecules, "_chunks", None)
    assert scaffolds(texts[:2]) == known == ["", ""]
    for stored in (first, parse_smiles(texts)):
        for name in Molecules.__dataclass_fields__:
            assert np.array_equal(getattr(stored, name), getattr(read, name)), name


PIECES = ["C", "N", "O", "c1ccccc1", "C(=O)", "C1CC1", "S", "C#C"]


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6))
def test_graphs_do_not_depend_on_how_smiles_are_written(pieces: list[str]) -> None:
    from rdkit import Chem

    text = "".join(pieces)
    molecule = Chem.MolFromSmiles(text)
    other = Chem.MolToSmiles(molecule, doRandom=True)
    one, two = parse_smiles([text]), parse_smiles([other])
    atoms = [np.column_stack([m.element, m.attribute]).tolist() for m in (one, two)]
    assert sorted(atoms[0]) == sorted(atoms[1])
    assert sorted(one.bond.tolist()) == sorted(two.bond.tolist())
    assert scaffolds([text]) == scaffolds([other])
    # An independent count: RDKit's own adjacency matrix.
    assert len(one.edges) == Chem.GetAdjacencyMatrix(molecule).sum() // 2


def test_tox21_is_read_whole(data_dir: Path) -> None:
    path = data_dir / "molecules" / "tox21.csv"
    if not path.exists():
        pytest.skip("needs molecules/tox21.csv")
    graphs, table = read_table(path, Columns(targets="all"))
    assert table is not None
    assert len(table.targets) == 12
    assert len(graphs) + len(table.unreadable) == 7831
    assert graphs.values is not None
    assert 0.15 < np.isnan(graphs.values).mean() < 0.2
