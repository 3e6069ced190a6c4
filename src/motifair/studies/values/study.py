"""Are those paid who contribute? Valuations and payoffs against the truth by retraining.

Truth, observations and the methods that are compared have different seeds: they share the graphs
and nothing else. All train with one step a round on all graphs of an agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
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
from motifair.studies.intervals import CORRELATION, with_interval
from motifair.studies.study import Settings, Study, StudyResult
from motifair.studies.values.coalitions import Coalitions
from motifair.studies.values.figures import SHOWN, nearness, pay_against_truth
from motifair.studies.values.measures import OTHER_TEST, OTHER_TRUTHS, RELIABILITY, measured
from motifair.studies.values.observation import Observation
from motifair.studies.values.truth import Array
from motifair.studies.values.valuations import VALUATIONS, Facts

# Fixed in docs/results/seeds.toml before any valuation was tried on them.
CONFIRMATION = 400_000
DATASETS = (
    "PROTEINS", "IMDB-BINARY", "DD", "Mutagenicity", "IMDB-MULTI", "AIDS", "BZR", "planted",
)  # fmt: skip
SCENARIOS = (
    "iid", "sizes", "dirichlet", "rewired", "label-noise", "inverted", "duplicates", "twins",
    "exclusive-structure", "exclusive-class", "free-riders",
)  # fmt: skip
MOST_SPLITS = 10
SPLITS = {"DD": 3}
TRAINED = {"agents": 6, "learning_rate": 0.002, "batch_size": 100_000}
ROUNDS = 100
HELD = 0.2
KEYS = ["dataset", "valuation", "scenario"]
BY_DATASET = (
    RELIABILITY,
    OTHER_TEST,
    "pay of motifair",
    "pay of motifair, batches",
    "pay of motifair 0.1",
    "size",
    "retrained, Shapley",
)
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


def run(settings: Settings) -> StudyResult:
    """Compare valuations and payoffs with Shapley values by retraining, in every scenario."""
    rows: list[pd.DataFrame] = []
    utilities: list[pd.DataFrame] = []
    for dataset in settings.datasets or DATASETS:
        for scenario in SCENARIOS:
            if scenario == "exclusive-class" and _classes(settings, dataset) < 3:
                continue  # with two classes nobody else would have anything to learn
            splits = min(SPLITS.get(dataset, MOST_SPLITS), settings.splits or MOST_SPLITS)
            made, games = scenario_rows(settings, dataset, scenario, splits)
            rows.append(made)
            utilities.append(games)
    return describe(pd.concat(rows, ignore_index=True), pd.concat(utilities, ignore_index=True))


def _classes(settings: Settings, dataset: str) -> int:
    plan = settings.plan(dataset, seed=CONFIRMATION, splits=1, method="fedavg", **TRAINED)
    return plan.data.graphs.classes


def describe(table: pd.DataFrame, utilities: pd.DataFrame) -> StudyResult:
    """Return the result of the study from its rows."""
    each = table.drop_duplicates(["dataset", "scenario", "split", "valuation"])
    columns = [
        "dataset", "scenario", "split", "valuation", "rank", *OTHER_TRUTHS, "l1", "spread",
        "largest_most",
    ]  # fmt: skip
    rows = summary(each)
    return StudyResult(
        title="Who contributes is who is paid: valuations against the truth by retraining",
        tables={
            "summary": rows,
            "scenarios": ranks(each, ["valuation", "scenario"]),
            "datasets": ranks(each[each["valuation"].isin(BY_DATASET)], KEYS),
        },
        figures={"nearness": nearness(rows), "pay": pay_against_truth(table)},
        notes=NOTES,
        raw={
            "splits": each[columns],
            "agents": table[table["valuation"].isin(SHOWN)].drop(columns=columns[4:]),
            "utilities": utilities,
        },
        across={"scenarios": "scenario", "datasets": "scenario"},
    )


NOTES = (
    "Truth is the Shapley value of −(mean cross-entropy) of federated averaging retrained in every "
    "coalition, on clean test graphs of nobody; mean of two trainings, whose rank correlation is "
    "the reliability. With other test graphs in the second training (each on half of them) they "
    "agree less: what no valuation can know is which graphs are drawn for the test. Rank "
    "correlations are means over splits, with their 95 % intervals.",
    "Valuations look at one run of federated averaging with other random numbers, and at a fifth "
    "of the training graphs that agents hold back; payoffs are those of whole methods.",
)


def scenario_rows(
    settings: Settings, dataset: str, scenario: str, splits: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a row for each split, agent and valuation, and the utilities of all coalitions."""
    options = {"eval_every": ROUNDS, "rounds": min(ROUNDS, settings.rounds), **TRAINED}
    plan = partial(
        settings.plan, dataset, seed=CONFIRMATION, splits=splits, scenario=scenario, **options
    )
    base = plan(method="fedavg")
    methods = {name: plan(**how).config for name, how in METHODS.items()}
    runs = settings.out / "runs" / f"values-{dataset}-{scenario}-{base.config.rounds}"
    runs.mkdir(parents=True, exist_ok=True)
    rows, games = [], []
    for k in range(splits):
        roles, arrays = _split(settings, base, methods, k, runs / f"split-{k:03d}.npz")
        values = {name: value(_facts(arrays, k)) for name, value in VALUATIONS.items()}
        values |= {name: arrays[name] for name in map(_pay, METHODS)}
        about = {"dataset": dataset, "scenario": scenario, "split": k}
        utility = arrays["utility"]
        rows.append(measured(about, roles, arrays["graphs"], utility, values, arrays["halves"]))
        games.append(pd.DataFrame({**about, **_columns(arrays["utility"])}))
    return pd.concat(rows, ignore_index=True), pd.concat(games, ignore_index=True)


def _columns(utility: Array) -> dict[str, Array]:
    first, second = utility
    return {"coalition": np.arange(len(first)), "utility": first, "utility_again": second}


def _facts(arrays: Mapping[str, Array], seed: int) -> Facts:
    prints = np.split(arrays["fingerprints"], np.cumsum(arrays["graphs"]).astype(int)[:-1])
    summaries = [GraphSummary(f, w) for f, w in zip(prints, arrays["wiring"], strict=True)]
    names = ("graphs", "held", "updates", "gradients", "after", "lengths", "rebuilt", "retrained")
    return Facts(**{n: arrays[n] for n in names}, summaries=tuple(summaries), seed=seed)


def _pay(method: str) -> str:
    return f"pay of {method}"


def _split(
    settings: Settings, plan: Plan, methods: Mapping[str, Config], number: int, path: Path
) -> tuple[tuple[str, ...], dict[str, Array]]:
    """Return roles and everything that is trained on one split, stored by `path`."""
    split = split_data(plan, number)
    digest = np.array([c.digest() for c in (plan.config, *methods.values())])
    if path.exists():
        with np.load(path) as stored:
            arrays = dict(stored)
        if arrays.pop("digest").tolist() == digest.tolist():
            return split.roles, arrays
    if settings.stop():
        raise Stopped
    seed = plan.config.seed + number
    members = prepare(plan.config, split, seed=seed)
    with training_process():
        arrays = _trained(plan, split, members, seed)
        for name, config in methods.items():
            arrays[_pay(name)] = _paid(config, split, seed, plan.device)
    write_atomic(path, lambda temporary: _save(temporary, {**arrays, "digest": digest}))
    return split.roles, arrays


def _paid(config: Config, split: Split, seed: int, device: torch.device) -> Array:
    """Return what a method pays each agent in a whole run, `(A,)`."""
    with closing(Simulation(config, prepare(config, split, seed=seed), device=device)) as run:
        histories = run.histories()
        run_rounds(run, run.start(), histories, eval_every=config.rounds)
    paid: Array = histories[0].columns["payoff"].sum(axis=0)
    return paid


def _save(path: Path, arrays: Mapping[str, Array]) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _trained(plan: Plan, split: Split, members: Members, seed: int) -> dict[str, Array]:
    """Train all coalitions twice for the truth, and once more on what agents do not hold back."""
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
    kept, held = zip(*_hold_back(split, members, seed), strict=True)
    train, judged = [shard(k) for k in kept], [shard(h) for h in held]
    again = retrained(train, "observed")
    losses = np.stack([again.losses(h).cpu().numpy() for h in judged], axis=1)
    losses[0] = [uninformed_loss(model.task.kind, test.graphs, h.graphs) for h in judged]
    seen = Observation(
        plan.config, model, split.names, train, judged, seed=derive_seed(seed, "observed"),
        device=device,
    )  # fmt: skip
    said = [summarise(graphs.select(own)) for own in members.numbers]
    recorded = ("updates", "gradients", "after", "lengths", "rebuilt")
    return {
        "utility": utility,
        "halves": divided,
        "retrained": losses,
        "graphs": np.array([len(own) for own in members.numbers], dtype=float),
        "held": np.array([len(h) for h in held], dtype=float),
        "fingerprints": np.concatenate([s.fingerprints for s in said]),
        "wiring": np.stack([s.wiring for s in said]),
        **{name: getattr(seen, name) for name in recorded},
    }


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


def ranks(each: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the rank correlation with truth, its mean over splits, by some keys."""
    return pd.DataFrame(
        {
            **dict(zip(keys, key, strict=True)),
            **with_interval("rank", part["rank"], CORRELATION),
        }
        for key, part in each.groupby(keys, sort=False)
    )


def summary(each: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each valuation.

    The mean rank correlation, the mean in the worst dataset and scenario, in how many it is
    negative, the mean with other truths, the distance of shares from the truth, and how they
    spread where all agents are alike.
    """
    rows = []
    for name, part in each.groupby("valuation", sort=False):
        cells = part.groupby(["dataset", "scenario"])["rank"].mean()
        rows.append(
            {
                "valuation": name,
                **with_interval("rank", part["rank"], CORRELATION),
                "worst": float(cells.min()),
                "negative": f"{(cells < 0).sum()} of {len(cells)}",
                **{f"with {truth}": float(part[truth].mean()) for truth in OTHER_TRUTHS},
                "L1": float(part["l1"].mean()),
                "spread (iid)": float(part[part["scenario"] == "iid"]["spread"].mean()),
                "largest has most": float(part[part["scenario"] == "sizes"]["largest_most"].mean()),
            }
        )
    return pd.DataFrame(rows)


STUDY = Study("values", "valuations and payoffs against Shapley values by retraining", run)
