"""Federations with agents and server in this process: one, or a stack of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from motifair.config import Config
from motifair.evaluation.accuracy import measure, outputs, scores
from motifair.federation.agents import (
    Agents,
    AgentsState,
    local_training,
    own_seed,
    similar_sizes,
)
from motifair.federation.contribution import without_each
from motifair.federation.history import History
from motifair.federation.members import Members
from motifair.federation.protocol import Judgement, Uploads
from motifair.federation.round import Round, Send, run_round, send_all
from motifair.federation.server import Record, Server, masked_blocks
from motifair.federation.stacks import stack_states, unstack_state
from motifair.federation.state import FederationState
from motifair.federation.trial import judge
from motifair.graphs.batch import Shard, collate
from motifair.graphs.task import CLASSES, Task
from motifair.learning.randomness import stream_keys
from motifair.methods import make_method

NODES_OF_A_LAUNCH = 20_000  # nodes that a GPU computes while one more stack is launched


class Simulation:
    """One federation, or several of equal shape in one stack.

    A stack computes what its federations compute one by one, on a GPU to the bit, on a CPU up to
    rounding; its state has an axis over federations in front (for the agents: more rows). `rows`
    agents are trained at a time: one on a CPU, all of similar size on a GPU, unless it is given.
    """

    def __init__(
        self,
        config: Config,
        members: Members | Sequence[Members],
        *,
        device: torch.device,
        threads: int = 1,
        rows: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.single = isinstance(members, Members)
        self.members = (members,) if isinstance(members, Members) else tuple(members)
        self.config, self.device = config, device
        self.method = make_method(config)
        self.on_trial: Callable[[], None] = lambda: None  # called after each round of the trial
        self.model = self.members[0].model
        shared = self.model.layout.shared(self.method.share)
        seeds, nothing = [m.seed for m in self.members], slice(0, 0)
        self.initial = self._initial_rows(seeds, dtype, shared)
        self.own_initial = self._initial_rows(self._own_seeds(), dtype, nothing)
        self.agents = self._all_agents(threads, rows, dtype)
        layers = self.model.distinct_layers
        unseen = [m.global_test for m in self.members]
        self.global_test = collate(unseen, device, dtype, layers=layers)
        lent = [m.lent for m in self.members]
        self.validation = [
            collate([shard], device, dtype, layers=layers) for shard in lent if len(lent[0])
        ]
        self.server = self._server()

    def start(self) -> FederationState:
        """Return the state before the first round, initial prototypes included."""
        own = self.own_models()
        agents = self.agents.start(self.initial, own)
        shared = self.initial[:: self.agents_each, self.agents.shared]
        local = self.prototypes(agents) if self.method.uses_prototypes else None
        judged = self.judgement(own)
        return FederationState(
            agents, self.server.start(shared[0] if self.single else shared, local, judged)
        )

    def own_models(self) -> AgentsState | None:
        """Return agents' own models before the first round: trained alone where peers judge them;
        None if agents have none.
        """
        return self.agents.train_alone(self.own_initial, self.method.trial_rounds, self.on_trial)

    def judgement(self, own: AgentsState | None) -> Judgement | None:
        """Return what agents say of their peers' own models, if the method asks them."""
        if own is None or not self.method.trial_rounds:
            return None
        said = judge(self.judged, self.shown(own.weights), [m.seed for m in self.members])
        return Judgement(said.loss[0], said.told[0]) if self.single else said

    def shown(self, own: Tensor) -> Tensor:
        """Return the models `(A, D)` that agents show their peers: their own."""
        return own

    def judged(self, models: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Return what agents say of some models for each, `(A, D)` each: see `Agents.judge`."""
        return self.agents.judge(models)

    def trains_own(self, round: int) -> bool:
        """Whether agents train their own models in a round, which they did for the first ones
        before these.
        """
        return round > self.method.trial_rounds

    def prototypes(self, agents: AgentsState) -> Tensor:
        """Return the local prototypes that agents send, `(M, H)`."""
        return self.agents.prototypes(agents)

    @property
    def global_model(self) -> bool:
        """Whether the server has a model of all: not if agents differ in inputs and classes."""
        return self.method.global_model and not self.members[0].parts

    @property
    def agents_each(self) -> int:
        """Agents in each federation."""
        return len(self.members[0].train)

    @property
    def recordable(self) -> bool:
        """Whether a round is the same program every time: nothing is decided on the host."""
        # Only the accuracy of classes is computed on the device.
        judged = not self.validation or self.model.task.kind == CLASSES
        return self.method.takes_stacks() and self.model.recordable and judged

    def histories(self) -> list[History]:
        """Return an empty history for each federation."""
        return [History(m.split.names, self.config.rounds) for m in self.members]

    def round(
        self, state: FederationState, *, measure: bool = False, own: bool | None = None
    ) -> tuple[FederationState, Record]:
        """Run one round; `measure` adds to its record what each agent contributed to the server's
        model. `own` is whether own models are trained, by default as `trains_own` says.
        """
        done = self.play(state, own=own)
        if measure:
            return done.state, done.record | self.contributions(state, done.state, done.uploads)
        return done.state, done.record

    def play(self, state: FederationState, *, own: bool | None = None) -> Round:
        """Run one round of honest agents, all of them present."""
        return self.run_round(state, send_all, own)

    def run_round(self, state: FederationState, send: Send, own: bool | None) -> Round:
        """Run one round of agents that `send` something."""
        own = self.trains_own(state.round + 1) if own is None else own
        return run_round(self.agents, self.server, state, send, own=own)

    def contributions(
        self, before: FederationState, after: FederationState, uploads: Uploads
    ) -> Record:
        """Return (acc_N − acc_{−i}) / |acc_{−i}| of the server model on the global test set, where
        acc_{−i} is had without agent i in this round; and the Shapley value of its update.
        """
        without, exact = without_each(self.server, before.server, uploads)
        rows = self.global_weights(after)
        reached = measure(self.model, rows, self.global_test)
        contribution = []
        for shared in without.view(len(rows), self.agents_each, -1).unbind(dim=1):
            other = rows.clone()
            other[:, self.agents.shared] = shared.to(rows.dtype)
            left = measure(self.model, other, self.global_test)
            relative = (reached - left) / left.abs()  # scores of errors are negative
            contribution.append(torch.where(left != 0, relative, torch.nan))
        return {"contribution": torch.stack(contribution, dim=1).view_as(exact), "shapley": exact}

    def evaluate(self, state: FederationState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each agent's score on its own test set and whether it predicts the same for
        all of it, `(F, A)` each, and the server model's score on the global test set `(F,)`.

        Where only convolutions are shared, the server model is completed for this purpose by the
        mean of the agents' personal layers.
        """
        local, constant = (
            rows.view(len(self.members), -1).cpu().numpy()
            for rows in self.agents.evaluate(state.agents)
        )
        if not self.global_model:
            return local, constant, np.full(len(self.members), np.nan)
        rows = self.global_weights(state)
        return local, constant, measure(self.model, rows, self.global_test).cpu().numpy()

    def global_weights(self, state: FederationState) -> Tensor:
        """Return the servers' models as full rows `(F, D)`."""
        weights = state.agents.weights
        rows = weights.double().view(len(self.members), self.agents_each, -1).mean(dim=1)
        rows[:, self.agents.shared] = state.server.weights
        return rows.to(weights.dtype)

    def part(self, state: FederationState, f: int) -> FederationState:
        """Take one federation out of the stack."""
        if self.single:
            return state
        rows = slice(f * self.agents_each, (f + 1) * self.agents_each)
        return FederationState(state.agents.rows(rows), unstack_state(self.server, state.server, f))

    def join(self, states: Sequence[FederationState]) -> FederationState:
        """Stack federations that stand at the same round; refuse those of another network."""
        for state in states:
            self.model.layout.check(state.agents.weights)
        if self.single:
            return states[0]
        agents = AgentsState.concatenate([s.agents for s in states])
        return FederationState(agents, stack_states([s.server for s in states]))

    def close(self) -> None:
        """End the workers."""
        self.agents.close()

    def _all_agents(self, threads: int, rows: int | None, dtype: torch.dtype) -> Agents:
        keys, own_keys = self._keys([m.seed for m in self.members]), self._keys(self._own_seeds())
        train = [s for m in self.members for s in m.train]
        test = [s for m in self.members for s in m.test]
        own = [m.tasks for m in self.members if m.tasks is not None]
        tasks = [task for each in own for task in each] or None
        return self._agents(
            keys, own_keys, train, test, tasks, threads=threads, rows=rows, dtype=dtype
        )

    def _agents(
        self,
        keys: Tensor,
        own_keys: Tensor,
        train: Sequence[Shard],
        test: Sequence[Shard],
        tasks: Sequence[Task] | None = None,
        *,
        threads: int,
        rows: int | None,
        dtype: torch.dtype,
    ) -> Agents:
        if rows is None and self.device.type != "cpu":
            sizes = [len(s.kind) for s in train]
            stacks = similar_sizes(sizes, most=2**31, overhead=NODES_OF_A_LAUNCH)
        else:
            step = rows or 1
            stacks = [list(range(a, min(a + step, len(train)))) for a in range(0, len(train), step)]
        return Agents(
            keys,
            own_keys,
            train,
            test,
            self.method,
            local_training(self.config, self.method, self.model, self.device),
            batch_size=self.config.batch_size,
            local_steps=self.config.local_steps,
            stacks=stacks,
            threads=threads if self.device.type == "cpu" else 1,
            federations=len(self.members),
            dtype=dtype,
            tasks=tasks,
        )

    def _keys(self, seeds: Sequence[int]) -> Tensor:
        """Return the random keys of all agents, from a seed for each federation, `(A,)`."""
        each = zip(seeds, self.members, strict=True)
        return torch.cat([stream_keys(s, m.split.names, self.device) for s, m in each])

    def _initial_rows(self, seeds: Sequence[int], dtype: torch.dtype, shared: slice) -> Tensor:
        """Return the initial weights of the agents of all federations, `(F·A, D)`."""
        each = zip(self.members, seeds, strict=True)
        return torch.cat([m.initial_rows(seed, dtype, shared) for m, seed in each]).to(self.device)

    def _own_seeds(self) -> list[int]:
        return [own_seed(m.seed) for m in self.members]

    def _server(self) -> Server:
        blocks = masked_blocks(self.method, self.model)
        seeds = torch.tensor([m.seed for m in self.members], device=self.device)
        graphs = torch.tensor([m.graphs for m in self.members], device=self.device)
        return Server(
            self.method,
            graphs[0] if self.single else graphs,
            blocks,
            [m.index for m in self.members if m.index is not None],
            self.model.hidden,
            seeds[0] if self.single else seeds,
            self._validate if self.validation else None,
            self._by_member(Members.believed),
            self._by_member(Members.graph_weights),
            self._by_member(Members.judges),
            bounded=self.method.bounded,
        )

    def _by_member(self, of: Callable[[Members], np.ndarray]) -> Tensor | None:
        """Return what follows from the members' summaries of each federation, `(..., A)`."""
        if not self.method.believes:
            return None
        made = torch.from_numpy(np.stack([of(m) for m in self.members])).to(self.device)
        return made[0] if self.single else made

    def _validate(self, f: int, weights: Tensor) -> Tensor:
        """Return how accurate models `(n, D)` are on the graphs lent in federation f, `(n,)`.

        That is the accuracy also where agents are judged by another metric.
        """
        task, lent = replace(self.model.task, metric="accuracy"), self.validation[f]
        rows = weights.to(self.initial.dtype).unsqueeze(1)
        return torch.cat([scores(task, outputs(self.model, row, lent), lent) for row in rows])
