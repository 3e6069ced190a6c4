"""What Hypothesis draws for tests of the mechanism: values that add up to 1, and updates."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from torch import Tensor

MANY_AGENTS = 8


def numbers(low: float, high: float, *, size: int | None = None) -> SearchStrategy[Tensor]:
    """One number for each of some agents, in float64."""
    return st.lists(
        st.floats(low, high, width=32),
        min_size=2 if size is None else size,
        max_size=MANY_AGENTS if size is None else size,
    ).map(lambda drawn: torch.tensor(drawn, dtype=torch.float64))


def values() -> SearchStrategy[Tensor]:
    """Agents' values: they add up to 1, and some may be negative."""
    return numbers(-1, 1).map(lambda x: x + (1 - x.sum()) / len(x))


@st.composite
def rounds(
    draw: st.DrawFn, *, most_agents: int = MANY_AGENTS, size: int = 12
) -> tuple[Tensor, Tensor]:
    """Updates `(A, D)` that lean one way, and weights `(A,)` that add up to 1."""
    agents = draw(st.integers(2, most_agents))
    lean = draw(st.sampled_from([0.0, 0.5, 3.0]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    updates = torch.randn(agents, size, generator=generator, dtype=torch.float64) + lean
    weights = torch.rand(agents, generator=generator, dtype=torch.float64) + 0.01
    return updates, weights / weights.sum()
