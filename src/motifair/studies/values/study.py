"""Are those paid who contribute? Valuations and payoffs against the truth by retraining.

Truth, observations and the methods that are compared have different seeds: they share the graphs
and nothing else. All train with one step a round on all graphs of an agent. Valuations that are not
paid by are computed on the first splits alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from motifair.config import Config
from motifair.experiments.plan import Plan, split_data
from motifair.federation.belief import GraphSummary, summarise
from motifair.federation.loop import Stopped, run_rounds
from motifair.federation.members import Members, prepare
from motifair.federation.simulation import Simulation
from motifair.files import write_atomic
from motifair.graphs.batch import Shard, make_shard
from motifair.graphs.graph_set import GraphSet, Ints
from motifair.graphs.partition import holdout
from motifair.graphs.split import Split
from motifair.graphs.task import BINARY
from motifair.learning.process import training_process
from motifair.learning.randomness import derive_seed
from motifair.studies.processes import ahead
from motifair.studies.study import Settings, Study, StudyResult
from motifair.studies.values.coalitions import Coalitions
from motifair.studies.values.figures import SHOWN, by_scenario, nearness, pay_against_truth
from motifair.studies.values.measures import OTHER_TEST, OTHER_TRUTHS, RELIABILITY, measured
from motifair.studies.values.observation import Observation
from motifair.studies.values.tables import (
    inverted_pay,
    inverted_table,
    ranks,
    roles_table,
    summary,
)
from motifair.studies.values.truth import Array
from motifair.studies.values.valuations import VALUATIONS, Facts

# Fixed in docs/results/seeds.toml before any valuation was tried on them.
CONFIRMATION = 500_000
DATASETS = (
    "PROTEINS", "IMDB-BINARY", "DD", "Mutagenicity", "IMDB-MULTI", "AIDS", "BZR", "planted",
)  # fmt: skip
SCENARIOS = (
    "iid", "sizes", "dirichlet", "rewired", "label-noise", "inverted", "duplicates", "twins",
    "exclusive-structure", "exclusive-class", "free-riders",
)  # fmt: skip
MOST_SPLITS = 10
SPLITS = {"DD": 2}
COMPLETE = 3  # splits of a scenario with all valuations and payoffs; others have `ALWAYS`
TRAINED = {"agents": 6, "learning_rate": 0.002, "batch_size": 100_000}
ROUNDS = 100
HELD = 0.2
KEYS = ["dataset", "valuation", "scenario"]
# Payoffs of whole methods, beside valuations of a run of federated averaging.
EARLIER: Mapping[str, Any] = {
    "rings": "chordless", "max_ring": 4, "chance": True, "vocabulary_fraction": 1.0,
    "alignment_against": "peers-by-value", "alignment_rate": 0.1, "corroboration": 2,
    "evidence": "judged", "value_guard": True, "diversity_weight": 8.0, "aggregation": "trusted",
    "aggregate_length": "typical", "own_weight": 0.48, "prototype_distance": "unit",
    "prototype_reduce": "mean",
}  # fmt: skip
METHODS: Mapping[str, Mapping[str, Any]] = {
    "motifair": {"method": "motifair"},
    "motifair, batches": {"method": "motifair", "batch_size": 128},  # as users train
    "motifair 0.1": {"method": "motifair", "profile": "paper", **EARLIER},
    "paper": {"method": "motifair", "profile": "paper"},
}
ALWAYS = ("motifair", "motifair, batches")
ON_ALL = (RELIABILITY, OTHER_TEST, "size", *(f"pay of {name}" for name in ALWAYS))
OBSERVED = ("held", "updates", "gradients", "after", "lengths", "rebuilt", "retrained")


def run(settings: Settings) -> StudyResult:
    """Compare valuations and payoffs with Shapley values by retraining, in every scenario."""
    cells = [
        (dataset, scenario)
        for dataset in settings.datasets or DATASETS
        for scenario in SCENARIOS
        # With two classes nobody else would have anything to learn.
        if scenario != "exclusive-class" or _classes(settings, dataset) > 2
    ]
    splits = {d: min(SPLITS.get(d, MOST_SPLITS), settings.splits or MOST_SPLITS) for d, _ in cells}
    # All scenarios have a split before any has them all.
    pieces = [(*cell, k) for k in range(max(splits.values())) for cell in cells]
    ahead(settings, compute, [piece for piece in pieces if piece[2] < splits[piece[0]]])
    made = [scenario_rows(settings, *cell, splits[cell[0]]) for cell in cells]
    return describe(*(pd.concat(part, ignore_index=True) for part in zip(*made, strict=True)))


def compute(settings: Settings, piece: tuple[str, str, int]) -> None:
    """Train what one split of a scenario needs, for its file."""
    dataset, scenario, number = piece
    Cell(settings, dataset, scenario, number + 1).split(number)


def _classes(settings: Settings, dataset: str) -> int:
    plan = settings.plan(dataset, seed=CONFIRMATION, splits=1, method="fedavg", **TRAINED)
    return plan.data.graphs.classes


def describe(table: pd.DataFrame, paid: pd.DataFrame, utilities: pd.DataFrame) -> StudyResult:
    """Return the result of the study from its rows."""
    each = table.drop_duplicates(["dataset", "scenario", "split", "valuation"])
    columns = [
        "dataset", "scenario", "split", "valuation", "rank", *OTHER_TRUTHS, "l1", "spread",
        "largest_most",
    ]  # fmt: skip
    complete, on_all = each[each["split"] < COMPLETE], each[each["valuation"].isin(ON_ALL)]
    rows, scenarios = summary(complete), ranks(on_all, ["valuation", "scenario"])
    return StudyResult(
        title="Who contributes is who is paid: valuations against the truth by retraining",
        tables={
            "summary": rows,
            "scenarios": ranks(complete, ["valuation", "scenario"]),
            "all-splits": summary(on_all),
            "all-scenarios": scenarios,
            "all-datasets": ranks(on_all, KEYS),
            "roles": roles_table(table[table["valuation"] == SHOWN[0]]),
            "inverted": inverted_table(paid),
        },
        figures={
            "nearness": nearness(rows),
            "by-scenario": by_scenario(scenarios),
            "pay": pay_against_truth(table),
        },
        notes=NOTES,
        raw={
            "splits": each[columns],
            "agents": table[table["valuation"].isin(SHOWN)].drop(columns=columns[4:]),
            "utilities": utilities,
        },
        across={"scenarios": "scenario", "all-scenarios": "scenario", "all-datasets": "scenario"},
    )


NOTES = (
    "Truth is the Shapley value of −(mean cross-entropy) of federated averaging retrained in every "
    "coalition, on clean test graphs of nobody; mean of two trainings, whose rank correlation is "
    "the reliability. With other test graphs in the second training (each on half of them) they "
    "agree less: what no valuation can know is which graphs are drawn for the test. Rank "
    "correlations are means over splits, with their 95 % intervals.",
    "Valuations look at one run of federated averaging with other random numbers, and at a fifth "
    "of the training graphs that agents hold back; payoffs are those of whole methods.",
    f"`summary` and `scenarios` have the first {COMPLETE} splits of each dataset and scenario, on "
    "which every valuation was computed, the tables of all splits those that are computed on all. "
    "`roles` is what the members of a role are paid of the whole, and are worth. `inverted`: in "
    "how many splits the members with inverted labels have been paid least after 20 rounds, and "
    "are paid nothing, or fined, in round 40 and in the last.",
)


class Cell:
    """One scenario of one dataset: its plans, and the files of its splits."""

    def __init__(self, settings: Settings, dataset: str, scenario: str, splits: int) -> None:
        options = {"eval_every": ROUNDS, "rounds": min(ROUNDS, settings.rounds), **TRAINED}
        plan = partial(
            replace(settings, splits=splits).plan,
            dataset, seed=CONFIRMATION, splits=splits, scenario=scenario, **options,
        )  # fmt: skip
        self.settings, self.base = settings, plan(method="fedavg")
        self.methods = {name: plan(**how).config for name, how in METHODS.items()}
        name = f"values-{dataset}-{scenario}-{self.base.config.rounds}"
        self.folder = settings.out / "runs" / name

    def split(self, number: int) -> tuple[tuple[str, ...], dict[str, Array]]:
        """Return roles and everything that is trained on one split, stored in its file."""
        complete = number < COMPLETE
        methods = {n: c for n, c in self.methods.items() if complete or n in ALWAYS}
        path = self.folder / f"split-{number:03d}.npz"
        split, seed = split_data(self.base, number), self.base.config.seed + number
        digest = _digest([self.base.config, *methods.values()])
        if path.exists():
            with np.load(path) as stored:
                arrays = dict(stored)
            if arrays.pop("digest").tolist() == digest.tolist():
                return split.roles, arrays
        if self.settings.stop():
            raise Stopped
        members = prepare(self.base.config, split, seed=seed)
        with training_process():
            arrays = _trained(self.base, split, members, seed, complete=complete)
            for name, config in methods.items():
                paid = _paid(config, split, seed, self.base.device)
                arrays[_pay(name)] = paid.sum(axis=0)
                if name == "motifair":
                    arrays["paid"] = paid
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, lambda temporary: _save(temporary, {**arrays, "digest": digest}))
        return split.roles, arrays


def _digest(configs: Sequence[Config]) -> Array:
    """Return hashes of what is trained, whatever the number of splits that were asked for."""
    return np.array([replace(c, splits=1).digest() for c in configs])


def scenario_rows(
    settings: Settings, dataset: str, scenario: str, splits: int
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return a row for each split, agent and valuation; what each agent with inverted labels is
    paid, beside the others; and the utilities of all coalitions.
    """
    cell = Cell(settings, dataset, scenario, splits)
    rows, paid, games = [], [], []
    for k in range(splits):
        roles, arrays = cell.split(k)
        facts = _facts(arrays, k)
        known = VALUATIONS if k < COMPLETE else {"size": VALUATIONS["size"]}
        values = {name: value(facts) for name, value in known.items()}
        values |= {name: arrays[name] for name in map(_pay, METHODS) if name in arrays}
        about = {"dataset": dataset, "scenario": scenario, "split": k}
        utility = arrays["utility"]
        rows.append(measured(about, roles, arrays["graphs"], utility, values, arrays["halves"]))
        paid.append(pd.DataFrame({**about, **inverted_pay(roles, arrays["paid"])}, index=[0]))
        games.append(pd.DataFrame({**about, **_columns(arrays["utility"])}))
    made = [pd.concat(part, ignore_index=True) for part in (rows, paid, games)]
    return made[0], made[1], made[2]


def _columns(utility: Array) -> dict[str, Array]:
    first, second = utility
    return {"coalition": np.arange(len(first)), "utility": first, "utility_again": second}


def _facts(arrays: Mapping[str, Array], seed: int) -> Facts:
    prints = np.split(arrays["fingerprints"], np.cumsum(arrays["graphs"]).astype(int)[:-1])
    summaries = [GraphSummary(f, w) for f, w in zip(prints, arrays["wiring"], strict=True)]
    nothing = np.zeros(0)
    observed = {name: arrays.get(name, nothing) for name in OBSERVED}
    return Facts(arrays["graphs"], **observed, summaries=tuple(summaries), seed=seed)


def _pay(method: str) -> str:
    return f"pay of {method}"


def _paid(config: Config, split: Split, seed: int, device: torch.device) -> Array:
    """Return what a method pays each agent in each round, `(T, A)`."""
    with closing(Simulation(config, prepare(config, split, seed=seed), device=device)) as run:
        histories = run.histories()
        run_rounds(run, run.start(), histories, eval_every=config.rounds)
    paid: Array = histories[0].columns["payoff"]
    return paid


def _save(path: Path, arrays: Mapping[str, Array]) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _trained(
    plan: Plan, split: Split, members: Members, seed: int, *, complete: bool
) -> dict[str, Array]:
    """Train all coalitions twice for the truth and, if `complete`, once more on what agents do not
    hold back, with a run that valuations look at.
    """
    graphs, model, device = split.graphs, members.model, plan.device
    features, encoded = members.features, model.task.encode(graphs)

    def shard(chosen: Ints) -> Shard:
        return make_shard(encoded.select(chosen), features, None, summed=model.summed_inputs)

    def retrained(train: list[Shard], purpose: str) -> Coalitions:
        stack = Coalitions(
            plan.config, model, split.names, train, seed=derive_seed(seed, purpose), device=device
        )
        stack.run(plan.config.rounds)
        return stack

    unseen = np.concatenate([split.partition.global_test, *split.partition.test])
    test = shard(unseen)
    halves = [shard(h) for h in np.array_split(np.random.default_rng(seed).permutation(unseen), 2)]
    trainings = [retrained(list(members.train), p) for p in ("truth", "again")]
    divided = np.stack([np.stack([-t.losses(h).cpu().numpy() for h in halves]) for t in trainings])
    divided[:, :, 0] = [-uninformed_loss(model.task.kind, test.graphs, h.graphs) for h in halves]
    size = np.array([len(h) for h in halves])
    utility = np.einsum("thc,h->tc", divided, size / size.sum())
    said = [summarise(graphs.select(own)) for own in members.numbers]
    made = {
        "utility": utility,
        "halves": divided,
        "graphs": np.array([len(own) for own in members.numbers], dtype=float),
        "fingerprints": np.concatenate([s.fingerprints for s in said]),
        "wiring": np.stack([s.wiring for s in said]),
    }
    if not complete:
        return made
    kept, held = zip(*_hold_back(split, members, seed), strict=True)
    train, judged = [shard(k) for k in kept], [shard(h) for h in held]
    again = retrained(train, "observed")
    losses = np.stack([again.losses(h).cpu().numpy() for h in judged], axis=1)
    losses[0] = [uninformed_loss(model.task.kind, test.graphs, h.graphs) for h in judged]
    seen = Observation(
        plan.config, model, split.names, train, judged, seed=derive_seed(seed, "observed"),
        device=device,
    )  # fmt: skip
    made |= {"retrained": losses, "held": np.array([len(h) for h in held], dtype=float)}
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


def _hold_back(split: Split, members: Members, seed: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield which graphs each agent keeps for training and holds back; copies stay together."""
    for name, own in zip(split.names, members.numbers, strict=True):
        rng = np.random.default_rng(derive_seed(seed, f"held/{name}"))
        distinct, number = np.unique(own, return_inverse=True)
        kept, held = holdout(split.graphs.target[distinct], HELD, rng)
        yield own[np.isin(number, kept)], distinct[held]


STUDY = Study(
    "values", "valuations and payoffs against Shapley values by retraining", run, in_pieces=True
)
