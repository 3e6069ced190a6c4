"""What an attack is: changes to graphs, to claims, to the model that peers judge, to judgements, to
uploads, to attendance, or a new name.

An attack changes nothing else: the attacker trains honestly and keeps its trained model. In a stack
of federations there are as many attackers in each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from motifair.federation.members import Members
from motifair.federation.protocol import Judgement, Uploads
from motifair.federation.server import ServerState
from motifair.graphs.split import Split
from motifair.models.layout import Layout


@dataclass(frozen=True)
class Cast:
    """Numbers of the attacker's agents in a federation, and of the agent that it copies from."""

    attackers: tuple[int, ...]
    other: int


@dataclass(frozen=True)
class PreviousRound:
    """The previous round as an attacker sees it, for F federations of A agents.

    Attributes:
        uploads: The uploads of all agents.
        reward: Their rewards, `(F·A, D)`.
        aggregate: The aggregates, `(F, D)`.
        alignment: The alignments, `(F·A,)`, NaN for absent agents.
    """

    uploads: Uploads
    reward: Tensor
    aggregate: Tensor
    alignment: Tensor


@dataclass(frozen=True)
class AttackContext:
    """The input of an attack in a round, with n attackers in each of F federations.

    Attributes:
        round: Number of the round, from 1.
        rounds: Number of all rounds.
        own: Rows of the attackers, `(F·n,)`, federation by federation.
        other: Rows of the agents that they copy from, `(F·n,)`.
        federations: F.
        previous: The previous round, None in the first.
    """

    round: int
    rounds: int
    own: Tensor
    other: Tensor
    federations: int
    previous: PreviousRound | None


def honest_split(split: Split, agent: int, rng: np.random.Generator) -> Split:
    """Return the split unchanged."""
    return split


def honest_members(members: Members, cast: Cast) -> Members:
    """Return the members unchanged."""
    return members


def honest_uploads(uploads: Uploads, context: AttackContext) -> Uploads:
    """Return the uploads unchanged."""
    return uploads


def honest_models(models: Tensor, layout: Layout) -> Tensor:
    """Return the models unchanged."""
    return models


def honest_judgement(judgement: Judgement, cast: Cast) -> Judgement:
    """Return the judgements unchanged."""
    return judgement


def same_names(state: ServerState, context: AttackContext) -> ServerState:
    """Return what the server remembers unchanged."""
    return state


@dataclass(frozen=True)
class Attack:
    """An attack; the parts that are not given are honest.

    Attributes:
        name: Its name in tables.
        about: What the attacker does, for readers of the tables.
        split: Changes the graphs of an agent.
        members: Changes what agents claim to have.
        uploads: Changes the uploads of a round.
        server: Changes what the server remembers of the attacker before a round.
        shown: Changes the attackers' models `(n, D)`, trained alone, before peers judge them.
        judgement: Changes what attackers say of their peers' models, in one federation.
        away: Chooses the rounds in which the attacker is absent. To send nothing is the same: a
            server rejects an update far shorter than the others', and pays nothing for the round.
        partners: Number of further agents that do the same; their pay is added up.
        by_gradient: Whether it needs a method with gradients in the uploads.
        invented: Share of the claimed graphs that an auditor who looks at them does not accept.
    """

    name: str
    about: str = ""
    split: Callable[[Split, int, np.random.Generator], Split] = honest_split
    members: Callable[[Members, Cast], Members] = honest_members
    uploads: Callable[[Uploads, AttackContext], Uploads] = honest_uploads
    server: Callable[[ServerState, AttackContext], ServerState] = same_names
    shown: Callable[[Tensor, Layout], Tensor] = honest_models
    judgement: Callable[[Judgement, Cast], Judgement] = honest_judgement
    away: Callable[[AttackContext], bool] | None = None
    partners: int = 0
    by_gradient: bool = False
    invented: float = 0.0

    @property
    def in_rounds(self) -> bool:
        """Whether rounds differ from honest ones: not graphs and claims alone are changed."""
        honest = self.uploads is honest_uploads and self.server is same_names
        return not honest or self.away is not None

    @property
    def baseline(self) -> Attack:
        """The same agents when they are honest."""
        several = f", {1 + self.partners} agents" if self.partners else ""
        return Attack(f"honest{several}", partners=self.partners)


HONEST = Attack("honest")
