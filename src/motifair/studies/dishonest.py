"""A federation in which one agent cheats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from motifair.config import Config
from motifair.federation.members import Members
from motifair.federation.protocol import Uploads
from motifair.federation.round import Round, run_round
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

    def play(self, state: FederationState) -> Round:
        """Run one round, in which the attacker sends what it likes, or nothing at all."""
        if self.plain:
            return super().play(state)
        scene = Scene(state.round + 1, self.config.rounds, self.own, self.other, self.past)
        present = self._present(scene)

        def send(computed: Uploads) -> tuple[Uploads, Tensor | None]:
            return self.attack.uploads(computed, scene), present

        done = run_round(self.agents, self.server, state, send)
        if present is not None:
            paid = settled(done.record, present, self.config.budget)
            done = replace(done, record=done.record | {"payoff": paid})
        moved = (done.state.server.weights - state.server.weights) / self.method.reward_step
        self.past = Past(
            uploads=done.uploads,
            reward=done.downloads.reward,
            aggregate=moved.view(len(self.members), -1),
            alignment=done.record["alignment"].flatten(),
        )
        return done

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
