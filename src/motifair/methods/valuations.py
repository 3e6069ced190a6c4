"""How agents' values follow from what a round says about them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from motifair.components import Component, Registry
from motifair.mechanism.value import EVIDENCE, begun, bounded, update_value

if TYPE_CHECKING:
    from motifair.methods.base import Seen


E9_OPTIONS = frozenset(
    {"evidence", "value_guard", "value_rate", "value_update", "diversity_weight"}
)


class Valuation(Component):
    """Turns what the server saw in a round, and alignments `(A,)`, into values `(A,)`.

    One that says `stacked = True` of itself takes an axis over federations in front of both.
    `options` are the options of E9 that it reads; a user who sets another one gets an error.
    """

    options: ClassVar[frozenset[str]] = E9_OPTIONS

    @abstractmethod
    def __call__(self, seen: Seen, alignment: Tensor) -> Tensor:
        """Return the agents' values after this round, adding up to 1."""


class RunningValue(Valuation):
    """E8 and E9: the last value and a round's evidence, φ with motif diversity."""

    name = "running"
    summary = "E9: the last value moved by alignment and motif diversity"
    stacked = True

    def __call__(self, seen: Seen, alignment: Tensor) -> Tensor:
        """Return the values, as the configuration reads E9."""
        c = self.config
        x = EVIDENCE[c.evidence](alignment, seen.diversity, c.diversity_weight)
        before = seen.value
        if c.initial_value == "evidence":
            said = bounded(x) if c.value_guard else x
            before = begun(before, said, ~torch.isnan(seen.alignment), seen.worth)
        return update_value(before, x, rate=c.value_rate, rule=c.value_update, guard=c.value_guard)


class EqualValue(Valuation):
    """A control: all agents are worth the same, whatever they do."""

    name = "equal"
    summary = "control: the same value for all agents"
    stacked = True
    options = frozenset()

    def __call__(self, seen: Seen, alignment: Tensor) -> Tensor:
        """Return 1/N."""
        return torch.full_like(seen.value, 1 / seen.value.shape[-1])


VALUATIONS: Registry[Valuation] = Registry(
    "valuation", "motifair.valuations", {v.name: v for v in (RunningValue, EqualValue)}
)
