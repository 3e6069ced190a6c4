"""What an agent's graphs are worth to the others, as its peers find before the first round.

Every agent trains a model alone, and its peers say how well that model does on their graphs. What
a model learnt from an agent's graphs alone does for the others is nearly what these graphs do for
the federation. Before the first round nobody has anything of the others that it could pass for its
own, and nobody is asked about itself.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from motifair.mechanism.trust import class_trust, from_the_top

SHARPNESS = 0.5  # power of the loss: the larger, the more differences of quality count in pay
SMALLEST_LOSS = 1e-3
SMALLEST = 1e-12
WORSE = 1.05  # times the loss of an earlier model of the server's, and a later one is held back
MIDDLE = 0.2  # of the judges, by weight, whose mean is their median
STEPS = 20  # of the fit, which settles in a few


def quality(loss: Tensor, told: Tensor, graphs: Tensor, judges: Tensor) -> Tensor:
    """Return how much one graph of each agent is worth, `(..., A)`.

    `loss[i, j]` is the loss of agent i's model on the graphs of j, and `told[i, j]` how well it
    tells j's classes apart (`discrimination`); NaN where j did not judge i. Both are medians
    over the judges, by `judge_weights`, so that a few that lie change little:

        quality_i = trust(told_i) · (loss_i / usual loss)^−½

    A model that tells nothing or swaps classes earns no trust. Losses are relative to what a judge
    says of the others: a judge whose graphs are hard does not count against whom it judges.
    `judges[i, j]` is what j counts as a judge of i (`trust.judging`); with as much as of anybody,
    its own model counts among what is usual. Who has no judge where others have is worth nothing:
    whoever claims all others' graphs would else escape them.

    >>> told = torch.tensor([[torch.nan, 0.4, 0.4], [0.4, torch.nan, 0.4], [-0.4, -0.4, torch.nan]])
    >>> quality(torch.full((3, 3), 0.5), told, torch.tensor([9, 9, 9]), torch.ones(3, 3)).tolist()
    [1.0, 1.0, 0.0]
    """
    presence = judges.double().amax(dim=-2)
    loss, told = (said.double().where(judges > 0, torch.nan) for said in (loss, told))
    weight = judge_weights(told, presence).unsqueeze(-2) * judges
    relative = loss.clamp(min=SMALLEST_LOSS).log()
    judged = ~relative.isnan()
    usual = weighted_median(relative.mT, judged.mT * presence.unsqueeze(-2)).unsqueeze(-2)
    worse = weighted_median(relative - usual, weight * judged)
    told_by_most = weighted_median(told, weight * ~told.isnan())
    worth = class_trust(told_by_most, graphs, presence) * torch.exp(-SHARPNESS * worse.nan_to_num())
    heard = judged.any(dim=-1)
    return worth.where(heard | ~heard.any(dim=-1, keepdim=True), 0.0)


def judge_weights(told: Tensor, presence: Tensor) -> Tensor:
    """Return how much each judge's eyes count, `(..., A, A), (..., A) -> (..., A)`, from 0 to 1.

    What a judge says of a model is fitted by q_i·k_j: the quality of the model times how well
    graphs and classes of the judge show it. Noisy classes show little (k is small), swapped
    ones the opposite (k < 0). A judge counts with k², at most as the one at the end of the
    best third: so nobody gains weight by saying that all models are excellent.

    >>> no = torch.nan
    >>> told = torch.tensor([[no, 0.4, -0.2], [0.4, no, -0.2], [-0.2, -0.2, no]])
    >>> judge_weights(told, torch.ones(3)).tolist()
    [1.0, 1.0, 0.0]
    """
    known = (~told.isnan()).double()
    said, here = told.double().nan_to_num(), presence.double()
    of_models, of_judges = known * here.unsqueeze(-1), known * here.unsqueeze(-2)
    q, k = torch.ones_like(here), torch.zeros_like(here)
    for _ in range(STEPS):
        k = _slope(said, of_models, q.unsqueeze(-1), dim=-2)
        q = _slope(said, of_judges, k.clamp(min=0).unsqueeze(-2), dim=-1)
        q = q / q.abs().amax(dim=-1, keepdim=True).clamp(min=SMALLEST)
    third = here.sum(dim=-1, keepdim=True) / 3
    most = from_the_top(k, here, third)
    return torch.where(most > 0, (k / most.clamp(min=SMALLEST)).clamp(0, 1).square(), 1.0)


def _slope(said: Tensor, weight: Tensor, by: Tensor, dim: int) -> Tensor:
    """Return the least-squares slopes of what was said on `by`, along an axis."""
    products, squares = weight * said * by, weight * by.square()
    return products.sum(dim=dim) / squares.sum(dim=dim).clamp(min=SMALLEST)


def handed_out(loss: Tensor) -> int:
    """Return which of the server's last models is handed out, by what its members say of them.

    `loss[k, j]` is the loss of model k, the oldest first, on the graphs of member j. It is the
    newest model that to the median member is not worse than any before it, by more than a
    twentieth. To hold a good model back costs next to nothing, since one of a round or two before
    is handed out instead.

    >>> handed_out(torch.tensor([[0.5, 0.5, 0.5], [0.4, 0.6, 0.4], [0.8, 0.7, 0.0]]))
    1
    """
    relative = loss.double().clamp(min=SMALLEST_LOSS).log()
    best = len(relative) - 1
    while best and any(
        _median(relative[best] - earlier) > math.log(WORSE) for earlier in relative[:best]
    ):
        best -= 1
    return best


def _median(values: Tensor) -> float:
    return float(weighted_median(values, torch.ones_like(values)))


def weighted_median(values: Tensor, weights: Tensor) -> Tensor:
    """Return the mean of the middle fifth of the weight, over the last axis.

    Unlike the median itself it changes little where weights do. Values with weight 0 may be NaN;
    the median of none is NaN.

    >>> values, weights = torch.tensor([1.0, 2.0, 9.0, torch.nan]), torch.tensor([1.0, 1, 1, 0])
    >>> round(weighted_median(values, weights).item(), 9)
    2.0
    >>> round(weighted_median(torch.tensor([1.0, 3.0]), torch.ones(2)).item(), 9)
    2.0
    """
    counts = weights > 0
    order = values.where(counts, torch.inf).argsort(dim=-1)
    value = values.where(counts, 0.0).gather(-1, order).double()
    weight = weights.where(counts, 0.0).gather(-1, order).double()
    upto = weight.cumsum(dim=-1) / weight.sum(dim=-1, keepdim=True)
    low, high = 0.5 - MIDDLE / 2, 0.5 + MIDDLE / 2
    inside = torch.diff(upto.clamp(low, high), dim=-1, prepend=torch.full_like(upto[..., :1], low))
    return (inside * value).sum(dim=-1) / MIDDLE  # 0 / 0 without any weight
