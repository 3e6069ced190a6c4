"""Before the first round: each agent trains its own model alone, and its peers judge that model.

Agents judge on their training graphs, which no model but their own has seen. With many agents each
judges the next ten in a random order, so that the work of one does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from motifair.federation.protocol import Judgement
from motifair.learning.randomness import derive_seed

MOST_JUDGED = 10


def judged_agents(agents: int, seed: int) -> np.ndarray:
    """Return which agents' models each agent judges, `(A, min(A − 1, 10))`.

    >>> judged_agents(3, seed=0).tolist()
    [[1, 2], [2, 0], [0, 1]]
    """
    order = np.random.default_rng(derive_seed(seed, "judges")).permutation(agents)
    place = order.argsort()
    if agents - 1 <= MOST_JUDGED:
        order = place = np.arange(agents)
    ahead = 1 + np.arange(min(agents - 1, MOST_JUDGED))
    judged: np.ndarray = order[(place[:, None] + ahead) % agents]
    return judged


def judge(
    say: Callable[[Sequence[Tensor]], tuple[Tensor, Tensor]], models: Tensor, seeds: Sequence[int]
) -> Judgement:
    """Return what the agents of each federation say of each other's `models (F·A, D)`.

    `say` is `Agents.judge`; `seeds` are the federations', and the judgements `(F, A, A)`.
    """
    each = len(models) // len(seeds)
    nothing = models.new_full((len(seeds), each, each), torch.nan, dtype=torch.float64)
    loss, told = nothing, nothing.clone()
    judges = np.arange(each)
    turns = np.stack([judged_agents(each, s) for s in seeds]).transpose(2, 0, 1)  # (n, F, A)
    if not len(turns):
        return Judgement(loss, told)
    rows = (turns + each * np.arange(len(seeds))[:, None]).reshape(len(turns), -1)
    said = say([models[torch.as_tensor(turn, device=models.device)] for turn in rows])
    for k, turn in enumerate(turns):
        for f, judged in enumerate(turn):
            own = slice(f * each, (f + 1) * each)
            loss[f, judged, judges], told[f, judged, judges] = said[0][k, own], said[1][k, own]
    return Judgement(loss, told)
