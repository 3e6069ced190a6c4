"""The paper's table of datasets, counted from the data."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from motifair.experiments.published import published_table
from motifair.graphs.dataset import load_dataset
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.tu import data_folder
from motifair.studies.study import DATASETS, Settings, Study, StudyResult

PRINTED = {
    "graphs": "num_graphs",
    "mean nodes": "avg_nodes",
    "mean edges": "avg_edges",
    "classes": "num_classes",
}
PRINTED_DIGITS = 2


def run(settings: Settings) -> StudyResult:
    """Count graphs, nodes, edges, classes and labels of each dataset; nothing is trained."""
    rows = [r for d in settings.datasets or DATASETS for r in _rows(settings, d)]
    table = pd.DataFrame(rows, dtype=object)  # counts stay integers in a column with means
    notes = [
        "Edges are undirected and counted once. `difference`: here minus printed, both rounded as "
        "printed; empty where the paper prints nothing.",
        *(
            f"{r['dataset']}: {r['quantity']} is {r['here']} here and {r['published']} in print."
            for r in rows
            if r["difference"] == r["difference"] != 0
        ),
    ]
    return StudyResult("Datasets", {"datasets": table}, notes=notes)


def _rows(settings: Settings, dataset: str) -> list[dict[str, Any]]:
    agents = int(settings.options.get("agents", 10))
    folder = data_folder(settings.data_dir)
    graphs = load_dataset(dataset, agents=agents, seed=0, data_dir=folder).graphs
    rows = []
    for quantity, here in count(graphs).items():
        printed = _printed(graphs.name, PRINTED.get(quantity, ""))
        rows.append(
            {
                "dataset": graphs.name,
                "quantity": quantity,
                "here": here,
                "published": _plain(printed),
                "difference": _plain(round(here - printed, PRINTED_DIGITS)),
            }
        )
    return rows


def count(graphs: GraphSet) -> dict[str, float]:
    """Return the columns of the paper's table, and the number of node and edge labels."""
    labels = {"node labels": graphs.node_label, "edge labels": graphs.edge_label}
    return {
        "graphs": len(graphs),
        "mean nodes": round(float(graphs.nodes.mean()), PRINTED_DIGITS),
        "mean edges": round(float(graphs.edges.mean()), PRINTED_DIGITS),
        "classes": graphs.classes,
        **{k: 0 if v is None else len(set(v.tolist())) for k, v in labels.items()},
    }


def _printed(dataset: str, metric: str) -> float:
    table = published_table()
    rows = table[(table["dataset"] == dataset) & (table["metric"] == metric)]
    return float(rows["mean"].iloc[0]) if len(rows) else math.nan


def _plain(number: float) -> float:
    """Convert a whole number to an integer."""
    return int(number) if number.is_integer() else number


STUDY = Study("datasets", "the table of datasets, counted from the data", run)
