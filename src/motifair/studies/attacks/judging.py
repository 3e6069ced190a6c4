"""Attacks on judgements: what agents say of the models of their peers before the first round."""

from __future__ import annotations

import torch

from motifair.federation.protocol import Judgement
from motifair.studies.attacks.contract import Cast


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
