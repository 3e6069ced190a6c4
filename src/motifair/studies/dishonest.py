"""A simulation with dishonest agents, and a server as a deployed federation has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from motifair.config import Config
from motifair.evaluation.accuracy import chosen_classes, outputs
from motifair.federation.agents import AgentsState
from motifair.federation.members import Members
from motifair.federation.protocol import Judgement, Uploads
from motifair.federation.round import Round
from motifair.federation.server import Record
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState
from motifair.graphs.batch import Shard, collate, make_shard
from motifair.mechanism.bounds import MAX_SIZE_RATIO, capped_sizes, too_long, too_short
from motifair.studies.attacks import Attack, AttackContext, Cast, PreviousRound
from motifair.studies.attacks.graphs import TARGET, triggered


class Dishonest(Simulation):
    """A simulation in which some agents of each federation follow an attack.

    As between machines, numbers of graphs are capped, and updates of unusual length are rejected:
    their senders count as absent.

    Args:
        config: The configuration.
        members: The members of one federation, or of a stack of federations.
        attack: The attack; its changes to graphs and claims are already in `members`.
        cast: The attackers of each federation, equally many.
        own: The agents' own models before the first round, if they were trained before.
        where: Device and threads, as for `Simulation`.
    """

    def __init__(
        self,
        config: Config,
        members: Members | Sequence[Members],
        attack: Attack,
        cast: Sequence[Cast],
        own: AgentsState | None = None,
        **where: Any,
    ) -> None:
        super().__init__(config, members, **where)
        self.attack, self.cast, self.own_trained = attack, cast, own
        graphs = capped_sizes(self.server.graphs, MAX_SIZE_RATIO)
        self.server.graphs = graphs
        self.server.believed = torch.minimum(self.server.believed, graphs.double())
        each = self.agents_each
        rows = [(f * each + k, f * each + c.other) for f, c in enumerate(cast) for k in c.attackers]
        self.own, self.other = torch.tensor(rows, device=self.device).unbind(dim=1)
        self.previous: PreviousRound | None = None

    @property
    def recordable(self) -> bool:
        """Whether rounds can be recorded: attacks on uploads are decided on the host."""
        return not self.attack.in_rounds and super().recordable

    def start(self) -> FederationState:
        """Return the initial state, and forget the previous round."""
        self.previous = None
        return super().start()

    def own_models(self) -> AgentsState | None:
        """Return the agents' own models, trained unless that was done before."""
        if self.own_trained is None:
            self.own_trained = super().own_models()
        return self.own_trained

    def shown(self, own: Tensor) -> Tensor:
        """Return the models that agents show their peers; attackers may show others than theirs."""
        shown = own.clone()
        shown[self.own] = self.attack.shown(shown[self.own], self.model.layout)
        return shown

    def judgement(self, own: AgentsState | None) -> Judgement | None:
        """Return what agents say of their peers' models; attackers may lie."""
        honest = super().judgement(own)
        if honest is None:
            return None
        if self.single:
            return self.attack.judgement(honest, self.cast[0])
        each = zip(honest.loss, honest.told, self.cast, strict=True)
        said = [self.attack.judgement(Judgement(loss, told), c) for loss, told, c in each]
        loss, told = (torch.stack([getattr(j, n) for j in said]) for n in ("loss", "told"))
        return Judgement(loss, told)

    def play(self, state: FederationState, *, own: bool | None = None) -> Round:
        """Run one round in which attackers' uploads are replaced, or attackers are absent."""
        if not self.attack.in_rounds:
            return super().play(state, own=own)
        context = AttackContext(
            state.round + 1,
            self.config.rounds,
            self.own,
            self.other,
            len(self.members),
            self.previous,
        )
        state = replace(state, server=self.attack.server(state.server, context))
        present = torch.ones_like(self.server.graphs, dtype=torch.bool)

        def send(computed: Uploads) -> tuple[Uploads, Tensor | None]:
            uploads = self.attack.uploads(computed, context)
            present.copy_(self._present(uploads, context))
            return uploads, None if present.all() else present

        done = self.run_round(state, send, own)
        if not present.all():
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

    def _present(self, uploads: Uploads, context: AttackContext) -> Tensor:
        """Return who is there and sends an update that is accepted, `(..., A)`."""
        present = self._accepted(uploads)
        if self.attack.away is not None and self.attack.away(context):
            present.view(-1)[self.own] = False
        return present

    def _accepted(self, uploads: Uploads) -> Tensor:
        """Return whose updates are of usual length, `(..., A)`."""
        length = uploads.update.double().norm(dim=-1).view_as(self.server.graphs)
        steps = self.method.steps(self.server.graphs)
        return ~(too_long(length, steps) | too_short(length))

    def backdoor(self, state: FederationState) -> np.ndarray:
        """Return the share of unseen graphs of other classes that the server's models put into the
        target class of the backdoor when they have its trigger, `(F,)`.
        """
        shards = [_with_trigger(m) for m in self.members]
        batch = collate(shards, self.device, self.initial.dtype, layers=self.model.distinct_layers)
        predicted = chosen_classes(outputs(self.model, self.global_weights(state), batch))
        others = (batch.graph_weight > 0) & (batch.target != TARGET)
        taken = ((predicted == TARGET) & others).sum(dim=1) / others.sum(dim=1)
        shares: np.ndarray = taken.cpu().numpy()
        return shares


def _with_trigger(members: Members) -> Shard:
    """Return the unseen graphs with the trigger of a backdoor in each."""
    graphs = members.split.graphs.select(members.split.partition.global_test)
    changed = triggered(graphs, np.arange(len(graphs)))
    return make_shard(changed, members.features, summed=members.model.summed_inputs)


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
