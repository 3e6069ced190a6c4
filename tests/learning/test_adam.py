"""Adam on rows equals `torch.optim.Adam` on each row by itself."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from motifair.learning.adam import Adam, Moments, adam_step_

ROWS, SIZE, STEPS = 4, 7, 12


def walk(moving: Tensor, learning_rate: float, weight_decay: float) -> tuple[Tensor, Tensor]:
    """Ours and PyTorch's weights after all steps; `moving` is `(steps, rows)`."""
    generator = torch.Generator().manual_seed(4)
    weights = torch.randn(ROWS, SIZE, generator=generator, dtype=torch.float64)
    gradients = torch.randn(len(moving), ROWS, SIZE, generator=generator, dtype=torch.float64)
    gradients *= torch.logspace(-6, 3, SIZE, dtype=torch.float64)
    rows = [torch.nn.Parameter(w.clone()) for w in weights]
    optimisers = [
        torch.optim.Adam([row], lr=learning_rate, weight_decay=weight_decay) for row in rows
    ]
    moments = Moments.zero(weights)
    for gradient, moves in zip(gradients, moving, strict=True):
        adam_step_(weights, gradient, moments, moves, Adam(learning_rate, weight_decay))
        for k, row in enumerate(rows):
            if moves[k]:
                row.grad = gradient[k].clone()
                optimisers[k].step()
    assert torch.equal(moments.steps, moving.sum(dim=0))
    return weights, torch.stack([row.detach() for row in rows])


@pytest.mark.parametrize("weight_decay", [0.0, 0.0005, 0.1])
@pytest.mark.parametrize("learning_rate", [0.001, 0.1])
def test_all_rows_moving_equal_pytorch(learning_rate: float, weight_decay: float) -> None:
    moving = torch.ones(STEPS, ROWS, dtype=torch.bool)
    ours, theirs = walk(moving, learning_rate, weight_decay)
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("weight_decay", [0.0, 0.0005, 0.1])
def test_rows_that_rest_in_some_steps_equal_pytorch(weight_decay: float) -> None:
    generator = torch.Generator().manual_seed(9)
    moving = torch.rand(STEPS, ROWS, generator=generator) < 0.6
    moving[:3, 0] = False  # a row that starts late
    moving[5:, 1] = False  # a row that stops early
    moving[7] = False  # a step in which nobody moves
    ours, theirs = walk(moving, 0.01, weight_decay)
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)


def test_a_row_that_rests_is_left_exactly_as_it_was() -> None:
    generator = torch.Generator().manual_seed(5)
    weights, gradient = torch.randn(2, 2, SIZE, generator=generator, dtype=torch.float64)
    settings, moments = Adam(0.01, weight_decay=0.1), Moments.zero(weights)
    adam_step_(weights, gradient, moments, torch.tensor([True, True]), settings)
    after, kept = weights.clone(), moments.clone()
    adam_step_(after, gradient, kept, torch.tensor([True, False]), settings)
    assert torch.equal(after[1], weights[1])
    assert torch.equal(kept.first[1], moments.first[1])
    assert torch.equal(kept.second[1], moments.second[1])
    assert kept.steps.tolist() == [2, 1]
    assert not torch.isclose(after[0], weights[0]).any()


def test_a_step_leaves_the_gradient_as_it_was() -> None:
    weights = torch.ones(1, SIZE, dtype=torch.float64)
    gradient = torch.full_like(weights, 2.0)
    adam_step_(weights, gradient, Moments.zero(weights), torch.tensor([True]), Adam(0.1, 0.1))
    assert (gradient == 2).all()


def test_some_rows_of_the_moments_are_those_rows() -> None:
    weights = torch.zeros(5, SIZE)
    moments = Moments(weights + torch.arange(5.0)[:, None], weights + 9, torch.arange(5))
    part = moments.rows(slice(1, 3))
    assert part.first[:, 0].tolist() == [1.0, 2.0]
    assert part.second.shape == (2, SIZE)
    assert part.steps.tolist() == [1, 2]
