"""Bad datasets: each ends in one sentence that names the fix."""

from __future__ import annotations

import io
import random
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from graphs.graph_samples import write_parts

from motifair.errors import MotifairError
from motifair.graphs.features import fit_features
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.tu import load_tu, read_tu

OWN: dict[str, str | None] = {
    "A": "1, 2\n2, 1\n3, 4\n4, 3\n",
    "graph_indicator": "1\n1\n2\n2\n",
    "graph_labels": "0\n1\n",
    "node_labels": "0\n1\n1\n0\n",
    "edge_labels": "0\n0\n1\n1\n",
    "node_attributes": "0.5\n1\n2\n3\n",
}


def own_folder(folder: Path, change: dict[str, str | None]) -> str:
    parts = {part: text for part, text in {**OWN, **change}.items() if text is not None}
    return str(write_parts(folder, "OWN", parts))


@pytest.fixture
def mutag_zip(data_dir: Path) -> bytes:
    return (data_dir / "MUTAG.zip").read_bytes()


def directory_start(archive: bytes) -> int:
    """Where the central directory of a zip begins."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return opened.start_dir


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("PROTEIN", "No dataset is called 'PROTEIN'. Did you mean PROTEINS"),
        ("mutag", "Did you mean MUTAG"),
        ("plantd", "Did you mean planted"),
        ("zzz", "There are: PROTEINS, DD, .*path of a TU-format folder"),
        ("no/such/folder", "There is no folder or zip at no/such/folder; check the path"),
        ("missing.zip", "There is no folder or zip at missing.zip; check the path"),
    ],
)
def test_an_unknown_name_or_path_is_refused(name: str, sentence: str, data_dir: Path) -> None:
    with pytest.raises(MotifairError, match=sentence):
        load_tu(name, data_dir)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"A": None}, "exactly one file NAME_A.txt"),
        ({"graph_indicator": None}, "OWN_graph_indicator.txt is missing"),
        ({"graph_labels": None}, "OWN_graph_labels.txt is missing"),
        ({"graph_labels": "0.37\n1\n"}, "OWN_graph_labels.txt .* classes, one whole number in"),
        ({"graph_labels": "nan\n1\n"}, "OWN_graph_labels.txt .* classes, one whole number in"),
        ({"graph_labels": "0, 1\n1, 1\n"}, "graph_labels.txt has 2 numbers in a line; give each"),
        ({"A": "1, 2\n1, x\n"}, "OWN_A.txt cannot be read as numbers.*fix or replace"),
        ({"A": "1, 2\n3, 4, 1\n"}, "OWN_A.txt cannot be read as numbers.*fix or replace"),
        ({"A": "1\n2\n"}, "OWN_A.txt needs two node numbers in each line"),
        ({"A": "1, 2\n3\n"}, "OWN_A.txt (needs two|cannot be read)"),
        ({"A": "1, 2\n3, 4.5\n", "edge_labels": None}, "OWN_A.txt"),
        ({"A": f"1, 2\n3, {10**30}\n"}, "OWN_A.txt|joins nodes"),
        ({"node_labels": "a\nb\nb\na\n"}, "OWN_node_labels.txt cannot be read as numbers"),
        ({"node_labels": "0.2\n0.7\n1\n0\n"}, "OWN_node_labels.txt"),
        ({"edge_labels": "\x00\n"}, "OWN_edge_labels.txt"),
        ({"graph_indicator": ""}, "OWN_graph_indicator.txt cannot be read as numbers"),
        ({"A": "1, 2\n2, 1\n3, 4\n4, 5\n"}, "joins nodes 3 and 4.*remove the edge or add"),
        ({"A": "0, 1\n2, 1\n3, 4\n4, 3\n"}, "joins nodes -1 and 0.*remove the edge or add"),
        ({"A": "1, 2\n2, 1\n2, 3\n3, 2\n"}, "joins nodes 1 and 2 of two different graphs; remove"),
        ({"node_labels": "0\n1\n1\n"}, "4 nodes but 3 node labels; give one for each"),
        ({"edge_labels": "0\n0\n"}, "2 lines for 4 edges; give one label for each line"),
        ({"node_attributes": "1\n"}, "4 nodes but 1 rows of node attributes; give one for each"),
        ({"node_attributes": "a\nb\nc\nd\n"}, "OWN_node_attributes.txt cannot be read"),
        ({"graph_indicator": "2\n2\n1\n1\n"}, "must number the graphs 1 to 2 in order; fix"),
        ({"graph_indicator": "0\n0\n1\n1\n"}, "must number the graphs 1 to 2 in order; fix"),
        ({"graph_indicator": "1\n1\n3\n3\n"}, "must number the graphs 1 to 2 in order; fix"),
        ({"graph_labels": "0\n"}, "must number the graphs 1 to 1 in order; fix"),
        ({"graph_indicator": "1\n1\n1\n1\n"}, "Graph 1 of OWN has no node; remove it"),
    ],
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_bad_file_is_named_with_the_fix(
    change: dict[str, str | None], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(MotifairError, match=sentence):
        load_tu(own_folder(tmp_path, change))


@pytest.mark.parametrize("value", ["nan", "inf", ""])
def test_attributes_that_are_no_numbers_are_refused_where_they_are_used(
    value: str, tmp_path: Path
) -> None:
    folder = own_folder(tmp_path, {"node_attributes": f"1,1\n1,1\n1,{value}\n1,1\n"})
    with pytest.raises(MotifairError, match=r"node 2 of OWN are not all finite.* replace NaN"):
        fit_features(load_tu(folder), np.array([0, 1]), "attributes")


@pytest.mark.parametrize("kind", ["label", "degree"])
def test_the_advice_to_do_without_bad_attributes_helps(kind: str, tmp_path: Path) -> None:
    folder = own_folder(tmp_path, {"node_attributes": "nan\n1\n2\n3\n"})
    assert fit_features(load_tu(folder), np.array([0, 1]), kind).width == 2


def test_two_datasets_in_one_folder_are_refused(tmp_path: Path) -> None:
    own_folder(tmp_path, {})
    (tmp_path / "OTHER_A.txt").write_text("1, 2\n")
    with pytest.raises(MotifairError, match=r"exactly one file NAME_A.txt"):
        load_tu(str(tmp_path))


@pytest.mark.parametrize("length", [0, 1, 1000, 20000])
def test_random_bytes_are_no_zip(length: int, tmp_path: Path) -> None:
    (tmp_path / "X.zip").write_bytes(random.Random(length).randbytes(length))
    with pytest.raises(MotifairError, match=r"X\.zip is corrupt or truncated; get the archive"):
        load_tu(str(tmp_path / "X.zip"))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_zip_is_refused(share: float, mutag_zip: bytes, tmp_path: Path) -> None:
    (tmp_path / "MUTAG.zip").write_bytes(mutag_zip[: int(share * len(mutag_zip))])
    with pytest.raises(MotifairError, match="corrupt or truncated; get the archive again"):
        load_tu("MUTAG", tmp_path)


def test_a_zip_whose_content_is_damaged_is_refused(mutag_zip: bytes, tmp_path: Path) -> None:
    damaged = bytearray(mutag_zip)
    damaged[300:340] = b"x" * 40
    (tmp_path / "MUTAG.zip").write_bytes(damaged)
    with pytest.raises(MotifairError, match="corrupt or truncated; get the archive again"):
        load_tu("MUTAG", tmp_path)


def test_a_zip_with_one_wrong_byte_gives_the_same_graphs_or_a_sentence(
    mutag_zip: bytes, tmp_path: Path, mutag: GraphSet
) -> None:
    rng = random.Random(0)
    directory = range(directory_start(mutag_zip), len(mutag_zip))
    path = tmp_path / "MUTAG.zip"
    raw = set()
    for place in [*directory, *rng.sample(range(len(mutag_zip)), 100)]:
        damaged = bytearray(mutag_zip)
        damaged[place] ^= rng.randrange(1, 256)
        path.write_bytes(damaged)
        try:
            assert load_tu("MUTAG", tmp_path).digest() == mutag.digest()
        except MotifairError:
            continue
        except (OSError, RuntimeError, ValueError, LookupError) as error:
            raw.add(f"{type(error).__name__}: {error}")
    assert raw == set()


def test_a_zip_under_a_password_is_refused(mutag_zip: bytes, tmp_path: Path) -> None:
    locked = bytearray(mutag_zip)
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = locked.find(signature)
        while place >= 0:
            locked[place + flags] |= 1
            place = locked.find(signature, place + 1)
    (tmp_path / "MUTAG.zip").write_bytes(locked)
    with pytest.raises(MotifairError):
        load_tu("MUTAG", tmp_path)


def test_a_zip_without_a_dataset_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "X.zip", "w") as archive:
        archive.writestr("readme.txt", "nothing here")
    with pytest.raises(MotifairError, match="holds no TU dataset: it needs exactly one file"):
        load_tu(str(tmp_path / "X.zip"))


def test_a_zip_that_lacks_a_file_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "X.zip", "w") as archive:
        archive.writestr("X/X_A.txt", "1, 2\n")
    with pytest.raises(MotifairError, match=r"X_graph_indicator.txt is missing"):
        load_tu(str(tmp_path / "X.zip"))


@pytest.fixture
def mutag_folder(mutag_zip: bytes, tmp_path: Path) -> Path:
    with zipfile.ZipFile(io.BytesIO(mutag_zip)) as archive:
        archive.extractall(tmp_path)
    return tmp_path / "MUTAG"


def edit_first_line(path: Path, old: str, new: str) -> None:
    first, rest = path.read_text().split("\n", 1)
    assert first.strip() == old
    path.write_text(f"{new}\n{rest}")


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("A", "2, 1", "3, 1"),
        ("node_labels", "0", "1"),
        ("edge_labels", "0", "1"),
        ("graph_labels", "1", "-1"),
    ],
)
def test_content_that_calls_itself_mutag_but_is_not_is_refused(
    part: str, old: str, new: str, mutag_folder: Path
) -> None:
    edit_first_line(mutag_folder / f"MUTAG_{part}.txt", old, new)
    if part == "A":
        drop_edge(mutag_folder / "MUTAG_A.txt", "1, 2", "1, 3")
    with pytest.raises(
        MotifairError, match=r"not the published MUTAG.* but the content differs.*rename the folder"
    ):
        load_tu(str(mutag_folder))


def drop_edge(path: Path, old: str, new: str) -> None:
    """Replace the other direction of an edge too, so that their number stays."""
    text = path.read_text()
    assert f"\n{old}\n" in text
    path.write_text(text.replace(f"\n{old}\n", f"\n{new}\n", 1))


def test_a_published_dataset_that_lacks_graphs_is_refused_with_both_statistics(
    tmp_path: Path,
) -> None:
    parts = {part: text for part, text in OWN.items() if text is not None}
    folder = write_parts(tmp_path / "MUTAG", "MUTAG", parts)
    with pytest.raises(MotifairError, match=r"\(2, 2.0, 1.0, 2\), published are \(188, 17.93"):
        load_tu(str(folder))


def test_a_changed_dataset_under_another_name_is_the_users_own(mutag_folder: Path) -> None:
    edit_first_line(mutag_folder / "MUTAG_node_labels.txt", "0", "1")
    mine = mutag_folder.parent / "mine"
    mine.mkdir()
    for file in mutag_folder.glob("MUTAG_*.txt"):
        shutil.copy(file, mine / file.name.replace("MUTAG", "MINE"))
    assert len(load_tu(str(mine))) == 188


def test_a_data_folder_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MotifairError, match=r"--data-dir .*gone is not a folder; give an existing"):
        load_tu("MUTAG", tmp_path / "gone")
    monkeypatch.setenv("MOTIFAIR_DATA", str(tmp_path / "gone"))
    with pytest.raises(MotifairError, match=r"MOTIFAIR_DATA=.*gone is not a folder; point it"):
        load_tu("MUTAG")


def test_an_impossible_download_names_the_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(root: str, name: str) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr("torch_geometric.datasets.TUDataset", unreachable)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        MotifairError,
        match=r"MUTAG could not be downloaded \(ConnectionError\).*MUTAG.zip.*--data-dir",
    ):
        load_tu("MUTAG", tmp_path)


def test_a_zip_that_grows_without_bound_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "X.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X/X_A.txt", "1, 2\n" * 2**24)
    with pytest.raises(MotifairError, match=r"X_A\.txt in .* would take 83886080 bytes"):
        read_tu(tmp_path / "X.zip")
