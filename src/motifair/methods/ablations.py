"""The mechanism with one part taken out, and a control whose values mean nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import torch
from torch import Tensor

from motifair.config import Config
from motifair.learning.randomness import fold, random_words
from motifair.mechanism.aggregation import lengthened, size_weights
from motifair.methods.base import Method, Seen
from motifair.methods.motifair import Motifair


class WithoutAlignment(Motifair):
    """Value by diversity alone."""

    name = "motifair-alignment"
    stacked = True
    summary = "ablation: φ = 0, value by diversity alone"
    options = Motifair.options - {
        "alignment_of", "alignment_against", "alignment_rate", "evidence",
    }  # fmt: skip

    def bind(self, config: Config) -> Self:
        """Without alignment there is none to judge by, and no gradient to upload."""
        usual = Config(profile="paper")
        plain = {name: getattr(usual, name) for name in sorted(Motifair.options - self.options)}
        return super().bind(replace(config, **plain))

    def align(self, seen: Seen, weights: Tensor) -> Tensor:
        """See no alignment."""
        return torch.zeros_like(seen.value)


class WithoutDiversity(Motifair):
    """Value by alignment alone."""

    name = "motifair-diversity"
    stacked = True
    summary = "ablation: α2 = 0, value by alignment alone"
    options = Motifair.options - {"diversity_weight", "corroboration"}

    def bind(self, config: Config) -> Self:
        """Give diversity no weight."""
        return super().bind(replace(config, diversity_weight=0.0))


class WithoutAllocation(Motifair):
    """Everyone receives the whole update, whatever its value."""

    name = "motifair-allocation"
    stacked = True
    summary = "ablation: the whole update for everyone"
    options = Motifair.options - {"beta", "reward_for", "mask_scope", "mask_by"}

    def ratio(self, seen: Seen, value: Tensor) -> Tensor:
        """Return 1 for everyone."""
        return torch.ones_like(value)


class WithoutAggregation(Motifair):
    """Updates weigh by data size; value still drives rewards, payoffs and prototypes."""

    name = "motifair-aggregation"
    stacked = True
    summary = "ablation: updates weighed by data size"
    options = Motifair.options - {"aggregation"}

    def weigh(self, seen: Seen) -> Tensor:
        """Weigh by size."""
        return size_weights(seen.graphs)


class WithoutPrototypes(Motifair):
    """No prototypes are exchanged; motif keys still give the diversity."""

    name = "motifair-prototypes"
    stacked = True
    summary = "ablation: λ = 0, no prototypes"
    options = Motifair.options - {"prototype_distance", "prototype_reduce", "prototype_weight"}

    def bind(self, config: Config) -> Self:
        """Give prototypes no weight."""
        return super().bind(replace(config, prototype_weight=0.0))


class FedAvgWithOwn(Method):
    """A control: federated averaging whose agents train a model of their own, too, as motifair's.

    The part of motifair's fairness that it has comes from predicting with both.
    """

    name = "fedavg-own"
    stacked = True
    summary = "control: FedAvg, predictions mixed with those of a model of one's own"
    options = Method.options | {"own_weight", "own_prior"}


class FedAvgWithOwnStretched(FedAvgWithOwn):
    """A control: the same with motifair's longer step of the server, and nothing else of it.

    What motifair has beyond this comes from motifs, values, masks or prototypes.
    """

    name = "fedavg-own-stretched"
    stacked = True
    summary = "control: fedavg-own with motifair's longer server step, and nothing else of it"

    def lengthen(self, update: Tensor, seen: Seen, weights: Tensor) -> Tensor:
        """Stretch the mean towards the length of a typical update."""
        return lengthened(update, seen.updates, weights, self.steps(seen.graphs))


class RandomRewards(Method):
    """A control: federated averaging with rewards by values drawn anew in each round.

    The fairness that it scores is what the metric gives for nothing.
    """

    name = "random-rewards"
    stacked = True
    summary = "control: sparse rewards by random values"

    def valuate(self, seen: Seen, alignment: Tensor) -> Tensor:
        """Draw values, by seed and round."""
        keys = fold(seen.seed.reshape(-1), seen.rounds)
        words = random_words(keys, seen.value.shape[-1]).view(seen.value.shape)
        drawn = ((words >> 11) & ((1 << 53) - 1)).double() + 1  # 1 to 2^53: never 0
        return drawn / drawn.sum(dim=-1, keepdim=True)

    def ratio(self, seen: Seen, value: Tensor) -> Tensor:
        """Return r_i / max_j r_j."""
        return value / value.amax(dim=-1, keepdim=True)
