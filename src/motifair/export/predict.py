"""Predict classes, answers or numbers of new graphs with a trained model."""

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
from motifair.graphs.schema import check_inputs
from motifair.graphs.task import CLASSES, REGRESSION

AT_ONCE = 512  # graphs in a batch; larger batches only need more memory


def predict(exported: Exported, graphs: GraphSet) -> pd.DataFrame:
    """Return for each graph its predicted class, `label`, and the `probability` of each class.

    Of binary tasks the `probability` of each, of a regression each number by its name. Graphs are
    as `read_graphs` returns them; their own targets are ignored.
    """
    check_inputs(graphs, exported.schema)
    parts = [
        _outputs(exported, graphs.select(np.arange(g, min(g + AT_ONCE, len(graphs)))))
        for g in range(0, len(graphs), AT_ONCE)
    ]
    predicted, task = np.concatenate(parts), exported.model.task
    made: dict[str, np.ndarray] = {"graph": np.arange(len(graphs))}
    if task.kind == REGRESSION:
        numbers = predicted * np.array(task.scale) + np.array(task.mean)
        return pd.DataFrame(made | dict(zip(task.names, numbers.T, strict=True)))
    if task.kind == CLASSES:
        made["label"] = np.array(exported.schema.classes)[predicted.argmax(axis=1)]
    names = exported.schema.classes or task.names
    columns = {f"probability {c}": predicted[:, k] for k, c in enumerate(names)}
    return pd.DataFrame(made | columns)


def _outputs(exported: Exported, graphs: GraphSet) -> np.ndarray:
    model, row = exported.model, exported.weights[None]
    own = None if exported.own is None else exported.own[None]
    # Their targets are not known, but a batch has some.
    target, task = np.zeros_like(graphs.target), model.task
    graphs = replace(graphs, target=target, class_values=exported.schema.classes, values=None)
    if task.kind != CLASSES:
        graphs = graphs.with_values(np.zeros((len(graphs), task.outputs)), task.names)
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
