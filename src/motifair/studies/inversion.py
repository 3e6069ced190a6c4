"""Gradient inversion: what a server can read off one mean gradient of a GIN.

The attacker is the server. It knows the model, and, to its advantage, the number of nodes and the
class of each graph; dropout is off. It looks for graphs whose gradient is the uploaded one: node
labels as probabilities, edges as numbers from 0 to 1, moved by Adam until the cosine of both
gradients stops growing, from several starts. Nodes and graphs have no order in a gradient, so
graphs are compared by what has none: how many nodes have each label, and how many edges join each
pair of labels. Found graphs are matched to the true ones so that the errors are least; so are, as
the baseline, other graphs of the same dataset, which the attacker may have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from motifair.errors import MotifairError
from motifair.graphs.dataset import load_dataset
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.tu import data_folder
from motifair.models.gin import GIN
from motifair.studies.study import Settings, Study, StudyResult

SETS = {1: 6, 10: 2, 90: 1}  # graphs behind one gradient, and how many such sets are tried
NOISES = (0.0, 0.1, 1.0, 10.0)  # of all noise together, as a multiple of the gradient's length
STEPS, STARTS, RATE = 300, 2, 0.1
SEED = 190000
HIDDEN, LAYERS = 64, 3


@dataclass(frozen=True)
class Dense:
    """Graphs as dense tensors: label probabilities `(G, V, L)`, adjacency `(G, V, V)`, which nodes
    there are `(G, V)`, and classes `(G,)`.
    """

    labels: Tensor
    edges: Tensor
    there: Tensor
    target: Tensor

    @property
    def content(self) -> np.ndarray:
        """Nodes of each label and edges between each pair of labels, one row for each graph."""
        pairs = self.labels.mT @ self.edges @ self.labels / 2
        return torch.cat([self.labels.sum(dim=1), pairs.flatten(1)], dim=1).detach().numpy()


def densify(graphs: GraphSet) -> Dense:
    """Return graphs with node labels as dense tensors."""
    if graphs.node_label is None:
        raise MotifairError(f"{graphs.name} has no node labels, which this study reconstructs.")
    most, classes = int(graphs.nodes.max()), int(graphs.node_label.max()) + 1
    labels = torch.zeros(len(graphs), most, classes, dtype=torch.float64)
    edges = torch.zeros(len(graphs), most, most, dtype=torch.float64)
    for g, (start, count) in enumerate(zip(graphs.node_start, graphs.nodes, strict=False)):
        own = torch.from_numpy(graphs.node_label[start : start + count])
        labels[g, torch.arange(count), own] = 1
        for v in range(count):
            first, last = graphs.edge_start[start + v : start + v + 2]
            edges[g, v, torch.from_numpy(graphs.neighbour[first:last] - start)] = 1
    there = labels.sum(dim=2)
    return Dense(labels, edges, there, torch.from_numpy(graphs.target))


def gradient(model: GIN, weights: Tensor, graphs: Dense, *, create: bool = False) -> Tensor:
    """Return the gradient of the mean loss, as a flat row, by a GIN on dense graphs."""
    row = weights.detach().requires_grad_()
    parts = [part[0] for part in model.layout.split(row[None])]
    x = (graphs.labels @ parts[0] + parts[1]) * graphs.there[:, :, None]
    for k in range(model.layers):
        w1, b1, w2, b2 = parts[2 + 4 * k : 6 + 4 * k]
        x = torch.relu((x + graphs.edges @ x) @ w1 + b1) @ w2 + b2
        x = torch.relu(x) * graphs.there[:, :, None]
    post, post_bias, readout, readout_bias = parts[-4:]
    scores = torch.relu(x.sum(dim=1) @ post + post_bias) @ readout + readout_bias
    loss = torch.nn.functional.cross_entropy(scores, graphs.target)
    (found,) = torch.autograd.grad(loss, row, create_graph=create)
    return found


def invert(model: GIN, weights: Tensor, wanted: Tensor, known: Dense, seed: int) -> Dense:
    """Look for graphs with this gradient; of `known` only sizes and classes are used."""
    best, closest = known, -1.0
    for start in range(STARTS):
        torch.manual_seed(seed + start)
        logits = torch.randn_like(known.labels).requires_grad_()
        links = (torch.randn_like(known.edges) - 2).requires_grad_()
        moved = torch.optim.Adam([logits, links], RATE)
        for _ in range(STEPS):
            guess = _relaxed(logits, links, known)
            found = gradient(model, weights, guess, create=True)
            cosine = torch.cosine_similarity(found, wanted, dim=0)
            moved.zero_grad()
            (1 - cosine).backward()  # type: ignore[no-untyped-call]
            moved.step()
        if cosine.item() > closest:
            best, closest = _relaxed(logits.detach(), links.detach(), known), cosine.item()
    return best


def _relaxed(logits: Tensor, links: Tensor, known: Dense) -> Dense:
    """Return labels and symmetric edges from 0 to 1, on the nodes that there are."""
    labels = torch.softmax(logits, dim=2) * known.there[:, :, None]
    both = torch.sigmoid((links + links.mT) / 2) * known.there[:, :, None] * known.there[:, None]
    edges = both * (1 - torch.eye(both.shape[1], dtype=both.dtype))
    return Dense(labels, edges, known.there, known.target)


def error(found: np.ndarray, truth: np.ndarray) -> float:
    """Return the least sum of differences of contents over all ways to match graphs, as a share of
    the true contents; 0 if all are equal.

    >>> error(np.array([[2.0], [1.0]]), np.array([[1.0], [2.0]]))
    0.0
    """
    cost = np.abs(truth[:, None] - found[None]).sum(axis=2)
    return float(cost[linear_sum_assignment(cost)].sum() / truth.sum())


def labels_seen(model: GIN, wanted: Tensor, graphs: Dense) -> bool:
    """Return whether the rows of the first layer that moved are just the labels that occur."""
    rows = model.layout.split(wanted[None])[0][0].abs().sum(dim=1) > 0
    occur = graphs.labels.sum(dim=(0, 1)) > 0
    return bool(torch.equal(rows, occur))


def run(settings: Settings) -> StudyResult:
    """Attack gradients of one, ten and ninety graphs, plain and with noise."""
    rows = []
    for dataset in settings.datasets or ("MUTAG",):
        graphs = load_dataset(
            dataset, agents=1, seed=0, data_dir=data_folder(settings.data_dir)
        ).graphs
        for count, usual in SETS.items():
            sets = min(settings.splits or usual, usual)
            for noise in NOISES if count == 1 else NOISES[:1]:
                tried = pd.DataFrame([attack(graphs, count, noise, SEED + k) for k in range(sets)])
                about = {"dataset": dataset, "graphs": count, "noise": noise, "sets": sets}
                worst = {"least error": tried["error"].min()}
                rows.append(about | (tried.mean().to_dict() | worst))
    notes = [
        "Errors are differences in numbers of labels and bonds, as a share of the true numbers: of "
        "the attack, and of other graphs of the dataset in place of the secret ones. `labels`: how "
        "often the labels that occur can be read off the first layer."
    ]
    return StudyResult("Gradient inversion", {"inversion": pd.DataFrame(rows)}, notes=notes)


def attack(graphs: GraphSet, count: int, noise: float, seed: int) -> dict[str, float]:
    """Attack the gradient of `count` random graphs at the initial model."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(graphs))
    whole = densify(graphs)
    secret, public = (_select(whole, part) for part in (order[:count], order[count : 2 * count]))
    model = GIN(secret.labels.shape[2], graphs.classes, HIDDEN, LAYERS)
    weights = model.layout.initial(seed, torch.float64)
    wanted = gradient(model, weights, secret).float().double()  # as it is sent
    seen = labels_seen(model, wanted, secret)
    if noise:
        added = torch.from_numpy(random.standard_normal(len(wanted)))
        wanted = wanted + noise * wanted.norm() * added / added.norm()
    found = invert(model, weights, wanted, secret, seed)
    return {
        "error": error(found.content, secret.content),
        "guessed": error(public.content, secret.content),
        "labels": float(seen),
    }


def _select(graphs: Dense, chosen: np.ndarray) -> Dense:
    return Dense(*(part[torch.from_numpy(chosen)] for part in vars(graphs).values()))


STUDY = Study("inversion", "what a server can read off one gradient", run)
