"""What a method is: a few hooks, each with the answer of federated averaging as default."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from motifair.components import Component
from motifair.config import OPTIONS, Config
from motifair.graphs.task import BINARY, Task
from motifair.learning.objective import Term, supervised
from motifair.mechanism.aggregation import size_weights
from motifair.methods.aggregations import AGGREGATIONS, Aggregation, Mean
from motifair.models import GIN, GINE, Model, StackedModel

Memory = dict[str, Tensor]


@dataclass(frozen=True)
class Judge:
    """How accurate a server's model is on validation graphs with each of some updates added.

    Attributes:
        accuracy: Function of the number of a federation and of models `(n, D)`, which returns the
            accuracy of each on the graphs lent in that federation, `(n,)`.
        weights: The servers' models, `(..., D)`.
        federation: The federation of these weights, unless they are of a stack.
    """

    accuracy: Callable[[int, Tensor], Tensor]
    weights: Tensor
    federation: int = 0

    def __call__(self, updates: Tensor) -> Tensor:
        """Return the accuracy with each update, `(..., A, D) -> (..., A)`."""
        if self.weights.dim() == 1:
            return self.accuracy(self.federation, self.weights + updates)
        return torch.stack([self.of(f)(own) for f, own in enumerate(updates)])

    def of(self, f: int) -> Judge:
        """Return the judge of one federation of a stack."""
        return replace(self, weights=self.weights[f], federation=f)


@dataclass(frozen=True)
class Seen:
    """What the server knows when it values a round, agents in order of name, in float64.

    Attributes:
        updates: As the method prepared them, `(A, D)`.
        sent: As they were uploaded, `(A, D)`.
        gradients: Mean raw gradients `(A, D)`; None unless the method uses them.
        gradient_norm: Norm of each agent's last raw gradient, `(A,)`.
        graphs: Number of training graphs, `(A,)`.
        believed: As many of them as count, `(A,)`: all, unless the method uses `size=believed`.
        worth: What they are worth to the others, in graphs, `(A,)`: more where an agent alone has
            a class, and as its peers judged the model it trained alone.
        diversity: Motif diversity, `(A,)`; NaN for a method without motifs.
        value: After the previous round, `(A,)`.
        alignment: After the previous round, `(A,)`; NaN where there is none yet.
        earlier_mean: Mean of all earlier values, `(A,)`.
        rounds: Rounds done, a tensor without axes.
        seed: The federation's, for methods that draw random numbers.
        memory: What `remember` returned.
        judge: Accuracy of the server's model with each of some updates added, `(A, D) -> (A,)`;
            None unless agents lend the server graphs to validate with.

    Methods that are `stacked` see several federations: everything has one more axis in front.
    """

    updates: Tensor
    sent: Tensor
    gradients: Tensor | None
    gradient_norm: Tensor
    graphs: Tensor
    believed: Tensor
    worth: Tensor
    diversity: Tensor
    value: Tensor
    alignment: Tensor
    earlier_mean: Tensor
    rounds: Tensor
    seed: Tensor
    memory: Memory = field(default_factory=dict)
    judge: Judge | None = None

    def each(self) -> Iterator[Seen]:
        """Yield what is seen of each federation of a stack."""
        for f in range(len(self.graphs)):
            parts = {k.name: getattr(self, k.name) for k in fields(self)}
            own = {k: v[f] for k, v in parts.items() if isinstance(v, Tensor) and v.dim() > 0}
            memory = {k: v[f] for k, v in self.memory.items()}
            judge = None if self.judge is None else self.judge.of(f)
            yield replace(self, **own, memory=memory, judge=judge)


class Method(Component):
    """Hooks that a round calls; as they stand, federated averaging.

    A subclass overrides what it does differently, and declares hyper-parameters of its own as
    attributes made by `option`. `options` names the options of the configuration beyond data,
    model and training that the method reads; a user who sets another one gets an error.

    A class that says `stacked = True` of itself (it is not inherited) takes tensors with an axis of
    federations in front and decides nothing on the host: on a GPU all splits then are one stack,
    and a round is recorded once and replayed. Others are called split by split.
    """

    options: ClassVar[frozenset[str]] = frozenset({"share", "budget", "contribution", "aggregator"})
    model: ClassVar[type[StackedModel]] = GIN
    global_model: ClassVar[bool] = True
    uses_motifs: ClassVar[bool] = False
    mask_up: ClassVar[bool] = False  # whether the number of kept components is rounded up
    validation: ClassVar[float] = 0.0  # share of its training graphs each agent lends the server
    returning: ClassVar[str] = (
        "server"  # the model that an agent continues from after absence, or "own"
    )

    aggregation: Aggregation = field(init=False, repr=False)

    def bind(self, config: Config) -> Self:
        """Return the same method for a run with this configuration, its parts included."""
        bound = super().bind(config)
        bound.aggregation = AGGREGATIONS.make(config.aggregator, config)
        return bound

    def takes_stacks(self) -> bool:
        """Whether the class itself and all its parts say that they are `stacked`."""
        return self.declares_stacked() and self.aggregation.declares_stacked()

    @property
    def deployable(self) -> bool:
        """Whether it runs between machines, where agents may be absent: there is a model of all,
        and the method remembers nothing by agent and borrows no graphs.
        """
        forgets = type(self).remember is Method.remember
        return forgets and self.global_model and not self.validation

    @property
    def pays_by_value(self) -> bool:
        """Whether agents are paid by their value; else all get the same."""
        return "payoff" in self.options and self.config.payoff == "paper"

    def chosen(self, option: str) -> Any:
        """Return an option as it is set if the method reads it, else as profile `paper` has it."""
        return self.config.value(option) if option in self.options else OPTIONS[option].default

    @property
    def share(self) -> str:
        """Which parameters are exchanged: `all`, `conv`, `structure` or `none`."""
        return self.config.share

    @property
    def mask_scope(self) -> str:
        """Whether rewards are masked over the whole update (`global`) or tensor by tensor."""
        return str(self.chosen("mask_scope"))

    @property
    def mask_by_length(self) -> bool:
        """Whether a reward is a share of the update's length, not of its components."""
        return bool(self.chosen("mask_by") == "length")

    @property
    def uses_prototypes(self) -> bool:
        """Whether motif prototypes are exchanged."""
        return False

    @property
    def uses_gradients(self) -> bool:
        """Whether raw gradients are uploaded with the updates."""
        return False

    @property
    def trial_rounds(self) -> int:
        """Rounds that agents train their own models before the first, for their peers to judge."""
        return 0

    @property
    def believes(self) -> bool:
        """Whether graphs count only as far as they are distinct, and wired unlike chance."""
        return bool(self.chosen("size") == "believed")

    @property
    def bounded(self) -> bool:
        """Whether a simulated server bounds updates; published methods take them as they are.

        The server of a deployed federation always does.
        """
        return bool(self.chosen("bounded"))

    @property
    def own_weight(self) -> float:
        """The share, in what an agent predicts, of a model that it also trains alone (η)."""
        return float(self.chosen("own_weight"))

    @property
    def own_prior(self) -> float:
        """Graphs that `own_weight` counts for where agents choose that share on held-back ones."""
        return float(self.chosen("own_prior"))

    def shares_moments(self, task: Task) -> bool:
        """Whether agents make the second moments of their optimisers common, unit by unit."""
        chosen = self.chosen("moments")
        return bool(chosen == "common" or (chosen == "auto" and task.kind == BINARY))

    @property
    def reward_step(self) -> float:
        """The step along the reward (s), for agents and server alike."""
        return float(self.chosen("reward_step"))

    @classmethod
    def reads_edges(cls) -> bool:
        """Whether its network can read edge labels: that is GIN, in place of which GINE does, or
        a module of the user.
        """
        return cls.model is GIN

    def network(self, width: int, edges: int, task: Task) -> Model:
        """Return the network for nodes with `width` inputs and `edges` edge labels, 0 for none."""
        if self.config.model:
            from motifair.models.module import ModuleModel  # importing PyG takes seconds

            named = {n: getattr(self.config, n) for n in ("hidden", "layers", "dropout")}
            given = {"width": width, "outputs": task.outputs, "edges": edges, **named}
            return ModuleModel(self.config.model, given, task, self.config.seed)
        sizes = width, task.outputs, self.config.hidden, self.config.layers
        return GINE(*sizes, edges, task=task) if edges else self.model(*sizes, task=task)

    def terms(self, shared: slice) -> tuple[Term, ...]:
        """Return the terms of the local objective; `shared` is the exchanged part of a row."""
        return (supervised,)

    def limit(self, updates: Tensor) -> Tensor:
        """Return agents' updates as they keep and send them, `(A, D) -> (A, D)`.

        A `stacked` method gets the agents of all federations one after another.
        """
        return updates

    def remember(self, seen: Seen) -> Memory:
        """Return what the method keeps until the next round.

        Tensors, which are checkpointed; their shapes are the same after every round.
        """
        return seen.memory

    def prepare(self, updates: Tensor) -> Tensor:
        """Return the updates as they are aggregated and valued, `(A, D) -> (A, D)`."""
        return updates

    def weigh(self, seen: Seen) -> Tensor:
        """Return the weight of each agent's update in the sum, `(A,)`; or `(A, A)`, where row i
        weighs the updates in the sum that agent i receives.
        """
        return size_weights(seen.graphs)

    def steps(self, graphs: Tensor) -> Tensor:
        """Return how many steps of the optimiser agents with so many graphs take in a round."""
        c = self.config
        batches = (graphs / c.batch_size).ceil()
        return c.local_epochs * (batches.clamp(max=c.local_steps) if c.local_steps else batches)

    def aggregate(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Return the weighted sum of updates `(A, D)`: `(D,)`, or `(A, D)` for weights `(A, A)`."""
        return self.aggregation(updates, weights)

    @property
    def adds_up(self) -> bool:
        """Whether `aggregate` is the weighted sum, from which one agent can be subtracted."""
        return type(self).aggregate is Method.aggregate and isinstance(self.aggregation, Mean)

    def lengthen(self, update: Tensor, seen: Seen, weights: Tensor) -> Tensor:
        """Return the sum of the updates as the server and the agents move by it."""
        return update

    def align(self, seen: Seen, weights: Tensor) -> Tensor:
        """Return φ, `(A,)`; NaN where the method has none."""
        return torch.full_like(seen.value, torch.nan)

    def valuate(self, seen: Seen, alignment: Tensor) -> Tensor:
        """Return the agents' values after this round, `(A,)`, adding up to 1."""
        return seen.value

    def ratio(self, seen: Seen, value: Tensor) -> Tensor:
        """Return the share of the global update's components each agent receives, `(A,)`."""
        return torch.ones_like(value)

    def adjust(self, seen: Seen, value: Tensor, reward: Tensor) -> Tensor:
        """Return the rewards as they are sent, `(A, D) -> (A, D)`."""
        return reward

    def retain(self, seen: Seen, kept: Tensor) -> Tensor:
        """Return the share of its own step that each agent keeps (κ), `(A,)`.

        Agents that receive nothing go on from where they trained to.
        """
        return (kept == 0).double()

    def settle(self, seen: Seen, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return payoffs and compensations, `(A,)` each; payoffs add up to the budget at most."""
        equal = torch.full_like(value, self.config.budget / value.shape[-1])
        return equal, torch.zeros_like(value)
