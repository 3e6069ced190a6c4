"""The weight of an agent's own model in what it predicts, chosen on graphs that it held back."""

from __future__ import annotations

import torch
from torch import Tensor

from motifair.evaluation.accuracy import outputs
from motifair.graphs.batch import Batch
from motifair.graphs.task import BINARY, CLASSES
from motifair.learning.objective import mean_loss
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
    task = model.task
    together, alone = (outputs(model, rows, held) for rows in (weights, own))
    graphs = (held.graph_weight > 0).sum(dim=1)
    tried = torch.linspace(0, 1, WEIGHTS, dtype=torch.float64, device=weights.device)
    expected = prior * (torch.xlogy(usual, tried) + torch.xlogy(1 - usual, 1 - tried))
    likelihood = [
        e - graphs * mean_loss(task.kind, _scores(task.kind, together.lerp(alone, float(t))), held)
        for t, e in zip(tried, expected, strict=True)
    ]
    best = torch.stack(likelihood).nan_to_num(nan=-torch.inf).argmax(dim=0)
    return tried[best].to(weights.dtype)


def _scores(kind: str, predicted: Tensor) -> Tensor:
    """Return predictions as the scores from which losses are computed."""
    if kind == CLASSES:
        return predicted.clamp(min=LEAST_PROBABILITY).log()
    return predicted.logit(eps=LEAST_PROBABILITY) if kind == BINARY else predicted
