"""The paper's mechanism: value by alignment and diversity, reward by value, pay by value."""

from __future__ import annotations

from dataclasses import field
from typing import Self

import torch
from torch import Tensor

from motifair.config import Config
from motifair.learning.objective import PrototypeTerm, Term, supervised
from motifair.mechanism.aggregation import earned, lengthened, size_weights, value_weights
from motifair.mechanism.alignment import ALIGNMENTS, alignment_with_peers, reach
from motifair.mechanism.allocation import reward_ratio
from motifair.mechanism.bounds import counted_length
from motifair.mechanism.coverage import coverage
from motifair.mechanism.payoff import SIZE_PAYOFFS, compensation, payoff
from motifair.methods.base import Memory, Method, Seen
from motifair.methods.valuations import VALUATIONS, Valuation


class Motifair(Method):
    """E3-E5, E7-E13 as the configuration reads them."""

    name = "motifair"
    stacked = True
    summary = "value by alignment and motif diversity; sparse rewards; payoffs; prototypes"
    uses_motifs = True
    returning = "own"
    options = frozenset(
        {
            "share", "rings", "max_ring", "chance", "vocabulary_fraction", "tfidf", "alignment_of",
            "alignment_against", "alignment_rate", "corroboration", "evidence", "value_guard",
            "value_update", "value_rate", "diversity_weight", "aggregation", "aggregate_length",
            "beta", "reward_for", "mask_scope", "mask_by", "retention", "reward_step", "own_weight",
            "own_prior", "prototype_distance", "prototype_reduce", "prototype_weight", "budget",
            "payoff", "contribution", "aggregator", "valuation", "size", "bounded",
            "initial_value", "trial_rounds", "moments",
        }
    )  # fmt: skip

    valuation: Valuation = field(init=False, repr=False)

    def bind(self, config: Config) -> Self:
        """Return the same method for a run with this configuration, its parts included."""
        bound = super().bind(config)
        bound.valuation = VALUATIONS.make(config.valuation, config)
        return bound

    def takes_stacks(self) -> bool:
        """Whether the class itself and all its parts say that they are `stacked`."""
        return super().takes_stacks() and self.valuation.declares_stacked()

    @property
    def deployable(self) -> bool:
        """Paid by value it remembers nothing; payoffs by data size it does."""
        return self.config.payoff == "paper"

    @property
    def uses_prototypes(self) -> bool:
        """Prototypes are exchanged unless they would weigh nothing."""
        return self.config.prototype_weight > 0

    @property
    def uses_gradients(self) -> bool:
        """Raw gradients are uploaded if they are what is aligned, or aligned with."""
        if self.config.alignment_against == "coverage":
            return False
        return self.config.alignment_of == "gradient" or self._asks_peers

    @property
    def trial_rounds(self) -> int:
        """Models are judged where their quality counts, and all members have the same classes."""
        c = self.config
        judged = c.alignment_against == "coverage" and c.share == "all"
        return min(c.trial_rounds, c.rounds) if judged else 0

    @property
    def _asks_peers(self) -> bool:
        return self.config.alignment_against in ("peers", "peers-by-value")

    def retain(self, seen: Seen, kept: Tensor) -> Tensor:
        """κ, or everything where there is no reward."""
        return torch.where(kept > 0, self.config.retention, 1.0).double()

    def terms(self, shared: slice) -> tuple[Term, ...]:
        """E13."""
        if not self.uses_prototypes:
            return (supervised,)
        c = self.config
        return (
            supervised,
            PrototypeTerm(c.prototype_weight, c.prototype_distance, c.prototype_reduce),
        )

    def weigh(self, seen: Seen) -> Tensor:
        """E12 with the values of the previous round, E1, or E1 among agents of positive value, with
        coverage as far as they earned what their graphs are worth, and their updates are not
        longer than usual.
        """
        if self.config.aggregation == "value":
            return value_weights(seen.value)
        if self.config.aggregation == "trusted":
            counted = (seen.value > 0).double()
            if self.config.alignment_against == "coverage":
                # Before the first round nobody has earned anything.
                counted = torch.where(seen.rounds > 0, earned(seen.value, seen.worth), counted)
                counted = counted * counted_length(seen.updates, self.steps(seen.graphs))
            return size_weights(seen.believed * counted)
        return size_weights(seen.believed)

    def lengthen(self, update: Tensor, seen: Seen, weights: Tensor) -> Tensor:
        """The sum as it is, or stretched towards the length of a typical update."""
        if self.config.aggregate_length == "mean":
            return update
        return lengthened(update, seen.updates, weights, self.steps(seen.graphs))

    def align(self, seen: Seen, weights: Tensor) -> Tensor:
        """φ of this round, or its running mean."""
        now = self._align(seen, weights)
        rate = self.config.alignment_rate
        known = ~torch.isnan(seen.alignment)
        return torch.where(known, (1 - rate) * seen.alignment + rate * now, now)

    def _align(self, seen: Seen, weights: Tensor) -> Tensor:
        """Coverage, E7, its leave-one-out form, the others' votes, or E2 with E6."""
        if self.config.alignment_against == "coverage":
            length = reach(seen.updates, self.steps(seen.graphs))
            return coverage(seen.updates, seen.worth, length)
        by_gradient = self.config.alignment_of == "gradient"
        vectors = seen.gradients if by_gradient else seen.updates
        assert vectors is not None
        against = self.config.alignment_against
        if self._asks_peers:
            assert seen.gradients is not None
            steps, equal = -vectors if by_gradient else vectors, torch.ones_like(seen.value)
            if against == "peers":
                votes, how_far = equal / equal.shape[-1], equal
            else:
                votes, how_far = (
                    value_weights(seen.value),
                    reach(seen.updates, self.steps(seen.graphs)),
                )
            return alignment_with_peers(steps, seen.gradients, votes, how_far)
        phi = ALIGNMENTS[against](vectors, weights)
        if against == "shapley":
            # Shapley values add up to 1, cosines to about A: put both on one scale, so that the
            # weight of diversity keeps its meaning.
            total = phi.sum(dim=-1, keepdim=True)
            cosines = ALIGNMENTS["all"](vectors, weights).sum(dim=-1, keepdim=True)
            phi = phi * torch.where(total.abs() > 1e-12, cosines / total, 0.0)
        return phi

    def valuate(self, seen: Seen, alignment: Tensor) -> Tensor:
        """E9, or what the chosen valuation makes of the round."""
        return self.valuation(seen, alignment)

    def ratio(self, seen: Seen, value: Tensor) -> Tensor:
        """E3."""
        relative = self.config.reward_for == "relative-value"
        return reward_ratio(value, self.config.beta, relative=relative)

    def remember(self, seen: Seen) -> Memory:
        """Keep payoffs by data size, which are the same in every round."""
        if self.config.payoff == "paper" or seen.memory:
            return seen.memory
        return {"payoff": SIZE_PAYOFFS[self.config.payoff](seen.graphs, self.config.budget)}

    def settle(self, seen: Seen, value: Tensor) -> tuple[Tensor, Tensor]:
        """E4 and E5, or a rule that looks at data sizes alone."""
        bonus = compensation(value, seen.earlier_mean, seen.rounds)
        if self.config.payoff == "paper":
            return payoff(value, bonus, self.config.budget), bonus.where(value >= 0, 0.0)
        return seen.memory["payoff"], torch.zeros_like(value)
