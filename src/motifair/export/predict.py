"""Predict the classes of new graphs with a trained model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from motifair.evaluation.accuracy import outputs
from motifair.export.model import Exported
from motifair.graphs.batch import collate, make_shard
from motifair.graphs.features import structure_inputs
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.read import check_inputs

AT_ONCE = 512  # graphs in a batch; larger batches only need more memory


def predict(exported: Exported, graphs: GraphSet) -> pd.DataFrame:
    """Return for each graph its predicted class, `label`, and the `probability` of each class.

    Graphs are as `read_graphs` returns them; their own classes are ignored.
    """
    check_inputs(graphs, exported.schema)
    parts = [
        _probabilities(exported, graphs.select(np.arange(g, min(g + AT_ONCE, len(graphs)))))
        for g in range(0, len(graphs), AT_ONCE)
    ]
    probability = np.concatenate(parts)
    classes = exported.schema.classes
    label = np.array(classes)[probability.argmax(axis=1)]
    columns = {f"probability {c}": probability[:, k] for k, c in enumerate(classes)}
    return pd.DataFrame({"graph": np.arange(len(graphs)), "label": label, **columns})


def _probabilities(exported: Exported, graphs: GraphSet) -> np.ndarray:
    model, row = exported.model, exported.weights[None]
    own = None if exported.own is None else exported.own[None]
    target = np.zeros_like(graphs.target)
    graphs = replace(graphs, target=target, class_values=exported.schema.classes)
    shard = make_shard(
        graphs,
        exported.features,
        summed=model.summed_inputs,
        structure=structure_inputs(graphs) if model.structure else None,
    )
    batch = collate([shard], row.device, row.dtype)
    probability = outputs(model, row, batch)[0].double()
    if own is not None:
        alone = outputs(model, own, batch)[0].double()
        probability = torch.lerp(probability, alone, exported.own_weight)
    return probability.numpy()
