"""Runs judged by another metric than accuracy: what is printed names it, and errors are errors."""

from __future__ import annotations

import re
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import motifair
from motifair.experiments.result import Result, load_result
from motifair.experiments.tables import agents_table, comparison_table, splits_table
from motifair.report.verdicts import verdict_on_comparison, verdict_on_run

SMALL = {
    "agents": 3, "rounds": 2, "hidden": 8, "layers": 1, "partition": "iid", "test_fraction": 0.3,
    "device": "cpu", "threads": 1, "splits": 2,
}  # fmt: skip


def paths(count: int = 60) -> list[nx.Graph]:
    """Paths whose target is 100 times their number of nodes."""
    rng, made = np.random.default_rng(0), []
    for _ in range(count):
        graph = nx.path_graph(int(rng.integers(3, 9)))
        graph.graph["y"] = 100.5 * len(graph)
        made.append(graph)
    return made


@pytest.fixture(scope="module")
def comparison() -> motifair.Comparison:
    return motifair.compare(paths(), methods=["motifair", "fedavg"], **SMALL)


@pytest.fixture(scope="module")
def result(comparison: motifair.Comparison) -> Result:
    return comparison.results["motifair"]


def test_scores_are_errors_turned_and_printed_as_errors(result: Result) -> None:
    assert result.metric.words == "RMSE"
    assert result.config.task == "regression"
    split = result.splits[0]
    assert (split.accuracy < 0).all()
    assert result.mean["gain"] == pytest.approx(
        np.mean([(s.accuracy - s.alone).mean() for s in result.splits])
    )
    shown = float(re.search(r"personalised RMSE +([\d.]+)", str(result)).group(1))
    assert shown == pytest.approx(-result.mean["personalised_accuracy"], abs=1e-3)
    low, high = re.search(r"RMSE +[\d.]+ \[(-?[\d.]+), ([\d.]+)\]", str(result)).groups()
    assert float(low) < shown < float(high)


def test_nothing_that_is_printed_speaks_of_accuracy(
    result: Result, comparison: motifair.Comparison
) -> None:
    tables = [agents_table(result), splits_table(result), comparison_table(comparison)]
    texts = [str(result), *(t.to_markdown() for t in tables)]
    texts += [*verdict_on_run(result), *verdict_on_comparison(comparison)]
    for text in texts:
        assert "accurac" not in text.lower(), text
    assert any("RMSE" in text for text in verdict_on_comparison(comparison))


def test_the_best_method_is_the_one_with_the_smallest_error(
    comparison: motifair.Comparison,
) -> None:
    errors = {m: -r.mean["personalised_accuracy"] for m, r in comparison.results.items()}
    best = min(errors, key=lambda m: errors[m])
    assert f"Best by RMSE: {best} ({errors[best]:.3f}" in verdict_on_comparison(comparison)[0]


def test_a_run_is_read_again_with_its_metric_and_its_page_names_it(
    result: Result, tmp_path: Path
) -> None:
    result.save(tmp_path / "run")
    again = load_result(tmp_path / "run")
    assert again.mean == result.mean
    assert again.metric == result.metric
    page = Path(again.report(tmp_path / "report.html")).read_text()
    assert "RMSE over rounds" in page
    assert "Accuracy over rounds" not in page
    statement = again.statement("agent-00")
    assert statement.metric == "rmse"
    assert statement.accuracy == pytest.approx(again.splits[0].accuracy[0])


def test_who_is_worse_off_is_told_by_a_share_of_the_error(result: Result) -> None:
    for split in result.splits:
        lost = (split.accuracy - split.alone) < -0.05 * np.abs(split.alone)
        assert split.metrics()["worse_off"] == pytest.approx(lost.mean())


@pytest.mark.parametrize("metric", ["balanced-accuracy", "f1", "pr-auc"])
def test_classes_are_judged_by_the_metric_that_is_asked_for(metric: str) -> None:
    options = {**SMALL, "splits": 1, "test_fraction": 0.4}
    found = motifair.run("planted", method="fedavg", metric=metric, **options)
    usual = motifair.run("planted", method="fedavg", **options)
    assert found.config.metric == metric
    assert found.history["loss"].tolist() == usual.history["loss"].tolist()
    assert not np.array_equal(found.splits[0].alone, usual.splits[0].alone)
