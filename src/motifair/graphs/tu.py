"""Read and write the text format of the TU collection: folders, zips and downloads."""

from __future__ import annotations

import contextlib
import io
import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from motifair.errors import MotifairError, nearest
from motifair.files import write_atomic
from motifair.graphs.graph_set import GraphSet, lost_edges, whole_numbers

DATA_VARIABLE = "MOTIFAIR_DATA"
MOST_EXPANSION, SMALL = 200, 2**26  # of a file in a zip: times its size there; bytes of any file

# Exceptions of the standard library for corrupt data, unknown compression and encrypted files.
ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError,
)  # fmt: skip


@dataclass(frozen=True)
class PublishedDataset:
    """Statistics of a published dataset, and the digest of its parsed content."""

    graphs: int
    nodes: float
    edges: float
    classes: int
    digest: str


KNOWN = {
    "PROTEINS": PublishedDataset(
        1113, 39.06, 72.82, 2, "05d9e6989c7f786e71eaa8db5d8ba8f79421fcd51b7495ce28b43e69cc9aac30"
    ),
    "DD": PublishedDataset(
        1178, 284.32, 715.66, 2, "efa3fd867b8e3bba3950c6d7aa41eb77b1f4a49666cce879d8f5dd392740e025"
    ),
    "IMDB-BINARY": PublishedDataset(
        1000, 19.77, 96.53, 2, "17f4310da074f4f850c5a8e9c7ed7eaa6a20dd09aa0917fe144de415653eda0b"
    ),
    "MUTAG": PublishedDataset(
        188, 17.93, 19.79, 2, "98e976c134c8b0334a18bd7dfc358251b6831f08d371d1edf4ff98a24ce6956c"
    ),
    "DBLP_v1": PublishedDataset(
        19456, 10.48, 19.65, 2, "6f32d762470f8f218a06c6696b0e87fb318187f0c43ac0b11cd9e57cdd684066"
    ),
}


def load_tu(dataset: str, data_dir: Path | None = None) -> GraphSet:
    """Load a TU dataset and, if it is a published one, check its content.

    Args:
        dataset: Name of a TU dataset, which is downloaded if it is not in the data folder; or the
            path of a folder or zip in the TU format.
        data_dir: Folder with datasets, by default `$MOTIFAIR_DATA`.

    Raises:
        MotifairError: If there is no such dataset, it cannot be read, or it is not what its name
            says.
    """
    path = locate(dataset, data_dir)
    graphs = read_tu(path if path is not None else download(dataset))
    check_known(graphs)
    return graphs


def locate(dataset: str, data_dir: Path | None = None) -> Path | None:
    """Return the path of a dataset, given by path or by name in the data folder.

    Returns None for a known dataset that is not there and can be downloaded.
    """
    given = Path(dataset).expanduser()
    if given.exists() and (given.is_dir() or given.suffix == ".zip"):
        return given
    if os.sep in dataset or dataset.endswith(".zip"):
        raise MotifairError(f"There is no folder or zip at {dataset}; check the path.")
    root = data_folder(data_dir)
    if root is not None:
        for candidate in (root / f"{dataset}.zip", root / dataset / "raw", root / dataset):
            if candidate.exists():
                return candidate
    if dataset not in KNOWN:
        names = [*KNOWN, "planted", "twitter-like"]
        raise MotifairError(
            f"No dataset is called '{dataset}'. {nearest(dataset, names)} "
            "For your own graphs give the path of a TU-format folder."
        )
    return None


def data_folder(data_dir: Path | None) -> Path | None:
    """Return the folder with datasets: `data_dir`, else `$MOTIFAIR_DATA`, else None."""
    if data_dir is not None:
        if not data_dir.is_dir():
            raise MotifairError(f"--data-dir {data_dir} is not a folder; give an existing one.")
        return data_dir
    named = os.environ.get(DATA_VARIABLE)
    if not named:
        return None
    if not Path(named).is_dir():
        raise MotifairError(
            f"{DATA_VARIABLE}={named} is not a folder; point it to an existing one."
        )
    return Path(named)


def download(dataset: str) -> Path:
    """Download a TU dataset through PyG, which shows the progress, into the cache folder."""
    from torch_geometric.datasets import TUDataset

    from motifair.files import cache_folder

    root = cache_folder("tu")
    try:
        TUDataset(str(root), dataset)
    except Exception as error:
        raise MotifairError(
            f"{dataset} could not be downloaded ({type(error).__name__}). Put {dataset}.zip into a "
            f"folder and name that folder with --data-dir or {DATA_VARIABLE}."
        ) from error
    return root / dataset / "raw"


def read_tu(path: Path) -> GraphSet:
    """Parse a folder or zip of TU text files."""
    with contextlib.ExitStack() as stack:
        name, read = zip_reader(path, stack) if path.is_file() else folder_reader(path)
        try:
            return parse(name, read)
        except ZIP_ERRORS as error:
            raise corrupt(path) from error


def write_tu(graphs: GraphSet, folder: Path) -> None:
    """Write graphs in the TU format; files are named after the folder. Edge labels are left out."""
    name, pairs = folder.name, graphs.edge_list()[0]
    tables: dict[str, np.ndarray | None] = {
        "A": np.concatenate([pairs, pairs[:, ::-1]]) + 1,
        "graph_indicator": graphs.node_graph + 1,
        "graph_labels": np.array(graphs.class_values)[graphs.target]
        if graphs.values is None
        else None,
        "graph_attributes": graphs.values,
        "node_labels": graphs.node_label,
        "node_attributes": graphs.attribute,
    }
    folder.mkdir(parents=True, exist_ok=True)
    for part, table in tables.items():
        if table is not None:
            text = io.StringIO()
            form = "%.17g" if table.dtype.kind == "f" else "%d"
            np.savetxt(text, table, fmt=form, delimiter=", ")
            write_atomic(folder / f"{name}_{part}.txt", text.getvalue())


def check_known(graphs: GraphSet) -> None:
    """Raise if the graphs have the name of a published dataset but not its content."""
    known = KNOWN.get(graphs.name)
    if known is None:
        return
    actual = (
        len(graphs),
        round(float(graphs.nodes.mean()), 2),
        round(float(graphs.edges.mean()), 2),
        graphs.classes,
    )
    published = (known.graphs, known.nodes, known.edges, known.classes)
    if actual != published or graphs.digest() != known.digest:
        raise MotifairError(
            f"This is not the published {graphs.name}: graphs, mean nodes, mean edges and classes "
            f"are {actual}, published are {published}"
            + (", but the content differs" if actual == published else "")
            + ". Get the dataset again, or rename the folder if the graphs are your own."
        )


Reader = Callable[[str], bytes | None]


def folder_reader(path: Path) -> tuple[str, Reader]:
    """Return the name of the dataset in a TU folder, and a function that reads its files."""
    names = sorted(path.glob("*_A.txt"))
    if len(names) != 1:
        raise MotifairError(
            f"{path} is no TU-format folder: it needs exactly one file NAME_A.txt, with "
            "NAME_graph_indicator.txt and NAME_graph_labels.txt."
        )
    name = names[0].name.removesuffix("_A.txt")

    def read(part: str) -> bytes | None:
        file = path / f"{name}_{part}.txt"
        return file.read_bytes() if file.exists() else None

    return name, read


def zip_reader(path: Path, stack: contextlib.ExitStack) -> tuple[str, Reader]:
    """Return the name of the dataset in a zip, and a function that reads its files."""
    try:
        archive = stack.enter_context(zipfile.ZipFile(path))
    except ZIP_ERRORS as error:
        raise corrupt(path) from error
    members = [m for m in archive.namelist() if m.endswith("_A.txt")]
    if len(members) != 1:
        raise MotifairError(f"{path} holds no TU dataset: it needs exactly one file NAME_A.txt.")
    stem = members[0].removesuffix("_A.txt")
    for info in archive.infolist():
        if info.file_size > max(MOST_EXPANSION * info.compress_size, SMALL):
            raise MotifairError(
                f"{info.filename} in {path} would take {info.file_size} bytes; unpack the archive "
                "and name the folder, if it is to be trusted."
            )

    def read(part: str) -> bytes | None:
        member = f"{stem}_{part}.txt"
        return archive.read(member) if member in archive.namelist() else None

    return stem.rsplit("/", 1)[-1], read


def corrupt(path: Path) -> MotifairError:
    """Return the error for a damaged archive."""
    return MotifairError(f"{path} is corrupt or truncated; get the archive again.")


def parse(name: str, read: Reader) -> GraphSet:
    """Build graphs from the files of a TU dataset, which `read` returns by part.

    Where there are no `graph_labels`, targets are the `graph_attributes`, nan where a label is
    missing.
    """

    def table(part: str, kind: type) -> np.ndarray | None:
        content = read(part)
        if content is None:
            return None
        try:
            frame = pd.read_csv(io.BytesIO(content), header=None, skipinitialspace=True)
            if kind is np.float64:
                return frame.to_numpy(dtype=kind)
            if not np.isfinite(frame.to_numpy(dtype=np.float64)).all():
                raise ValueError("a number is missing")
            return whole_numbers(frame.to_numpy())
        except (ValueError, OverflowError, pd.errors.ParserError) as error:
            wanted = "numbers separated by commas"
            if part == "graph_labels":
                wanted = "classes, one whole number in each line"
            raise MotifairError(
                f"{name}_{part}.txt cannot be read as {wanted}; fix or replace the file."
            ) from error

    def required(part: str) -> np.ndarray:
        values = table(part, np.int64)
        if values is None:
            raise MotifairError(f"{name}_{part}.txt is missing; a TU dataset needs it.")
        return values

    indicator = required("graph_indicator")[:, 0]
    numbers = table("graph_attributes", np.float64) if read("graph_labels") is None else None
    labels = required("graph_labels") if numbers is None else numbers
    if numbers is None and labels.shape[1] != 1:
        raise MotifairError(
            f"{name}_graph_labels.txt has {labels.shape[1]} numbers in a line; give each graph one "
            f"class: a single whole number, or several targets in {name}_graph_attributes.txt."
        )
    raw_target, edges = labels[:, 0], required("A")
    if edges.shape[1] != 2:
        raise MotifairError(f"{name}_A.txt needs two node numbers in each line.")
    if (np.diff(indicator) < 0).any() or indicator.min() < 1 or indicator.max() > len(raw_target):
        raise MotifairError(
            f"{name}_graph_indicator.txt must number the graphs 1 to {len(raw_target)} in order; "
            "fix the file."
        )
    node_label, edge_label = table("node_labels", np.int64), table("edge_labels", np.int64)
    if edge_label is not None and len(edge_label) != len(edges):
        raise MotifairError(
            f"{name}_edge_labels.txt has {len(edge_label)} lines for {len(edges)} edges; "
            "give one label for each line of the edge file."
        )
    values, target = np.unique(raw_target, return_inverse=True)
    ignored = [
        f"{part.replace('_', ' ')} beyond the first column"
        for part, rows in (("node_labels", node_label), ("edge_labels", edge_label))
        if rows is not None and rows.shape[1] > 1
    ]
    unread = ("edge_attributes", *(["graph_attributes"] if numbers is None else []))
    ignored += [part.replace("_", " ") for part in unread if read(part) is not None]
    return GraphSet.build(
        name,
        nodes=np.bincount(indicator - 1, minlength=len(raw_target)),
        edges=edges - 1,
        target=target if numbers is None else numbers,
        class_values=values.tolist() if numbers is None else None,
        node_label=None if node_label is None else node_label[:, 0],
        edge_label=None if edge_label is None else edge_label[:, 0],
        attribute=table("node_attributes", np.float64),
        ignored=[*ignored, *lost_edges(edges, len(indicator) + 1)],
    )
