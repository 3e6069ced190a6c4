"""Predict with the models of a result."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from motifair.errors import MotifairError
from motifair.export.model import Exported, make_exported
from motifair.export.predict import predict
from motifair.export.trained import SERVER, TrainedSplit
from motifair.graphs.csv_file import Columns
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.read import from_unclassed, read_graphs

if TYPE_CHECKING:
    from motifair.experiments.result import Result


def predict_with(result: Result, graphs: Any, agent: str, split: int) -> pd.DataFrame:
    """Return the predictions for graphs by the model of an agent or of the server on one split."""
    return predict(model_of(result, agent, split), as_graphs(graphs, result.config.smiles))


def model_of(result: Result, agent: str, split: int) -> Exported:
    """Return the model of an agent or of the server on one split of a result."""
    chosen = result.get_split(split)
    origin = result.origin
    trained = TrainedSplit(origin.plan, split, origin.final_state(split), chosen.history)
    if agent not in trained.names:
        method = result.config.method
        problem = (
            f"{method} has no server's model" if agent == SERVER else f"There is no agent {agent}"
        )
        raise MotifairError(f"{problem}; name one of {', '.join(trained.names)}.")
    model = trained.model(agent)
    card = trained.card(model)
    members = trained.own(agent)
    return make_exported(model.weights, members.model, members.features, card, model.own)


def as_graphs(graphs: Any, smiles: str = "") -> GraphSet:
    """Return graphs for `predict` from a path, or from PyG or NetworkX objects.

    `smiles` is the column of a CSV file with molecules.
    """
    if isinstance(graphs, GraphSet):
        return graphs
    if isinstance(graphs, str | Path):
        return read_graphs(Path(graphs), Columns(smiles, targets=None))
    if not isinstance(graphs, Iterable) or not (objects := list(graphs)):
        raise MotifairError("predict takes a list of graphs, or a path; give at least one graph.")
    return from_unclassed(objects)
