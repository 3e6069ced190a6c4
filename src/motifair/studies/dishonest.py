"""A simulation with one dishonest agent."""

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
from motifair.studies.attacks import Attack, AttackContext, PreviousRound, honest_uploads


class Dishonest(Simulation):
    """A simulation in which one agent of each federation follows an attack.

    Args:
        config: The configuration.
        members: The members of one federation, or of a stack of federations.
        attack: The attack; its changes to graphs and keys are already in `members`.
        attacker: Number of the dishonest agent in each federation.
        where: Device and threads, as for `Simulation`.
    """

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
        # The preceding agent has the role "good" for all attackers of the study.
        self.own, self.other = first + attacker, first + (attacker - 1) % each
        self.previous: PreviousRound | None = None

    @property
    def plain(self) -> bool:
        """Whether uploads are honest: the attack changes only graphs or keys."""
        return self.attack.uploads is honest_uploads and self.attack.away is None

    @property
    def recordable(self) -> bool:
        """Whether rounds can be recorded: attacks on uploads are decided on the host."""
        return self.plain and super().recordable

    def start(self) -> FederationState:
        """Return the initial state, and forget the previous round."""
        self.previous = None
        return super().start()

    def play(self, state: FederationState) -> Round:
        """Run one round in which the attacker's upload is replaced, or the attacker is absent."""
        if self.plain:
            return super().play(state)
        context = AttackContext(
            state.round + 1, self.config.rounds, self.own, self.other, self.previous
        )
        present = self._present(context)

        def send(computed: Uploads) -> tuple[Uploads, Tensor | None]:
            return self.attack.uploads(computed, context), present

        done = run_round(self.agents, self.server, state, send)
        if present is not None:
            paid = settled(done.record, present, self.config.budget)
            done = replace(done, record=done.record | {"payoff": paid})
        moved = (done.state.server.weights - state.server.weights) / self.method.reward_step
        self.previous = PreviousRound(
            uploads=done.uploads,
            reward=done.downloads.reward,
            aggregate=moved.view(len(self.members), -1),
            alignment=done.record["alignment"].flatten(),
        )
        return done

    def _present(self, context: AttackContext) -> Tensor | None:
        if self.attack.away is None or not self.attack.away(context):
            return None
        present = torch.ones(self.agents_each, dtype=torch.bool, device=self.device)
        present[self.own] = False
        return present


def settled(record: Record, present: Tensor, budget: float) -> Tensor:
    """Return payoffs by the rules of the settlement: an agent with r_i < 0 pays even if absent.

    >>> record = {"value": torch.tensor([0.75, 0.5, -0.25]), "compensation": torch.zeros(3)}
    >>> settled(record, torch.tensor([True, True, False]), budget=2.0).tolist()
    [1.5, 1.0, -0.5]
    """
    value = record["value"]
    share = torch.where(present, value + record["compensation"], 0.0)
    share = torch.where(value < 0, value, share)
    return budget * share / share.sum(dim=-1, keepdim=True)
