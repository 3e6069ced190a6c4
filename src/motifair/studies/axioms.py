"""Axioms of fair pay, tried on random federations under several valuations.

A graph stands for a direction in which it moves a model, and a member's update is the mean over its
graphs: training without its noise, so that a violation is the rule's and not that of a draw. What a
member trains alone, for its peers to judge, is the mean over all rounds; it does well on a graph as
far as it points the way that the graph does. Rounds are served, bounded and settled as between
machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, softplus

from motifair.config import make_config
from motifair.experiments.plan import make_plan, split_data
from motifair.federation.history import History
from motifair.federation.loop import run_rounds
from motifair.federation.members import prepare
from motifair.federation.protocol import Judgement, Uploads
from motifair.federation.round import serve_round
from motifair.federation.server import Server
from motifair.federation.simulation import Simulation
from motifair.graphs.split import Split
from motifair.mechanism.bounds import MAX_SIZE_RATIO, capped_sizes, too_long, too_short
from motifair.mechanism.trust import distinct_graphs, judging
from motifair.methods import make_method
from motifair.motifs.vocabulary import MotifIndex
from motifair.studies.attacks.graphs import renumbered
from motifair.studies.dishonest import settled
from motifair.studies.study import Settings, Study, StudyResult
from motifair.studies.values.study import EARLIER

SEED = 170_000
TRIED = 100  # random federations for each axiom and rule
TRIED_GRAPHS = 20  # of those with real graphs, which are trained on
TOLERANCE = 1e-9  # of a round's budget; values are rounded to 1e-12
ROUNDS, KEYS = 5, 8
SIZE = 1000  # parameters: with a few, updates agree by chance as those of no real model do
STEEPNESS = 4.0  # of the logistic loss by how a model and a graph point the same way

# Prototypes need models, and change no value by themselves.
_EARLIER = {name: value for name, value in EARLIER.items() if "prototype" not in name}
RULES: Mapping[str, Mapping[str, Any]] = {
    "paper": {"profile": "paper", "prototype_weight": 0},
    "0.1": {"profile": "paper", **_EARLIER, "own_weight": 0, "prototype_weight": 0},
    "default": {"own_weight": 0, "prototype_weight": 0},
}


@dataclass(frozen=True)
class World:
    """Graphs and who holds them.

    Attributes:
        moves: How far each graph moves the model in each round, `(graphs, rounds, D)`.
        same: Number of each graph; copies have the same one.
        key: The motif of each graph.
        held: The graphs of each member.
    """

    moves: np.ndarray
    same: np.ndarray
    key: np.ndarray
    held: tuple[np.ndarray, ...]

    def copies_of(self, graphs: np.ndarray, *, same: bool) -> tuple[World, np.ndarray]:
        """Add copies of graphs, which are the `same` or new ones; return their numbers, too."""
        places = np.concatenate([np.arange(len(self.same)), graphs])
        number = self.same[places]
        if not same:
            number[len(self.same) :] = self.same.max() + 1 + np.arange(len(graphs))
        more = replace(
            self,
            moves=self.moves[places],
            same=number,
            key=self.key[places],
        )
        return more, np.arange(len(self.same), len(places))

    def with_held(self, member: int, *graphs: np.ndarray) -> World:
        """Give a member other graphs; further ones go to new members."""
        held = list(self.held)
        held[member] = graphs[0]
        return replace(self, held=(*held, *graphs[1:]))


def draw(rng: np.random.Generator) -> World:
    """Draw three to six members with four to twelve graphs each, which have something in common."""
    counts = rng.integers(4, 13, size=rng.integers(3, 7))
    total = counts.sum()
    common = rng.choice([0.3, 1.0, 3.0]) * rng.standard_normal((ROUNDS, SIZE))
    return World(
        moves=common + rng.standard_normal((total, ROUNDS, SIZE)),
        same=np.arange(total),
        key=rng.integers(KEYS, size=total),
        held=tuple(np.split(np.arange(total), np.cumsum(counts)[:-1])),
    )


def paid(
    options: Mapping[str, Any], world: World, sent: Callable[[int, Tensor], Tensor] | None = None
) -> np.ndarray:
    """Return what each member is paid in each round of a budget of 1, `(rounds, members)`.

    `sent(member, update)` changes what a member sends, also of the model that it trains alone.
    """
    config = make_config({**options, "agents": len(world.held), "rounds": ROUNDS})
    method = make_method(config)
    counts = torch.tensor([len(own) for own in world.held])
    graphs = capped_sizes(counts, MAX_SIZE_RATIO)
    believed = judges = None
    if method.believes:
        numbers = [world.same[own] for own in world.held]
        distinct, judges = distinct_graphs(numbers), torch.from_numpy(judging(numbers))
        believed = torch.minimum(torch.from_numpy(distinct), graphs)
    keys = [sorted({f"motif {k}" for k in world.key[own]}) for own in world.held]
    server = Server(
        method,
        graphs,
        (SIZE,),
        [MotifIndex.of(keys)],
        config.hidden,
        torch.tensor(0),
        believed=believed,
        judges=judges,
        bounded=True,
    )
    sent = sent or (lambda member, update: update)
    initial = torch.zeros(SIZE, dtype=torch.float64)
    judgement = judged(world, sent) if method.trial_rounds else None
    state, rounds = server.start(initial, None, judgement), []
    for t in range(ROUNDS):
        update = torch.stack([torch.tensor(world.moves[own, t].mean(axis=0)) for own in world.held])
        update = torch.stack([sent(k, row) for k, row in enumerate(update)])
        none = torch.zeros(len(update))
        gradient = -update if method.uses_gradients else None
        uploads = Uploads(update, gradient, update.norm(dim=1), None, none)
        length = update.norm(dim=1)
        present = ~(too_long(length, method.steps(graphs)) | too_short(length))
        state, _, record = serve_round(server, state, uploads, None if present.all() else present)
        rounds.append(settled(record, present, config.budget).numpy())
    return np.stack(rounds)


def judged(world: World, sent: Callable[[int, Tensor], Tensor]) -> Judgement:
    """Return what members say of the models that their peers trained alone, honestly."""
    moves = torch.from_numpy(world.moves.mean(axis=1))
    alone = torch.stack([sent(k, moves[own].mean(dim=0)) for k, own in enumerate(world.held)])
    nearness = cosine_similarity(alone[:, None], moves[None], dim=-1)  # (members, graphs)
    said = [nearness[:, own] for own in world.held]
    told = torch.stack([near.mean(dim=1) for near in said], dim=1)
    loss = torch.stack([softplus(-STEEPNESS * near).mean(dim=1) for near in said], dim=1)
    nobody = torch.eye(len(world.held), dtype=torch.bool)  # judges itself
    return Judgement(loss.masked_fill(nobody, torch.nan), told.masked_fill(nobody, torch.nan))


def total(options: Mapping[str, Any], world: World) -> np.ndarray:
    """Return each member's mean pay a round, `(members,)`."""
    mean: np.ndarray = paid(options, world).mean(axis=0)
    return mean


# Axioms: each returns by how much of a round's budget a random federation violates it.


def budget_balance(options: Mapping[str, Any], rng: np.random.Generator) -> float:
    """Payments of a round add up to its budget."""
    return float(np.abs(paid(options, draw(rng)).sum(axis=1) - 1).max())


def null_member(options: Mapping[str, Any], rng: np.random.Generator) -> float:
    """A member that sends nothing is paid nothing."""
    pay = paid(options, draw(rng), lambda k, row: 0 * row if k == 0 else row)
    return float(np.abs(pay[:, 0]).max())


def noise_unpaid(options: Mapping[str, Any], rng: np.random.Generator) -> float:
    """A member that sends noise is paid nothing."""
    noise = torch.from_numpy(rng.standard_normal(SIZE))

    def sent(k: int, row: Tensor) -> Tensor:
        return noise * row.norm() / noise.norm() if k == 0 else row

    return max(0.0, float(paid(options, draw(rng), sent)[:, 0].mean()))


def symmetry(options: Mapping[str, Any], rng: np.random.Generator) -> float:
    """Two members with graphs that do the same are paid the same."""
    world = draw(rng)
    more, twins = world.copies_of(world.held[0], same=False)
    pay = total(options, more.with_held(1, twins))
    return float(abs(pay[0] - pay[1]))


def monotony(options: Mapping[str, Any], rng: np.random.Generator) -> float:
    """A member with more graphs of the same kind is not paid less."""
    world = draw(rng)
    more, new = world.copies_of(world.held[0], same=False)
    larger = more.with_held(0, np.concatenate([world.held[0], new]))
    return max(0.0, float(total(options, world)[0] - total(options, larger)[0]))


def no_gain_splitting(options: Mapping[str, Any], rng: np.random.Generator) -> float:
    """A member gains nothing by joining under two names with a part of its graphs each."""
    world = draw(rng)
    own = rng.permutation(world.held[0])
    return _gain(options, world, world.with_held(0, own[::2], own[1::2]))


def no_gain_two_names(options: Mapping[str, Any], rng: np.random.Generator) -> float:
    """A member gains nothing by joining under two names with the same graphs."""
    world = draw(rng)
    return _gain(options, world, world.with_held(0, world.held[0], world.held[0]))


def no_gain_duplicating(options: Mapping[str, Any], rng: np.random.Generator) -> float:
    """A member gains nothing by having each graph twice."""
    world = draw(rng)
    more, twice = world.copies_of(world.held[0], same=True)
    return _gain(options, world, more.with_held(0, np.concatenate([world.held[0], twice])))


def no_gain_renumbering(options: Mapping[str, Any], rng: np.random.Generator) -> float:
    """A member gains nothing by numbering the nodes of its graphs anew (real graphs, trained)."""
    small = {"agents": 4, "rounds": 2, "hidden": 8, "partition": "iid", "dropout": 0, **options}
    plan = make_plan("planted", {**small, "seed": int(rng.integers(2**20)), "test_fraction": 0.8})
    split = split_data(plan, 0)

    def pay(split: Split) -> float:
        members = prepare(plan.config, split, seed=plan.config.seed)
        simulation = Simulation(
            plan.config, members, device=torch.device("cpu"), dtype=torch.float64
        )
        history = History(split.names, plan.config.rounds)
        run_rounds(simulation, simulation.start(), [history], eval_every=plan.config.rounds)
        return float(history.columns["payoff"][:, 0].mean())

    return max(0.0, pay(renumbered(split, 0, rng)) - pay(split))


def _gain(options: Mapping[str, Any], honest: World, changed: World) -> float:
    """Return what the first member, and members that were added, are paid more than it was."""
    names = [0, *range(len(honest.held), len(changed.held))]
    return max(0.0, float(total(options, changed)[names].sum() - total(options, honest)[0]))


Axiom = Callable[[Mapping[str, Any], np.random.Generator], float]
AXIOMS: Sequence[Axiom] = (
    budget_balance,
    null_member,
    noise_unpaid,
    symmetry,
    monotony,
    no_gain_splitting,
    no_gain_two_names,
    no_gain_duplicating,
    no_gain_renumbering,
)


def run(settings: Settings) -> StudyResult:
    """Try every axiom under every rule on random federations."""
    rows = []
    for axiom in AXIOMS:
        real = axiom is no_gain_renumbering
        tried = settings.splits or (TRIED_GRAPHS if real else TRIED)
        for rule, options in RULES.items():
            found = [axiom(options, np.random.default_rng(SEED + k)) for k in range(tried)]
            worst = int(np.argmax(found))
            rows.append(
                {
                    "axiom": axiom.__name__.replace("_", " "),
                    "rule": rule,
                    "holds": "yes" if found[worst] <= TOLERANCE else "no",
                    "largest": found[worst],
                    "violated": float(np.mean([x > TOLERANCE for x in found])),
                    "tried": tried,
                    "seed": SEED + worst,
                }
            )
    meanings = [f"{a.__name__.replace('_', ' ')}: {(a.__doc__ or '').rstrip('.')}" for a in AXIOMS]
    notes = [
        "`largest` is the largest violation, as a share of a round's budget, in as many random "
        "federations as `tried`, `violated` the share of them with any beyond 1e-9, `seed` that of "
        "the worst; case k has seed "
        f"{SEED} + k. No case is a proof that an axiom holds; one is a proof that it does not.",
        "; ".join(meanings) + ".",
    ]
    return StudyResult("Axioms of fair pay", {"axioms": pd.DataFrame(rows)}, notes=notes)


STUDY = Study("axioms", "axioms of fair pay, tried on random federations", run)
