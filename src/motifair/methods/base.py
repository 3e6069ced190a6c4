"""What a method of the comparison is: six decisions, each with the vanilla answer as default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from motifair.config import Config
from motifair.learning.objective import Term, supervised
from motifair.mechanism.aggregation import size_weights


@dataclass(frozen=True)
class Seen:
    """What the server knows when it values a round, agents in order of name, in float64.

    `updates` and `gradients` are `(A, D)`, the rest `(A,)`: training graphs, diversity (NaN for a
    method without motifs), the value after the previous round, the mean of all earlier values
    (over `rounds` rounds).
    """

    updates: Tensor
    gradients: Tensor | None
    graphs: Tensor
    diversity: Tensor
    value: Tensor
    earlier_mean: Tensor
    rounds: int


class Method:
    """A recipe that the round loop follows; as it stands, vanilla federated averaging.

    A subclass overrides what it does differently. `options` names the options beyond data, model
    and training that the method obeys; a user who sets another one is told so.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[frozenset[str]] = frozenset({"share"})
    global_model: ClassVar[bool] = True
    uses_motifs: ClassVar[bool] = False

    def __init__(self, config: Config) -> None:
        self.config = config

    @property
    def share(self) -> str:
        """Which parameters are exchanged: `all`, `conv` or `none`."""
        return self.config.share

    @property
    def uses_prototypes(self) -> bool:
        """Whether motif prototypes are exchanged."""
        return False

    @property
    def uses_gradients(self) -> bool:
        """Whether raw gradients are uploaded beside updates."""
        return False

    @property
    def adoption(self) -> tuple[float, float]:
        """How an agent adopts a reward: the share of its own step it keeps, and the step along
        the reward (κ and s).
        """
        return 0.0, 1.0

    def terms(self) -> tuple[Term, ...]:
        """Return the terms of the local objective."""
        return (supervised,)

    def weigh(self, seen: Seen) -> Tensor:
        """Return the weight of each agent's update in the sum, `(A,)`."""
        return size_weights(seen.graphs)

    def align(self, seen: Seen, weights: Tensor) -> Tensor:
        """Return φ, `(A,)`; NaN where the method has none."""
        return torch.full_like(seen.value, torch.nan)

    def valuate(self, seen: Seen, alignment: Tensor) -> Tensor:
        """Return the agents' values after this round, `(A,)`, adding up to 1."""
        return seen.value

    def ratio(self, value: Tensor) -> Tensor:
        """Return the share of the global update's components each agent receives, `(A,)`."""
        return torch.ones_like(value)

    def settle(self, seen: Seen, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return payoffs and compensations, `(A,)` each."""
        equal = torch.full_like(value, self.config.budget / len(value))
        return equal, torch.zeros_like(value)
