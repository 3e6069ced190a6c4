"""Federations in which one member gives only a part of its graphs, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from motifair.config import Config
from motifair.federation.agents import AgentsState
from motifair.federation.members import Members
from motifair.federation.protocol import Uploads, with_rows
from motifair.federation.round import Round
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState
from motifair.graphs.graph_set import ranges
from motifair.learning.adam import Moments


class Withholding(Simulation):
    """A simulation in which one member of each federation withholds graphs.

    What it sends (update, gradient, prototypes, the model that peers judge) comes from the graphs
    that it gives, with its model at the beginning of the round and with moments of its own. What
    stays with it (personal parameters, the step that it retains, its own model) is trained on all
    its graphs, so that giving less costs it nothing but what the method takes away. A member that
    gives no graph sends zeros. With all graphs given, this is an ordinary `Simulation`, to the last
    bit.

    Args:
        config: The configuration.
        members: Members prepared with an `Offer`, of one federation or of a stack.
        device, threads, rows, dtype: As for `Simulation`.
    """

    def __init__(
        self,
        config: Config,
        members: Members | Sequence[Members],
        *,
        rows: int | None = None,
        dtype: torch.dtype = torch.float32,
        **where: Any,
    ) -> None:
        super().__init__(config, members, rows=rows, dtype=dtype, **where)
        given = [m.given for m in self.members if m.given is not None]
        places = np.array([g.agent + f * self.agents_each for f, g in enumerate(given)])
        self.own = torch.as_tensor(places, device=self.device)
        self.silent = self.own[torch.tensor([g.graphs == 0 for g in given], device=self.device)]
        count = np.array([s.motifs.shape[1] for m in self.members for s in m.train])
        entries = ranges((np.cumsum(count) - count)[places], count[places])
        self.entries = torch.as_tensor(entries, device=self.device)
        alone = self.agents.alone
        keys = self.agents.keys[self.own]
        self.givers = self._agents(
            keys,
            keys if alone is None else alone.keys[self.own],
            [g.shard for g in given],
            [m.test[g.agent] for m, g in zip(self.members, given, strict=True)],
            threads=1,
            rows=rows,
            dtype=dtype,
        )

    def start(self) -> FederationState:
        """Return the state before the first round."""
        state = super().start()
        return replace(state, given=Moments.zero(state.agents.weights[self.own]))

    def prototypes(self, agents: AgentsState) -> Tensor:
        """Return the local prototypes that agents send, of the graphs that they give."""
        weights = agents.weights[self.own]
        sent = self.givers.prototypes(AgentsState(weights, Moments.zero(weights)))
        return with_rows(super().prototypes(agents), self.entries, sent)

    def shown(self, own: Tensor) -> Tensor:
        """Return the models that agents show: the member's is trained on the graphs it gives."""
        initial = self.own_initial[self.own]
        sent = self.givers.train_alone(initial, self.method.trial_rounds)
        assert sent is not None
        return with_rows(own, self.own, sent.weights)

    def judged(self, models: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return what agents say of some models for each; the member judges on what it gives."""
        said, given = super().judged(models), self.givers.judge([m[self.own] for m in models])
        loss, told = (with_rows(s.T, self.own, g.T).T for s, g in zip(said, given, strict=True))
        return loss, told

    def play(self, state: FederationState, *, own: bool | None = None) -> Round:
        """Run one round in which the member sends what it trained on the graphs that it gives."""
        assert state.given is not None
        prototypes, active = (
            None if p is None else p[self.entries] for p in self.server.for_agents(state.server)
        )
        trained, sent = self.givers.train(
            AgentsState(state.agents.weights[self.own], state.given),
            state.server.round + 1,
            prototypes,
            active,
        )

        def send(computed: Uploads) -> tuple[Uploads, None]:
            return self._sent(computed, sent).silent(self.silent), None

        done = self.run_round(state, send, own)
        common = done.downloads.moments
        if common is not None:
            common = common[self.own]
        given = self.givers.with_common(trained.moments, common)
        return replace(done, state=replace(done.state, given=given))

    def _sent(self, computed: Uploads, given: Uploads) -> Uploads:
        """Put what the member trained on the graphs that it gives in the place of the rest."""
        uploads = computed.with_rows(self.own, update=given.update, gradient=given.gradient)
        prototypes = computed.prototypes
        if prototypes is not None and given.prototypes is not None:
            prototypes = with_rows(prototypes, self.entries, given.prototypes)
        norm = with_rows(computed.gradient_norm, self.own, given.gradient_norm)
        moments = computed.moments
        if moments is not None and given.moments is not None:
            moments = with_rows(moments, self.own, given.moments)
        return replace(uploads, gradient_norm=norm, prototypes=prototypes, moments=moments)

    def part(self, state: FederationState, f: int) -> FederationState:
        """Take one federation out of the stack."""
        assert state.given is not None
        return replace(super().part(state, f), given=state.given.rows(slice(f, f + 1)))

    def join(self, states: Sequence[FederationState]) -> FederationState:
        """Stack federations that stand at the same round."""
        given = Moments.concatenate([s.given for s in states if s.given is not None])
        return replace(super().join(states), given=given)
