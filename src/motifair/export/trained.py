"""The final models of a split of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from motifair.experiments.plan import Plan, split_data
from motifair.federation.history import History
from motifair.federation.members import Members, prepare
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState
from motifair.methods import make_method

SERVER = "server"


@dataclass(frozen=True)
class Model:
    """A final model: its agent, weights `(D,)` and accuracy.

    `own` is the model that the agent trained alone, and its share in the predictions.
    """

    agent: str
    weights: Tensor
    accuracy: float
    own: tuple[Tensor, float] | None = None


@dataclass(frozen=True)
class TrainedSplit:
    """One split of a finished run: every agent's model, and the server's if there is one."""

    plan: Plan
    number: int
    state: FederationState
    history: History

    @cached_property
    def members(self) -> Members:
        """The agents and their graphs."""
        seed = self.plan.config.seed + self.number
        return prepare(self.plan.config, split_data(self.plan, self.number), seed=seed)

    @cached_property
    def _simulation(self) -> Simulation:
        return Simulation(self.plan.config, self.members, device=self.state.agents.weights.device)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the agents, and `server` if the method has a global model."""
        everybody = make_method(self.plan.config).global_model and not self.members.parts
        server = (SERVER,) if everybody else ()
        return (*self.history.names, *server)

    def models(self) -> Iterator[Model]:
        """Yield the models in the order of `names`."""
        for name in self.names:
            yield self.model(name)

    def model(self, name: str) -> Model:
        """Return the model of an agent or of the server, by name."""
        agents = self.state.agents
        self.members.model.layout.check(agents.weights)
        if name == SERVER:
            weights = self._simulation.global_weights(self.state)[0]
            return Model(name, weights, float(self.history.global_accuracy[-1]))
        a, own = self.history.names.index(name), None
        whole, layout = self.members.model.layout, self.own(name).model.layout
        if agents.own is not None:
            weight = self._simulation.agents.own_weights(agents)[a]
            own = whole.fit(agents.own.weights[a], layout), float(weight)
        accuracy = float(self.history.columns["accuracy"][-1, a])
        return Model(name, whole.fit(agents.weights[a], layout), accuracy, own)

    def own(self, name: str) -> Members:
        """Return the members with inputs and classes as those of an agent, or of the server."""
        if name == SERVER:
            return self.members
        return self.members.own(self.history.names.index(name))

    def card(self, model: Model) -> dict[str, Any]:
        """Return the card of a model: how it was trained, and its accuracy."""
        config = self.plan.config
        return {
            "method": config.method,
            "rounds": config.rounds,
            "classes": list(self.own(model.agent).split.graphs.class_values),
            "dataset": config.dataset,
            "seed": config.seed + self.number,
            "agent": model.agent,
            "accuracy": model.accuracy,
            "metric": config.metric,
        }
