"""How weighted updates become one: the sum of the paper, or centres that bound every influence."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from motifair.components import Component, Registry
from motifair.config import option
from motifair.mechanism import robust
from motifair.mechanism.aggregation import aggregate


class Aggregation(Component):
    """Turns updates `(A, D)` and weights `(A,)` into one update `(D,)`.

    One that says `stacked = True` of itself takes axes over federations in front of both.
    """

    @abstractmethod
    def __call__(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Return the update that the server moves by."""


class Mean(Aggregation):
    """E1, E12. With weights `(A, A)`, one aggregate for each agent."""

    name = "mean"
    summary = "weighted sum Σ a_i u_i"
    stacked = True

    def __call__(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Return the weighted sum."""
        return aggregate(updates, weights)


class Centre(Aggregation):
    """A robust centre times the sum of the weights, where the mean would be the weighted sum."""

    def __call__(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Return the centre, on the scale of the weighted sum."""
        weights = weights.to(updates.dtype)
        return self.centre(updates, weights) * weights.sum(dim=-1, keepdim=True)

    @abstractmethod
    def centre(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Return the centre of the updates."""


class Median(Centre):
    """Coordinate-wise weighted median."""

    name = "median"
    summary = "coordinate-wise weighted median"
    stacked = True

    def centre(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Return the median."""
        return robust.median(updates, weights)


class TrimmedMean(Centre):
    """Coordinate-wise mean without the ends."""

    name = "trimmed-mean"
    summary = "coordinate-wise mean without the largest and smallest"
    stacked = True
    trim: float = option(0.2, "share of the weight cut off at either end", least=0, below=0.5)

    def centre(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Return the mean of what is left."""
        return robust.trimmed_mean(updates, weights, self.trim)


class Krum(Centre):
    """The update that is nearest to its neighbours."""

    name = "krum"
    summary = "the one update that is nearest to its neighbours"
    stacked = True
    faulty: int = option(1, "agents that may send anything", least=0)

    def centre(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Return that update."""
        return robust.krum(updates, weights, self.faulty)


class MultiKrum(Krum):
    """The mean of all updates but the farthest from their neighbours."""

    name = "multi-krum"
    summary = "weighted mean of all but the `faulty` updates farthest from their neighbours"
    stacked = True

    def centre(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Return the mean of those that are kept."""
        return robust.krum(updates, weights, self.faulty, several=True)


class GeometricMedian(Centre):
    """The point of least distance to all updates."""

    name = "geometric-median"
    summary = "point of least weighted distance to all updates"
    stacked = True
    iterations: int = option(32, "iterations of Weiszfeld's algorithm", least=1, most=10_000)

    def centre(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Return that point."""
        return robust.geometric_median(updates, weights, self.iterations)


AGGREGATIONS: Registry[Aggregation] = Registry(
    "aggregator",
    "motifair.aggregations",
    {a.name: a for a in (Mean, Median, TrimmedMean, Krum, MultiKrum, GeometricMedian)},
)
