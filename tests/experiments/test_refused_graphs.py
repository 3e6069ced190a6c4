"""Graphs, tables and modules that a run refuses: one sentence each, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool

import motifair
from motifair.errors import MotifairError

MOLECULES = ["C" * k + end for k in range(1, 6) for end in ("O", "N", "F", "Cl")]


class Narrow(torch.nn.Module):
    """Returns one column of scores, whatever is predicted."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convs = torch.nn.Linear(width, 1)

    def forward(self, data: Any) -> torch.Tensor:
        return global_add_pool(self.convs(data.x), data.batch, size=data.num_graphs)


def table(*columns: str, unreadable: bool = False) -> Callable[[Path], dict[str, Any]]:
    """A CSV file of molecules; of row k a column has the k-th of its words, again and again."""

    def write(folder: Path) -> dict[str, Any]:
        names = ["smiles", *(f"y{k}" for k in range(len(columns)))]
        words = [column.split() for column in columns]
        rows = [
            ["?" if unreadable else smiles, *(w[k % len(w)].strip("-") for w in words)]
            for k, smiles in enumerate(MOLECULES)
        ]
        lines = [",".join(row) for row in (names, *rows)]
        (folder / "table.csv").write_text("\n".join(lines) + "\n")
        return {"dataset": folder / "table.csv", "smiles": "smiles", "targets": "all"}

    return write


def without_column(folder: Path) -> dict[str, Any]:
    return {**table("0 1")(folder), "targets": "toxic"}


def not_utf8(folder: Path) -> dict[str, Any]:
    options = table("0 1")(folder)
    options["dataset"].write_bytes("smiles,y\nCCO,1\ncafé,0\n".encode("latin-1"))
    return options


def paths(attributes: Callable[[int], list[float]], y: Callable[[int], Any]) -> list[nx.Graph]:
    graphs = []
    for k in range(20):
        graph = nx.path_graph(3 + k % 3)
        nx.set_node_attributes(graph, {v: attributes(k) for v in graph}, "x")
        graph.graph["y"] = y(k)
        graphs.append(graph)
    return graphs


def silent_member(_: Path) -> dict[str, Any]:
    nan = float("nan")
    one = paths(lambda k: [k], lambda k: [k % 2, float(k % 3 == 0)])
    return {"dataset": {"one": one, "two": paths(lambda k: [k], lambda _: [nan, nan])}}


def constant_answer(_: Path) -> dict[str, Any]:
    return {"dataset": paths(lambda k: [k], lambda k: [float(k), 3.5])}


def nan_attributes(_: Path) -> dict[str, Any]:
    return {"dataset": paths(lambda k: [np.nan if k == 7 else k], lambda k: k % 2)}


def other_width(_: Path) -> dict[str, Any]:
    held = {
        name: paths(lambda k, width=width: [float(k)] * width, lambda k: k % 2)  # type: ignore[misc]
        for name, width in (("one", 2), ("two", 3))
    }
    return {"dataset": held}


def edge_out_of_range(_: Path) -> dict[str, Any]:
    edges = torch.tensor([[0, 1], [1, 5]])
    graphs = [
        Data(x=torch.ones(3, 1), edge_index=edges, y=torch.tensor([k % 2])) for k in range(20)
    ]
    return {"dataset": graphs}


def narrow_module(_: Path) -> dict[str, Any]:
    return {"dataset": paths(lambda k: [k], lambda k: k % 2), "model": Narrow}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (without_column, "has no column 'toxic'"),
        (silent_member, "Agent 'two' trains on .* graphs without a label"),
        (table("1"), r"left out: 1 columns without two values \(y0\)"),
        (constant_answer, "Target 'y1' of own graphs has the value 3.5"),
        (table("0 1", "0 1 2.5"), "targets of two kinds: 'y0' is 0 or 1, 'y1' a number"),
        (nan_attributes, "attributes of node 27 .* are not all finite"),
        (edge_out_of_range, "has 3 nodes, but an edge names node 5"),
        (not_utf8, "is not UTF-8"),
        (narrow_module, r"returned \(2, 1\) for 2 graphs; it must return scores \(2, 2\)"),
        (table("0 1", unreadable=True), "RDKit cannot read"),
        (other_width, "one: 2 attributes; two: 3 attributes"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_a_run_cannot_use_is_refused_before_anything_is_written(
    given: Callable[[Path], dict[str, Any]], sentence: str, tmp_path: Path
) -> None:
    options = {"rounds": 1, "agents": 2, "partition": "iid", **given(tmp_path)}
    if isinstance(options["dataset"], dict):
        del options["agents"], options["partition"]
    before = sorted(tmp_path.iterdir())
    with pytest.raises(MotifairError, match=sentence) as caught:
        motifair.run(**options, out=tmp_path / "run", device="cpu", threads=1)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before
