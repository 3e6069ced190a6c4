"""Attacks on judgements before the first round: the model that an agent shows its peers, and what
it says of theirs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from motifair.federation.protocol import Judgement
from motifair.models.layout import Layout
from motifair.studies.attacks.contract import Cast


def surer(models: Tensor, layout: Layout, by: float) -> Tensor:
    """Multiply the log-odds of models by a number: below 1 they are less sure of every class.

    That changes no prediction, but the losses by which they are judged.
    """
    shown = models.clone()
    last = sum(layout.sizes[-2:])  # weights and biases of the last layer
    shown[:, -last:] *= by
    return shown


def running_down(judgement: Judgement, cast: Cast) -> Judgement:
    """Say that the models of all others swap classes, with large losses; praise each other's."""
    return _said(judgement, cast, others=(1e3, -1.0))


def praising(judgement: Judgement, cast: Cast) -> Judgement:
    """Say that all models are excellent, which makes for a judge with sharp eyes, and each
    other's the best.
    """
    return _said(judgement, cast, others=(0.5, 0.9))


def _said(judgement: Judgement, cast: Cast, others: tuple[float, float]) -> Judgement:
    loss, told = judgement.loss.clone(), judgement.told.clone()
    attackers = torch.tensor(cast.attackers, device=loss.device)
    for judge in attackers:
        judged = ~loss[:, judge].isnan()
        loss[judged, judge], told[judged, judge] = others
        partners = attackers[judged[attackers]]
        loss[partners, judge], told[partners, judge] = 1e-3, 1.0
    return Judgement(loss, told)
