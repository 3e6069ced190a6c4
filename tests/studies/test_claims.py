"""The claims: each number computed again from files, graph by graph where it must be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file
from scipy.stats import spearmanr

from motifair.experiments.comparison import Comparison
from motifair.experiments.plan import split_data
from motifair.experiments.result import load_result
from motifair.federation.members import Members, prepare
from motifair.federation.simulation import Simulation
from motifair.graphs.graph_set import GraphSet
from motifair.motifs.extract import extract_motifs
from motifair.studies import claims
from motifair.studies.intervals import verdict
from motifair.studies.prototype_attack import (
    CLASS,
    PENALTIES,
    SIZE,
    attack,
    best_penalty,
    embeddings,
    own_motifs,
    ridge,
)
from motifair.studies.study import CONFIRMATION, Settings

FOLDER = "planted-seed20000-2x4-claims"


def settings(out: Path) -> Settings:
    return Settings(
        out, splits=2, rounds=4, datasets=("planted",), device="cpu", threads=1,
        options={"agents": 4, "hidden": 16, "learning_rate": 0.02},
    )  # fmt: skip


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("claims")


@pytest.fixture(scope="module")
def table(out: Path) -> pd.DataFrame:
    return claims.run(settings(out)).tables["claims"].set_index("measured")


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Members:
    plan = settings(tmp_path_factory.mktemp("m")).plan(
        "planted", seed=CONFIRMATION, splits=2, method="motifair"
    )
    return prepare(plan.config, split_data(plan, 1), seed=CONFIRMATION + 1)


def history_of(out: Path, method: str) -> pd.DataFrame:
    return pd.read_csv(out / "runs" / FOLDER / method / "history.csv")


def test_lateness_is_correlated_with_diversity(table: pd.DataFrame, out: Path) -> None:
    ours, plain = history_of(out, "motifair"), history_of(out, "fedavg")
    for name, column, rows in (
        ("contribution under fedavg", "contribution", plain),
        ("value under motifair", "value", ours),
    ):
        found = []
        for k in range(2):
            diversity = ours[(ours.split == k) & (ours["round"] == 1)]["diversity"].to_numpy()
            wide = rows[rows.split == k].pivot(index="round", columns="agent", values=column)
            rise = wide.loc[3:4].mean() - wide.loc[1:2].mean()
            if rise.std() > 0 and np.std(diversity) > 0:
                found.append(spearmanr(diversity, rise).statistic)
        row = table.loc[f"correlation of {claims.OUR_DIVERSITY} with rise of {name}"]
        assert row["splits"] == len(found)
        assert row["mean"] == pytest.approx(np.mean(found) if found else np.nan, nan_ok=True)


def test_the_papers_diversity_is_the_share_of_all_motifs_that_an_agent_holds(out: Path) -> None:
    plan = settings(out).plan(
        "planted", seed=CONFIRMATION, splits=2, method="motifair", profile="paper",
        vocabulary_fraction=1.0,
    )  # fmt: skip
    split = split_data(plan, 1)
    graphs = split.graphs
    assert graphs.node_label is not None
    counted = extract_motifs(graphs, graphs.node_label, rings="basis", max_ring=0)
    held = [set(counted.counts[own].indices) for own in split.partition.train]
    expected = [len(h) / len(set().union(*held)) for h in held]
    assert claims.paper_diversity(plan, 1).tolist() == pytest.approx(expected)


@pytest.mark.usefixtures("table")
def test_the_lift_is_that_of_the_lowest_third(out: Path) -> None:
    names = ("motifair", "motifair-prototypes")
    results = {m: load_result(out / "runs" / FOLDER / m) for m in names}
    rng, lowest, beyond = np.random.default_rng(0), [], []
    for having, lacking in zip(*(results[m].splits for m in names), strict=True):
        gain = rng.normal(size=4)  # four rounds are too few for any
        lacking.history.columns["accuracy"] = np.full((1, 4), 0.5)
        having.history.columns["accuracy"] = 0.5 + gain[None]
        low = lacking.history.columns["value"].mean(axis=0).argmin()  # a third of four is one
        lowest.append(gain[low])
        beyond.append(gain[low] - gain[np.arange(4) != low].mean())
    rows = claims.lift_rows(Comparison(results, "motifair"))
    assert [r["mean"] for r in rows] == pytest.approx([np.mean(lowest), np.mean(beyond)])


def test_distances_are_those_of_the_final_models(table: pd.DataFrame, out: Path) -> None:
    def apart(method: str, k: int) -> float:
        path = out / "runs" / FOLDER / method / "checkpoint" / f"split-{k:03d}-method.safetensors"
        w = load_file(path)["agents.weights"].astype(float)
        return float(np.mean([np.linalg.norm(w[i] - w[j]) for i in range(4) for j in range(i)]))

    found = [apart("motifair", k) - apart("motifair-diversity", k) for k in range(2)]
    row = table.loc["mean distance of two agents' weights, with minus without"]
    assert row["mean"] == pytest.approx(np.mean(found), abs=1e-9)


def test_losses_that_fall_are_counted(table: pd.DataFrame, out: Path) -> None:
    rows = history_of(out, "motifair").sort_values(["split", "agent", "round"])
    steps = rows.groupby(["split", "agent"])["loss"].diff().dropna()
    row = table.loc["share of rounds in which it falls"]
    assert row["mean"] == pytest.approx((steps < 0).mean())
    assert row["verdict"] != "-"


def test_prototypes_are_what_agents_upload(members: Members) -> None:
    plan_free = Simulation(_config(), members, device=torch.device("cpu"))
    state = plan_free.start()
    local, own = embeddings(members, state.agents.weights)
    expected = plan_free.agents.prototypes(state.agents)
    np.testing.assert_allclose(local, expected, atol=1e-5)
    assert own.shape == (4, len(members.global_test), 16)


def test_the_truth_is_counted_graph_by_graph(members: Members) -> None:
    weights = Simulation(_config(), members, device=torch.device("cpu")).start().agents.weights
    found = attack(_config(), members, weights)
    assert members.index is not None
    truth: dict[str, list[float]] = {SIZE: [], CLASS: []}
    for agent, shard in enumerate(members.train):
        held = [single_motifs(shard.graphs, g) for g in range(len(shard))]
        for entry in np.flatnonzero(members.index.agent == agent):
            key = members.index.keys[members.index.motif[entry]]
            having = [g for g, motifs in enumerate(held) if key in motifs]
            truth[SIZE].append(shard.graphs.nodes[having].mean())
            truth[CLASS].append((shard.graphs.target[having] == 1).mean())
    for secret, values in truth.items():
        np.testing.assert_allclose(found[secret].truth, values)
    known = own_motifs(_config(), members).toarray()
    for g in range(0, len(members.global_test), 7):
        theirs = single_motifs(members.global_test.graphs, g)
        assert [k in theirs for k in members.index.keys] == known[g].tolist()


def single_motifs(graphs: GraphSet, g: int) -> set[str]:
    one = graphs.select([g])
    assert one.node_label is not None
    return set(extract_motifs(one, one.node_label, rings="chordless", max_ring=4).keys)


def test_sizes_can_be_read_off_prototypes(members: Members) -> None:
    """Sum pooling gives the size away: even untrained models embed twice the graph twice as far."""
    weights = Simulation(_config(), members, device=torch.device("cpu")).start().agents.weights
    size = attack(_config(), members, weights)[SIZE]
    expected = (
        1 - ((size.attack - size.truth) ** 2).sum() / ((size.without - size.truth) ** 2).sum()
    )
    assert size.gained == pytest.approx(expected)
    assert size.gained > 0.5
    assert size.r2[0] > size.r2[1]


def test_what_does_not_help_is_not_used() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 50)), rng.normal(size=60)
    guess = ridge(x, y)
    assert abs(guess(x)[0] - y.mean()) < 0.5 * abs(y[0] - y.mean())
    constant = np.hstack([x, np.ones((60, 1))])
    np.testing.assert_allclose(ridge(constant, x[:, 0])(constant), x[:, 0], atol=0.05)


def test_the_penalty_is_that_of_generalised_cross_validation() -> None:
    """Against the definition, with the hat matrix written out."""
    rng = np.random.default_rng(1)
    x, noise = rng.normal(size=(40, 12)), rng.normal(size=40)
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    chosen = []
    for strength in (0.01, 3.0, 30.0):
        y = x[:, 0] + strength * noise
        scores = []
        for penalty in PENALTIES:
            inner = np.linalg.inv(scaled.T @ scaled + penalty * np.eye(12))
            hat = scaled @ inner @ scaled.T + 1 / 40
            scores.append(((y - hat @ y) ** 2).mean() / (1 - np.trace(hat) / 40) ** 2)
        assert best_penalty(x, y) == PENALTIES[np.argmin(scores)]
        chosen.append(best_penalty(x, y))
    assert len(set(chosen)) > 1


def test_verdicts_need_the_whole_interval() -> None:
    assert verdict(0.1, 0.2, above=0.0) == "holds"
    assert verdict(-0.2, -0.1, above=0.0) == "does not"
    assert verdict(-0.1, 0.2, above=0.0) == "cannot be told"
    assert verdict(np.nan, np.nan, above=0.0) == "cannot be told"
    assert verdict(0.2, 0.3, below=0.1) == "does not"


def _config():  # type: ignore[no-untyped-def]
    from motifair.config import make_config

    return make_config({"agents": 4, "hidden": 16, "method": "motifair", "partition": "domains"})
