"""The weight of an own model: what it is for numbers, and what it takes to find."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from motifair.evaluation import own_weight
from motifair.graphs.task import REGRESSION

AGENTS, GRAPHS, TARGETS = 2, 30, 50


class Largest(TorchDispatchMode):
    """Keeps the number of components of the largest tensor that is made."""

    components = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor):
            self.components = max(self.components, made.numel())
        return made


def test_many_targets_take_no_more_memory_than_their_predictions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = torch.Generator().manual_seed(1)
    target = torch.randn(AGENTS, GRAPHS, TARGETS, generator=draw)
    error = torch.randn(AGENTS, GRAPHS, TARGETS, generator=draw)
    # One is off by `error`, the other by a third of it to the other side: ¾ of the second is right.
    together, alone = torch.zeros(AGENTS, 1), torch.ones(AGENTS, 1)
    predicted = {0.0: target + error, 1.0: target - error / 3}
    monkeypatch.setattr(own_weight, "outputs", lambda model, rows, held: predicted[rows[0].item()])
    held: Any = SimpleNamespace(
        target=target,
        graph_weight=torch.full((AGENTS, GRAPHS), 1 / GRAPHS),
        label_weight=torch.full(target.shape, 1 / GRAPHS / TARGETS),
    )
    model: Any = SimpleNamespace(task=SimpleNamespace(kind=REGRESSION))
    with Largest() as largest:
        found = own_weight.own_weights(model, together, alone, held, 0.3, 0.0)
    assert found.tolist() == [0.75] * AGENTS
    assert largest.components == target.numel()
