"""What is trained on one split of a scenario: the truth, what valuations look at, and payoffs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import torch

from motifair.config import Config
from motifair.experiments.plan import Plan
from motifair.federation.belief import summarise
from motifair.federation.loop import run_rounds
from motifair.federation.members import Members, prepare
from motifair.federation.simulation import Simulation
from motifair.graphs.batch import Shard, make_shard
from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.partition import holdout
from motifair.graphs.split import Split
from motifair.graphs.task import BINARY
from motifair.learning.randomness import derive_seed
from motifair.studies.values.coalitions import Coalitions
from motifair.studies.values.observation import Observation
from motifair.studies.values.truth import Array

HELD = 0.2
OBSERVED = ("held", "updates", "gradients", "after", "lengths", "rebuilt", "retrained")


class Unseen:
    """The graphs of a split that no agent trains on, in two halves.

    Attributes:
        graphs: All of them.
        halves: Two random halves.
        nobody: The utility on each half of who knows but the frequencies of targets, `(2,)`.
    """

    def __init__(self, split: Split, members: Members, seed: int) -> None:
        numbers = np.concatenate([split.partition.global_test, *split.partition.test])
        shard, rng = _sharding(split, members), np.random.default_rng(seed)
        self.graphs = shard(numbers).graphs
        self.halves = [shard(half) for half in np.array_split(rng.permutation(numbers), 2)]
        kind = members.model.task.kind
        self.nobody = np.array([-uninformed_loss(kind, self.graphs, h.graphs) for h in self.halves])

    def utility(self, halves: Array) -> Array:
        """Return utilities on all graphs from those on each half, `(..., 2, n) -> (..., n)`."""
        size = np.array([len(half) for half in self.halves])
        utility: Array = np.einsum("...hc,h->...c", halves, size / size.sum())
        return utility


def utility_of_nobody(split: Split, members: Members, seed: int) -> Array:
    """Return the utility of the coalition without members on the unseen graphs, `()`."""
    unseen = Unseen(split, members, seed)
    utility: Array = unseen.utility(unseen.nobody[:, None])[0]
    return utility


def paid_by(config: Config, split: Split, seed: int, device: torch.device) -> Array:
    """Return what a method pays each agent in each round, `(T, A)`."""
    with closing(Simulation(config, prepare(config, split, seed=seed), device=device)) as run:
        histories = run.histories()
        run_rounds(run, run.start(), histories, eval_every=config.rounds)
    paid: Array = histories[0].columns["payoff"]
    return paid


def told(split: Split, members: Members) -> dict[str, Array]:
    """Return the numbers of graphs and what agents say of them."""
    said = [summarise(split.graphs.select(own)) for own in members.numbers]
    return {
        "graphs": np.array([len(own) for own in members.numbers], dtype=float),
        "fingerprints": np.concatenate([s.fingerprints for s in said]),
        "wiring": np.stack([s.wiring for s in said]),
    }


def train_truth(plan: Plan, split: Split, members: Members, seed: int) -> dict[str, Array]:
    """Train all coalitions twice; return their utilities `(2, 2^A)`, and those on each half of the
    unseen graphs.
    """
    unseen = Unseen(split, members, seed)
    trainings = [
        _retrained(plan, split, members, list(members.train), derive_seed(seed, purpose))
        for purpose in ("truth", "again")
    ]
    halves = np.stack([np.stack([_utility(t, h) for h in unseen.halves]) for t in trainings])
    halves[:, :, 0] = unseen.nobody
    return {"utility": unseen.utility(halves), "halves": halves}


def observe(plan: Plan, split: Split, members: Members, seed: int) -> dict[str, Array]:
    """Train all coalitions on what agents do not hold back; return their losses on what they do,
    and what there is to see in a run of federated averaging.
    """
    own, shard = derive_seed(seed, "observed"), _sharding(split, members)
    kept, held = zip(*_hold_back(split, members, seed), strict=True)
    train, judged = [shard(k) for k in kept], [shard(h) for h in held]
    stack = _retrained(plan, split, members, train, own)
    losses = np.stack([-_utility(stack, h) for h in judged], axis=1)
    known, kind = Unseen(split, members, seed).graphs, members.model.task.kind
    losses[0] = [uninformed_loss(kind, known, h.graphs) for h in judged]
    seen = Observation(
        plan.config, members.model, split.names, train, judged, seed=own, device=plan.device
    )
    made = {"retrained": losses, "held": np.array([len(h) for h in held], dtype=float)}
    return made | {name: getattr(seen, name) for name in OBSERVED if name not in made}


def uninformed_loss(kind: str, known: GraphSet, judged: GraphSet) -> float:
    """Return the loss on some graphs of who knows but the frequencies, or means, of targets."""
    if known.values is None or judged.values is None:
        frequency = np.bincount(known.target, minlength=known.classes) / len(known)
        return float(-np.log(frequency[judged.target]).mean())
    y, mean = judged.values, np.nanmean(known.values, axis=0)
    if kind == BINARY:
        probability = np.abs(1 - y - mean)  # of the answer: the mean, or 1 less it; NaN stays
        return float(np.nanmean(-np.log(probability.clip(min=1e-6))))
    return float(np.nanmean((y - mean) ** 2))


def _retrained(
    plan: Plan, split: Split, members: Members, train: list[Shard], seed: int
) -> Coalitions:
    stack = Coalitions(
        plan.config, members.model, split.names, train, seed=seed, device=plan.device
    )
    stack.run(plan.config.rounds)
    return stack


def _utility(stack: Coalitions, test: Shard) -> Array:
    utility: Array = -stack.losses(test).cpu().numpy()
    return utility


def _sharding(split: Split, members: Members) -> Callable[[Ints], Shard]:
    """Return what makes the input of the model from numbers of graphs."""
    features, model = members.features, members.model
    encoded = model.task.encode(split.graphs)

    def shard(chosen: Ints) -> Shard:
        return make_shard(encoded.select(chosen), features, None, summed=model.summed_inputs)

    return shard


def _hold_back(split: Split, members: Members, seed: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield which graphs each agent keeps for training and holds back; copies stay together."""
    for name, own in zip(split.names, members.numbers, strict=True):
        rng = np.random.default_rng(derive_seed(seed, f"held/{name}"))
        distinct, number = np.unique(own, return_inverse=True)
        kept, held = holdout(split.graphs.target[distinct], HELD, rng)
        yield own[np.isin(number, kept)], distinct[held]
