"""`Layout`: names and shapes of the parameters in a flat row."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from motifair.errors import MotifairError


@dataclass(frozen=True)
class Layout:
    """The parameters of a model, in their order within a row of weights `(D,)`.

    Attributes:
        names: Name of each parameter, as in the model's state dict.
        shapes: Shape of each; matrices are `(inputs, outputs)`, the transpose of
            `torch.nn.Linear`.
        bounds: Bounds of initial weights by name, where not those of `torch.nn.Linear`.
        centres: What initial weights are drawn around by name, where that is not 0.

    >>> layout = Layout(("weight", "bias"), ((2, 3), (3,)))
    >>> layout.size, layout.unpack(torch.zeros(5, 9))["weight"].shape
    (9, torch.Size([5, 2, 3]))
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    bounds: Mapping[str, float] = field(default_factory=dict)
    centres: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @functools.cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of scalars in each parameter."""
        return tuple(math.prod(s) for s in self.shapes)

    @functools.cached_property
    def size(self) -> int:
        """D, the number of scalars in a row."""
        return sum(self.sizes)

    def unpack(self, weights: Tensor) -> dict[str, Tensor]:
        """Split rows `(R, D)` into differentiable views `(R, *shape)` by name."""
        return dict(zip(self.names, self.split(weights), strict=True))

    def split(self, weights: Tensor) -> list[Tensor]:
        """Split rows `(R, D)` into differentiable views `(R, *shape)` in the order of `names`."""
        rows = len(weights)
        parts = torch.split_with_sizes(weights, self.sizes, dim=1)
        return [p.view(rows, *s) for p, s in zip(parts, self.shapes, strict=True)]

    def head(self, weights: Tensor) -> list[Tensor]:
        """Return the last four parts of `split`: weights and biases of the classifier."""
        parts = torch.split_with_sizes(self.tail(weights), self.sizes[-4:], dim=1)
        return [p.view(len(weights), *s) for p, s in zip(parts, self.shapes[-4:], strict=True)]

    def tail(self, weights: Tensor) -> Tensor:
        """Return the part of each row with the parameters of the classifier, its end."""
        return weights[:, self.size - sum(self.sizes[-4:]) :]

    def span(self, prefix: str) -> slice:
        """Return the slice of a row with the parameters whose names start with `prefix`.

        They must be adjacent.
        """
        inside = [name.startswith(prefix) for name in self.names]
        first = inside.index(True)
        last = len(inside) - inside[::-1].index(True)
        assert all(inside[first:last])
        return slice(sum(self.sizes[:first]), sum(self.sizes[:last]))

    def shared(self, share: str) -> slice:
        """Return the slice of a row that agents exchange.

        `share` is `all`, `none`, `conv` (graph convolutions) or `structure` (FedStar's channel).
        """
        if share in ("all", "none"):
            return slice(0, self.size if share == "all" else 0)
        prefix = {"conv": "convs.", "structure": "structure"}[share]
        if not any(name.startswith(prefix) for name in self.names):
            raise MotifairError(
                f"share={share} exchanges the parameters called {prefix}*, of which this model has "
                "none; name its convolutions so, or use share=all."
            )
        return self.span(prefix)

    def tensor_sizes(self, part: slice) -> tuple[int, ...]:
        """Return the sizes of the parameters inside a slice of a row."""
        ends = torch.tensor(self.sizes).cumsum(0).tolist()
        return tuple(
            n for n, e in zip(self.sizes, ends, strict=True) if part.start < e <= part.stop
        )

    def units(self, part: slice) -> list[tuple[int, int]]:
        """Return number and size of the units of each parameter inside a slice of a row: the rows
        of a matrix, or a whole vector.
        """
        ends = torch.tensor(self.sizes).cumsum(0).tolist()
        inside = [part.start < end <= part.stop for end in ends]
        shapes = [s if len(s) == 2 else (1, math.prod(s)) for s in self.shapes]
        return [(s[0], s[1]) for s, here in zip(shapes, inside, strict=True) if here]

    def initial(self, seed: int, dtype: torch.dtype) -> Tensor:
        """Draw initial weights `(D,)`, uniform within ±`bounds`, by default ±1/√inputs.

        The default is that of `torch.nn.Linear`; `centres` are added. Draws are in double
        precision, then rounded to `dtype`, so that they do not depend on it.
        """
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.rand(self.size, generator=generator, dtype=torch.float64) * 2 - 1
        bounds = []
        inputs = 1
        for name, shape, size in zip(self.names, self.shapes, self.sizes, strict=True):
            inputs = shape[0] if len(shape) == 2 else inputs  # a bias follows its matrix
            bound = self.bounds.get(name, inputs**-0.5)
            bounds.append(torch.full((size,), bound, dtype=torch.float64))
        row = drawn * torch.cat(bounds)
        for name, centre in self.centres.items():
            row[self.span(name)] += torch.tensor(centre, dtype=torch.float64)
        return row.to(dtype)

    def fit(self, row: Tensor, other: Layout) -> Tensor:
        """Return a row `(D,)` in another layout of the same parameters, of smaller or larger shape.

        Parameters are cut, or filled up with zeros, at their ends.

        >>> narrow, wide = Layout(("weight",), ((2, 1),)), Layout(("weight",), ((3, 1),))
        >>> narrow.fit(torch.tensor([1.0, 2.0]), wide).tolist()
        [1.0, 2.0, 0.0]
        """
        parts = []
        for part, shape in zip(self.split(row[None]), other.shapes, strict=True):
            grown = row.new_zeros(shape)
            inside = tuple(slice(0, min(n, m)) for n, m in zip(part.shape[1:], shape, strict=True))
            grown[inside] = part[0][inside]
            parts.append(grown.flatten())
        return torch.cat(parts)

    def to_state_dict(self, row: Tensor) -> dict[str, Tensor]:
        """Return a row `(D,)` as the state dict of the same model made of `torch.nn` modules."""
        parts = self.unpack(row[None])
        return {
            name: self.turned(p[0]).clone(memory_format=torch.contiguous_format)
            for name, p in parts.items()
        }

    def from_state_dict(self, state: dict[str, Tensor]) -> Tensor:
        """Return the row `(D,)` of a state dict made by `to_state_dict`."""
        return torch.cat([self.turned(state[n]).flatten() for n in self.names])

    def check(self, weights: Tensor) -> None:
        """Refuse saved rows `(R, D)` of another network."""
        if weights.shape[1] != self.size:
            raise MotifairError(
                f"The saved models have {weights.shape[1]} weights, but the network has "
                f"{self.size}: its code has changed; use the version that was trained."
            )

    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the tensors of `to_state_dict` by name."""
        return {n: tuple(reversed(s)) for n, s in zip(self.names, self.shapes, strict=True)}

    def turned(self, parameter: Tensor) -> Tensor:
        """Return a parameter of a row as a state dict has it, or the other way round."""
        return parameter.t()
