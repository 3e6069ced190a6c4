"""A federation in which one agent cheats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from motifair.config import Config
from motifair.federation.members import Members
from motifair.federation.server import Record
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState
from motifair.studies.attacks import Attack, Past, Scene, honest_uploads


class Dishonest(Simulation):
    """A simulation in which one agent of each federation follows an attack."""

    def __init__(
        self,
        config: Config,
        members: Members | Sequence[Members],
        attack: Attack,
        attacker: int,
        **where: Any,
    ) -> None:
        super().__init__(config, members, **where)
        assert attack.away is None or self.single
        self.attack = attack
        each = self.agents_each
        first = each * torch.arange(len(self.members), device=self.device)
        # The neighbour before is a good one for all attackers of the study.
        self.own, self.other = first + attacker, first + (attacker - 1) % each
        self.past: Past | None = None

    @property
    def plain(self) -> bool:
        """Whether the attack is over before the first round: all that is sent is honest."""
        return self.attack.uploads is honest_uploads and self.attack.away is None

    @property
    def recordable(self) -> bool:
        """What an attack does during the rounds is decided on the host."""
        return self.plain and super().recordable

    def start(self) -> FederationState:
        """Begin, with nothing remembered."""
        self.past = None
        return super().start()

    def round(
        self, state: FederationState, *, measure: bool = False
    ) -> tuple[FederationState, Record]:
        """One round, in which the attacker sends what it likes, or nothing at all."""
        if self.plain:
            return super().round(state, measure=measure)
        before = state.server
        trained, made = self.agents.train(
            state.agents, before.round + 1, *self.server.for_agents(before)
        )
        scene = Scene(state.round + 1, self.config.rounds, self.own, self.other, self.past)
        sent, present = self.attack.uploads(made, scene), self._present(scene)
        server, downloads, record = self.server.step(before, sent, present)
        if present is not None:
            record["payoff"] = settled(record, present, self.config.budget)
        new = FederationState(self.agents.adopt(state.agents, trained, downloads), server)
        if measure:
            record |= self.contributions(state, new, sent)
        moved = (server.weights - before.weights) / self.method.reward_step
        self.past = Past(
            uploads=sent,
            reward=downloads.reward,
            aggregate=moved.view(len(self.members), -1),
            alignment=record["alignment"].flatten(),
        )
        return new, record

    def _present(self, scene: Scene) -> Tensor | None:
        if self.attack.away is None or not self.attack.away(scene):
            return None
        present = torch.ones(self.agents_each, dtype=torch.bool, device=self.device)
        present[self.own] = False
        return present


def settled(record: Record, present: Tensor, budget: float) -> Tensor:
    """Return payoffs as the settlement has them: who is worth less than nothing pays, there or not.

    >>> record = {"value": torch.tensor([0.75, 0.5, -0.25]), "compensation": torch.zeros(3)}
    >>> settled(record, torch.tensor([True, True, False]), budget=2.0).tolist()
    [1.5, 1.0, -0.5]
    """
    value = record["value"]
    share = torch.where(present, value + record["compensation"], 0.0)
    share = torch.where(value < 0, value, share)
    return budget * share / share.sum(dim=-1, keepdim=True)
