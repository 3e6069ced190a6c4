"""Hyper-parameters of methods, aggregations and valuations, and components of one's own."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from worlds import simulate, small_config, small_split

import motifair
from motifair.components import Component, offered
from motifair.config import Config, option
from motifair.errors import MotifairError
from motifair.experiments.jobs import list_jobs, run_jobs
from motifair.experiments.plan import make_plan
from motifair.federation.contribution import without_each
from motifair.federation.round import serve_round
from motifair.methods import AGGREGATIONS, Method, Seen, make_method
from motifair.methods.fedprox import FedProx

PLUGIN = """
import networkx as nx
import torch
from motifair.config import option
from motifair.methods import Aggregation, Valuation


class Shortness(Valuation):
    name = "shortness"
    summary = "values agents by how short their steps are"
    power: float = option(1.0, "how much shortness counts", above=0)
    total: float = option(1.0, "what values add up to")

    def __call__(self, seen, alignment):
        short = seen.sent.norm(dim=-1) ** -self.power
        return self.total * short / short.sum()


def rings_and_paths():
    sizes = list(range(4, 24)) * 2
    rings = [nx.cycle_graph(n) for n in sizes]
    paths = [nx.path_graph(n) for n in sizes]
    for k, graphs in enumerate((rings, paths)):
        for graph in graphs:
            graph.graph["y"] = k
    return rings + paths


class Longest(Aggregation):
    name = "longest"
    summary = "the longest update alone"

    def __call__(self, updates, weights):
        return updates[updates.norm(dim=-1).argmax()]
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that offers a valuation and an aggregation."""
    (tmp_path / "short_plugin.py").write_text(PLUGIN)
    info = tmp_path / "short_plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: short-plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[motifair.valuations]\nshortness = short_plugin:Shortness\n"
        "[motifair.aggregations]\nlongest = short_plugin:Longest\n"
        "[motifair.datasets]\nrings-and-paths = short_plugin:rings_and_paths\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield
    sys.modules.pop("short_plugin", None)


def test_what_a_method_declares_is_an_option_of_the_run() -> None:
    config = Config(method="fedprox", mu="0.25")
    method = make_method(config)
    assert isinstance(method, FedProx)
    assert method.mu == 0.25
    assert config.to_json()["mu"] == 0.25
    assert Config(**config.to_json()) == config
    assert config != Config(method="fedprox")
    assert Config(method="fedprox").to_json()["mu"] == 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "fedprox", "mu": -1}, "mu must be at least 0, not -1"),
        ({"method": "fedprox", "mu": "much"}, "mu takes a number, not 'much'"),
        ({"method": "fedprox", "mus": 1}, "There is no option 'mus'. Did you mean mu"),
        ({"method": "fedavg", "mu": 1}, "There is no option 'mu'"),
        ({"aggregator": "medain"}, "There is no aggregator 'medain'. Did you mean median"),
        ({"aggregator": "trimmed-mean", "trim": 0.5}, "trim must be at least 0 and less than 0.5"),
        ({"aggregator": "median", "trim": 0.1}, "There is no option 'trim'"),
        ({"valuation": "x"}, "There is no valuation 'x'"),
    ],
)
def test_what_is_wrong_with_a_hyper_parameter_is_said_in_a_sentence(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(MotifairError, match=message):
        Config(**options)


def test_an_instance_is_its_name_and_its_options() -> None:
    by_instance = motifair.run(
        method=FedProx(mu=5.0), rounds=2, agents=4, local_epochs=2, threads=1
    )
    by_name = motifair.run(method="fedprox", mu=5.0, rounds=2, agents=4, local_epochs=2, threads=1)
    usual = motifair.run(method="fedprox", rounds=2, agents=4, local_epochs=2, threads=1)
    assert by_instance.config == by_name.config
    one, two, other = (r.splits[0].history.columns["loss"] for r in (by_instance, by_name, usual))
    assert (one == two).all()
    assert (one != other).any()


def test_a_comparison_gives_an_option_to_the_methods_that_have_it() -> None:
    results = motifair.compare(
        methods=["fedavg", FedProx(mu=2.0)], rounds=1, agents=4, threads=1
    ).results
    assert results["fedprox"].config.to_json()["mu"] == 2.0
    results = motifair.compare(
        methods="fedavg,fedprox", mu=3.0, rounds=1, agents=4, threads=1
    ).results
    assert results["fedprox"].config.to_json()["mu"] == 3.0
    with pytest.raises(MotifairError, match="None of fedavg, dw uses mu; leave it out"):
        motifair.compare(methods="fedavg,dw", mu=3.0, rounds=1, agents=4, threads=1)


def test_with_equal_values_everybody_receives_and_is_paid_the_same() -> None:
    history = motifair.run(valuation="equal", rounds=3, agents=4, threads=1).splits[0].history
    for column in ("value", "kept", "payoff"):
        values = history.columns[column]
        assert (values == values[:, :1]).all(), column
    with pytest.raises(MotifairError, match="valuation=equal does not use value_rate"):
        motifair.run(valuation="equal", value_rate=0.5, rounds=1, agents=4)


def test_options_of_components_are_options_in_configurations_sweeps_and_reports(
    tmp_path: Path,
) -> None:
    small = {"rounds": 1, "agents": 3, "hidden": 8, "threads": 1}
    result = motifair.run(Config(method="fedprox", mu=0.5), **small)
    assert result.config.value("mu") == 0.5
    report = result.report(tmp_path / "report.html")
    page = (report if isinstance(report, Path) else tmp_path / "report.html").read_text()
    assert "weight of the proximal term" in page
    grid = motifair.sweep({"mu": [0.1, 0.2]}, method="fedprox", **small)
    assert grid.to_frame()["mu"].tolist() == [0.1, 0.2]
    with pytest.raises(MotifairError, match="There is no option 'mu'"):
        motifair.sweep({"mu": [0.1, 0.2]}, method="fedavg", **small)


def test_an_option_of_every_run_cannot_be_declared_again() -> None:
    with pytest.raises(MotifairError, match="declares the option beta, which every run has"):

        class Mine(Component):
            name = "mine"
            summary = ""
            beta: float = option(1.0, "again")


@pytest.mark.parametrize("aggregator", [a for a in AGGREGATIONS.built_in if a != "mean"])
def test_leaving_one_out_is_what_the_aggregation_gives_without_it(aggregator: str) -> None:
    config = small_config(method="fedavg", rounds=1, agents=5, aggregator=aggregator)
    simulation, states, _ = simulate(config, small_split(config))
    state = states[0]
    _, uploads = simulation.agents.train(state.agents, torch.tensor(1), None, None)
    without, _ = without_each(simulation.server, state.server, uploads)
    for k in range(5):
        present = torch.arange(5) != k
        alone, _, _ = serve_round(simulation.server, state.server, uploads, present)
        assert torch.allclose(without[k], alone.weights, atol=1e-7)


@pytest.mark.slow
def test_a_robust_aggregation_withstands_what_ruins_the_mean() -> None:
    class Loud(Method):
        """FedAvg in which the first agent sends a thousand times its update, reversed."""

        name = "loud"
        summary = "one agent shouts"

        def prepare(self, updates: Tensor) -> Tensor:
            loud = torch.ones(len(updates), 1, dtype=updates.dtype)
            loud[0] = -1000
            return updates * loud

    def reached(aggregator: str) -> float:
        settings = {"method": Loud, "aggregator": aggregator, "learning_rate": 0.005}
        plan = make_plan("planted", {**settings, "rounds": 80, "eval_every": 80}, threads=1)
        jobs = [job for job in list_jobs(plan, None, None) if job.part == "method"]  # nobody alone
        finished, _ = run_jobs(plan, jobs, None, lambda: False)
        return float(finished[0, "method"].history.global_accuracy[-1])

    assert reached("mean") < 0.65
    assert reached("multi-krum") > 0.75


@pytest.mark.usefixtures("installed")
def test_an_installed_package_brings_a_valuation_and_an_aggregation() -> None:
    result = motifair.run(
        valuation="shortness", power=3, aggregator="longest", rounds=2, agents=4, threads=1
    )
    history = result.splits[0].history.columns
    order = history["update_norm"][-1].argsort()
    assert (history["value"][-1][order][:-1] >= history["value"][-1][order][1:]).all()
    assert result.config.to_json()["power"] == 3.0
    with pytest.raises(
        MotifairError,
        match=r"Method 'motifair' returned values that add up to 2 in round 1; `valuate` must",
    ):
        motifair.run(valuation="shortness", total=2, rounds=2, agents=4, threads=1)


def test_entry_points_are_read_once_for_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("motifair.components.entry_points", lambda group: asked.append(group))
    for _ in range(3):
        offered("motifair.nothing")
    assert asked == ["motifair.nothing"]
    monkeypatch.syspath_prepend(str(tmp_path))
    offered("motifair.nothing")
    assert len(asked) == 2


@pytest.mark.usefixtures("installed")
def test_an_installed_package_brings_a_dataset() -> None:
    result = motifair.run("rings-and-paths", rounds=1, agents=2, partition="iid", threads=1)
    assert sum(result.splits[0].graphs) > 0
    assert result.config.dataset == "rings-and-paths"
    with pytest.raises(MotifairError, match="rings-and-path"):
        motifair.run("rings-and-path", rounds=1, agents=2)


def test_a_settlement_of_three_parts_is_refused() -> None:
    class Three(Method):
        name = "three"
        summary = "pays in three parts"

        def settle(self, seen: Seen, value: Tensor) -> tuple[Tensor, Tensor]:
            return value, value, value  # type: ignore[return-value]

    with pytest.raises(MotifairError, match="'three' returned 3 results from `settle`"):
        motifair.run(method=Three, rounds=1, agents=4, threads=1)
