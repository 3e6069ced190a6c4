"""Models with random weights, and graphs as plain PyG reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from motifair.export.model import NETWORKS, save_model
from motifair.graphs.features import Features, fit_features
from motifair.graphs.graph_set import GraphSet
from motifair.models import Model

CARD = {"method": "fedavg", "agent": "agent-01", "rounds": 7, "accuracy": 0.75}


def trained(graphs: GraphSet, network: str, kind: str) -> tuple[Model, Tensor, Features]:
    """A model for the graphs whose weights are large enough to tell graphs apart."""
    edges = "label" if network == "gine" else "ignore"
    features = fit_features(graphs, np.arange(len(graphs)), kind, edges)
    sizes = (8, 2, features.edges) if features.edges else (8, 2)
    model = NETWORKS[network](features.width, graphs.classes, *sizes)
    return model, model.layout.initial(3, torch.float32), features


def saved(
    folder: Path,
    graphs: GraphSet,
    network: str = "gin",
    kind: str = "first",
    own_weight: float = 0.0,
) -> Path:
    """Write a model; with an `own_weight` beside another that was trained alone."""
    model, weights, features = trained(graphs, network, kind)
    own = (model.layout.initial(11, torch.float32), own_weight) if own_weight else None
    save_model(folder, weights, model, features, CARD, own)
    return folder


def as_pyg(graphs: GraphSet, features: Features) -> Batch:
    """The graphs as one batch; x is worked out from its definition, attributes as they are."""
    parts = []
    if features.kind == "degree":
        parts.append(np.eye(features.width)[graphs.degree.clip(max=features.width - 1)])
    if "label" in features.kind:
        parts.append((np.asarray(graphs.node_label)[:, None] == features.columns).astype(float))
    if "attributes" in features.kind:
        parts.append(np.asarray(graphs.attribute))
    x = np.hstack(parts)
    source = np.repeat(np.arange(len(graphs.degree)), graphs.degree)
    made = []
    for first, stop in zip(graphs.node_start[:-1], graphs.node_start[1:], strict=True):
        own = (source >= first) & (source < stop)
        edges = np.stack([source[own], graphs.neighbour[own]]) - first
        made.append(Data(x=torch.tensor(x[first:stop]).float(), edge_index=torch.tensor(edges)))
        if features.edge_columns is not None:
            hot = np.asarray(graphs.edge_label)[own, None] == features.edge_columns
            made[-1].edge_attr = torch.tensor(hot).float()
    return Batch.from_data_list(made)
