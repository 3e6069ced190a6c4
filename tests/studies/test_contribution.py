"""Contributions: the tables from the files of the runs, the images by a plain loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.container import BarContainer
from scipy.stats import pearsonr

from motifair.errors import MotifairError
from motifair.studies import contribution, images
from motifair.studies.contribution import contribution_table, draw
from motifair.studies.images import AGENTS, digits, image_contributions
from motifair.studies.study import Settings, StudyResult

CPU = torch.device("cpu")


def blobs(count: int = 300, pixels: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Something to classify that is quickly made: three clouds."""
    source = torch.Generator().manual_seed(1)
    labels = torch.randint(3, (count,), generator=source)
    noise = torch.randn(count, pixels, generator=source)
    return torch.eye(3, pixels)[labels] + noise, labels


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("contribution")


@pytest.fixture(scope="module")
def found(out: Path) -> StudyResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contribution, "digits", blobs)
        patch.setattr(contribution, "MEASURED", 2)
        chosen = Settings(
            out, splits=2, rounds=4, datasets=("planted",), device="cpu", threads=1,
            options={"hidden": 16},
        )  # fmt: skip
        return contribution.run(chosen)


def history_of(out: Path, kind: str, method: str) -> pd.DataFrame:
    return pd.read_csv(out / "runs" / f"planted-seed20000-2x4-{kind}" / method / "history.csv")


def test_shares_are_those_of_the_measured_entries(found: StudyResult, out: Path) -> None:
    table = found.tables["contribution"].set_index("what")
    assert list(table.index) == ["fedavg on planted", "motifair on planted", "fedavg on images"]
    for method in ("fedavg", "motifair"):
        rows = history_of(out, "contribution", method).dropna(subset="contribution")
        assert sorted(rows["round"].unique()) == [2, 4]
        assert rows["agent"].nunique() == AGENTS
        entries = rows["contribution"]
        row = table.loc[f"{method} on planted"]
        assert row["negative"] == pytest.approx((entries < 0).mean())
        assert row["zero"] == pytest.approx((entries == 0).mean())
        assert row["negative"] + row["zero"] + row["positive"] == pytest.approx(1)


def test_cosine_is_compared_with_shapley_over_agents(found: StudyResult, out: Path) -> None:
    rows = history_of(out, "shapley", "motifair").dropna(subset="shapley")
    by_round = rows.groupby(["split", "round"])
    correlation = by_round.apply(lambda r: pearsonr(r["alignment"], r["shapley"]).statistic)
    table = found.tables["shapley"].set_index(["measure", "rounds"])
    assert table.loc[("pearson", "all"), "mean"] == pytest.approx(correlation.mean())
    first = correlation[correlation.index.get_level_values("round") == 2].mean()
    assert table.loc[("pearson", "first third"), "mean"] == pytest.approx(first)
    exact = rows["shapley"] / by_round["shapley"].transform("sum")
    cosine = rows["alignment"] / by_round["alignment"].transform("sum")
    distance = (exact - cosine).abs().mean()
    assert table.loc[("distance", "all"), "mean"] == pytest.approx(distance)
    assert by_round["shapley"].sum().to_numpy() == pytest.approx(1)


def test_the_table_tells_harm_from_late_help() -> None:
    late = np.array([[[-1.0, 1.0, 0.0]], [[-1.0, 1.0, 0.0]]]).repeat(3, axis=1)
    late[:, 2, 0] = 4.0
    row = contribution_table({"x": late}).iloc[0]
    assert row["negative"] == pytest.approx(2 / 9)
    assert row["negative_of_nonzero"] == pytest.approx(2 / 6)
    assert row["turns_positive"] == pytest.approx(1 / 3)


def test_maps_are_drawn_with_bars_that_have_intervals(found: StudyResult) -> None:
    axes = found.figures["contribution"].axes
    assert [a.get_title() for a in axes[:3]] == list(found.tables["contribution"]["what"])
    (bars,) = (c for c in axes[3].containers if isinstance(c, BarContainer))
    assert len(bars) == 3
    assert bars.errorbar is not None
    nothing = {"x": np.zeros((2, 3, 5))}  # not a single agent made a difference
    assert draw(nothing, np.array([1, 2, 3])).axes


def test_images_are_federated_as_a_plain_loop_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "BATCH", 20)
    monkeypatch.setattr(images, "RATE", 0.03)  # so that two rounds tell agents apart
    pixels, labels = blobs()
    entries, final = image_contributions(
        pixels, labels, seeds=[7, 8], rounds=2, every=1, device=CPU
    )
    expected = naive(pixels, labels, seeds=[7, 8], which=1, rounds=2)
    assert entries.shape == (2, 2, AGENTS)
    np.testing.assert_allclose(entries[1], expected, atol=1e-6)
    assert abs(entries[1]).max() > 0
    assert (final > 1 / 3).all()


def naive(
    pixels: torch.Tensor, labels: torch.Tensor, *, seeds: list[int], which: int, rounds: int
) -> np.ndarray:
    """One federation by itself, one agent after another, with modules of torch."""
    train, test = images._shared_out(len(labels), seeds[which])
    assert len({*train.flatten().tolist(), *test.tolist()}) == train.numel() + len(test)
    initial = [p[which] for p in images._initial(pixels.shape[1], 3, seeds)]

    def network(weights: list[torch.Tensor]) -> torch.nn.Sequential:
        first = torch.nn.Linear(pixels.shape[1], images.HIDDEN)
        second = torch.nn.Linear(images.HIDDEN, 3)
        model = torch.nn.Sequential(first, torch.nn.ReLU(), second)
        set_weights(model, weights)
        return model

    def set_weights(model: torch.nn.Sequential, weights: list[torch.Tensor]) -> None:
        for p, w in zip(model.parameters(), weights, strict=True):
            p.data = w.t().clone() if w.dim() == 2 else w.clone()

    def read(model: torch.nn.Sequential) -> list[torch.Tensor]:
        return [p.data.t() if p.dim() == 2 else p.data for p in model.parameters()]

    def accuracy(weights: list[torch.Tensor]) -> float:
        return (network(weights)(pixels[test]).argmax(1) == labels[test]).double().mean().item()

    models = [network(initial) for _ in train]
    steps = [torch.optim.Adam(m.parameters(), lr=images.RATE, weight_decay=5e-4) for m in models]
    source = torch.Generator().manual_seed(seeds[0])
    server, found = initial, []
    for _ in range(rounds):
        order = torch.randperm(train.shape[1], generator=source)
        for own, model, step in zip(train, models, steps, strict=True):
            set_weights(model, server)
            for batch in own[order].split(images.BATCH):
                step.zero_grad()
                torch.nn.functional.cross_entropy(model(pixels[batch]), labels[batch]).backward()
                step.step()
        reached = [read(m) for m in models]
        means = [
            [torch.stack(parts).mean(0) for parts in zip(*chosen, strict=True)]
            for chosen in (reached, *(reached[:i] + reached[i + 1 :] for i in range(AGENTS)))
        ]
        together, *left = [accuracy(w) for w in means]
        found.append([(together - a) / a for a in left])
        server = means[0]
    return np.array(found)


def test_without_scikit_learn_a_sentence_names_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motifair.extras.find_spec", lambda name: None)
    with pytest.raises(MotifairError, match=r"needs sklearn; run pip .*'motifair\[studies\]'"):
        digits()
