"""Names for the slices of a flat parameter row."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """The parameters of a model in the order in which a row of weights `(D,)` holds them.

    Matrices are stored `(inputs, outputs)`: the transpose of `torch.nn.Linear`. `bounds` are those
    of initial weights, by name, where they are not those of `torch.nn.Linear`.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    bounds: Mapping[str, float] = field(default_factory=dict)

    @functools.cached_property
    def sizes(self) -> tuple[int, ...]:
        """Scalars in each parameter."""
        return tuple(math.prod(s) for s in self.shapes)

    @functools.cached_property
    def size(self) -> int:
        """D, the scalars of a whole row."""
        return sum(self.sizes)

    def unpack(self, weights: Tensor) -> dict[str, Tensor]:
        """Split `(R, D)` rows into named stacks `(R, *shape)`; views, differentiable."""
        return dict(zip(self.names, self.split(weights), strict=True))

    def split(self, weights: Tensor) -> list[Tensor]:
        """Split rows into stacks `(R, *shape)` in the order of names; views, differentiable."""
        rows = len(weights)
        parts = torch.split_with_sizes(weights, self.sizes, dim=1)
        return [p.view(rows, *s) for p, s in zip(parts, self.shapes, strict=True)]

    def head(self, weights: Tensor) -> list[Tensor]:
        """Return the last four of `split`: weights and biases of the classifier."""
        parts = torch.split_with_sizes(self.tail(weights), self.sizes[-4:], dim=1)
        return [p.view(len(weights), *s) for p, s in zip(parts, self.shapes[-4:], strict=True)]

    def tail(self, weights: Tensor) -> Tensor:
        """Return the part of each row that the classifier has, its end."""
        return weights[:, self.size - sum(self.sizes[-4:]) :]

    def span(self, prefix: str) -> slice:
        """Return the part of a row whose names start with `prefix` (they must be adjacent)."""
        inside = [name.startswith(prefix) for name in self.names]
        first = inside.index(True)
        last = len(inside) - inside[::-1].index(True)
        assert all(inside[first:last])
        return slice(sum(self.sizes[:first]), sum(self.sizes[:last]))

    def shared(self, share: str) -> slice:
        """Return the part of a row that agents exchange: `all`, `none`, `conv`, or `structure`."""
        if share in ("all", "none"):
            return slice(0, self.size if share == "all" else 0)
        return self.span({"conv": "convs.", "structure": "structure"}[share])

    def tensor_sizes(self, part: slice) -> tuple[int, ...]:
        """Return the sizes of the parameters inside a part of a row."""
        ends = torch.tensor(self.sizes).cumsum(0).tolist()
        return tuple(
            n for n, e in zip(self.sizes, ends, strict=True) if part.start < e <= part.stop
        )

    def initial(self, seed: int, dtype: torch.dtype) -> Tensor:
        """Draw a row `(D,)`, uniform within ±`bounds`, or ±1/√inputs as `torch.nn.Linear` does."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.rand(self.size, generator=generator, dtype=torch.float64) * 2 - 1
        bounds = []
        inputs = 1
        for name, shape, size in zip(self.names, self.shapes, self.sizes, strict=True):
            inputs = shape[0] if len(shape) == 2 else inputs  # a bias follows its matrix
            bound = self.bounds.get(name, inputs**-0.5)
            bounds.append(torch.full((size,), bound, dtype=torch.float64))
        return (drawn * torch.cat(bounds)).to(dtype)

    def to_state_dict(self, row: Tensor) -> dict[str, Tensor]:
        """Return one row as the state of the same model built from `torch.nn.Linear` parts."""
        parts = self.unpack(row[None])
        return {
            name: p[0].t().clone(memory_format=torch.contiguous_format) for name, p in parts.items()
        }

    def from_state_dict(self, state: dict[str, Tensor]) -> Tensor:
        """Undo `to_state_dict`."""
        return torch.cat([state[n].t().flatten() for n in self.names])
