"""The weight of an agent's own model in what it predicts, chosen on graphs that it held back."""

from __future__ import annotations

import torch
from torch import Tensor

from motifair.evaluation.accuracy import outputs
from motifair.graphs.batch import Batch
from motifair.graphs.task import BINARY, CLASSES, REGRESSION
from motifair.learning.randomness import order
from motifair.models import Model

HELD_BACK = 5  # one graph in so many
WEIGHTS = 41  # that are tried, from 0 to 1
LEAST_PROBABILITY = 1e-6


def held_back(key: Tensor, graphs: int) -> tuple[Tensor, Tensor]:
    """Return which of its graphs an agent's own model is not trained on, and the others.

    >>> held, rest = held_back(torch.tensor(5), 11)
    >>> len(held), len(rest), sorted([*held.tolist(), *rest.tolist()]) == list(range(11))
    (2, 9, True)
    >>> [len(part) for part in held_back(torch.tensor(5), 4)]
    [0, 4]
    """
    drawn, count = order(key.cpu(), graphs), graphs // HELD_BACK
    return drawn[:count].sort().values, drawn[count:].sort().values


@torch.no_grad()
def own_weights(
    model: Model, weights: Tensor, own: Tensor, held: Batch, usual: float, prior: float
) -> Tensor:
    """Return the weight η of each agent's own model, `(R,)`: the most likely one.

    That is the likelihood of both models' mixed predictions for the agent's `held` graphs, times a
    prior in which η is `usual` by as much as `prior` graphs would say so. The federated model has
    seen these graphs through the agent's own updates, among the others': to keep them from it, too,
    would cost the federation a fifth of all graphs.
    """
    together, alone = (_fit(model, outputs(model, rows, held), held) for rows in (weights, own))
    known = held.graph_weight if model.task.kind == CLASSES else held.label_weight.flatten(1)
    graphs = (held.graph_weight > 0).sum(dim=1)
    tried = torch.linspace(0, 1, WEIGHTS, dtype=torch.float64, device=weights.device)
    expected = prior * (torch.xlogy(usual, tried) + torch.xlogy(1 - usual, 1 - tried))

    def likelihood(eta: Tensor) -> Tensor:
        mixed = torch.lerp(together.double(), alone.double(), eta)
        regression = model.task.kind == REGRESSION
        said = -mixed.square() if regression else mixed.clamp(LEAST_PROBABILITY).log()
        return graphs * (known * said).sum(dim=-1)

    # One η after another: of hundreds of targets all at once would take gigabytes.
    posterior = torch.stack([likelihood(eta) for eta in tried]) + expected[:, None]
    best = posterior.nan_to_num(nan=-torch.inf).argmax(dim=0)
    return tried[best].to(weights.dtype)


def _fit(model: Model, predicted: Tensor, held: Batch) -> Tensor:
    """Return the probability of every label that was seen, or the error of every number, `(R, L)`.

    Mixed predictions have the mixed probability or error, so that all mixtures follow from it.
    """
    if model.task.kind == CLASSES:
        return predicted.gather(2, held.target.unsqueeze(2)).squeeze(2)
    seen = held.target
    if model.task.kind == BINARY:
        return torch.where(seen > 0, predicted, 1 - predicted).flatten(1)
    return (predicted - seen).flatten(1)
