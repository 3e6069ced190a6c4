"""The benchmark as a command: ratios with a wide margin, never times; names that stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from rich.console import Console

from motifair.cli import main
from motifair.errors import MotifairError
from motifair.experiments.plan import make_plan
from motifair.studies.bench.cpu import measure_edges
from motifair.studies.bench.cuda import measure_cuda
from motifair.studies.bench.measure import cpu_name, environment, host_seconds, in_turn
from motifair.studies.bench.run import run_benchmark, show_benchmark
from motifair.studies.bench.scale import measure_scale

SURROUNDINGS = ["dataset", "agents", "device", "machine", "torch", "tf32", "precision", "repeats"]
SMALL = {"agents": 3, "hidden": 16, "rounds": 2}


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["motifair", "bench", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


@pytest.mark.slow
def test_on_a_cpu_a_round_beats_the_naive_loop_and_is_near_its_products(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "bench.json"
    words = ["--device", "cpu", "--dataset", "planted", "--repeats", "5", "--out", str(out)]
    assert call(monkeypatch, *words, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(out.read_text())
    assert list(found) == [
        *SURROUNDINGS, "round_vs_naive", "round_vs_bound", "threads_2_vs_1", "batches_vs_loader",
        "small_vs_loader", "seconds", "peak_memory_mib",
    ]  # fmt: skip
    assert list(found["seconds"]) == [
        "naive", "round", "round_two_threads", "bound", "motifs", "batches", "batches_loader",
        "small", "small_loader",
    ]  # fmt: skip
    assert found["batches_vs_loader"] > 1
    assert found["small_vs_loader"] > 1
    assert list(found["machine"]) == ["cpu", "cores", "gpu"]
    assert found["dataset"] == "planted"
    assert found["round_vs_naive"] > 1.2
    # Products alone are never slower than a round, but both are timed, maybe beside other work.
    assert 0.7 < found["round_vs_bound"] < 6
    assert found["peak_memory_mib"] > 50


@pytest.mark.slow
def test_rounds_with_and_without_edge_labels_are_compared() -> None:
    path = nx.path_graph(4)
    nx.set_edge_attributes(path, {edge: k % 2 for k, edge in enumerate(path.edges)}, "label")
    graphs = [path.copy() for _ in range(20)]
    for k, graph in enumerate(graphs):
        graph.graph["y"] = k % 2
    plan = make_plan(graphs, {**SMALL, "agents": 2, "partition": "iid"}, device="cpu", threads=1)
    found = measure_edges(plan, 1)
    assert list(found) == ["gin", "gine"]
    assert min(found.values()) > 0


def small_stack(splits: int = 2) -> dict[str, Any]:
    """The benchmark of a GPU, on a CPU."""
    plan = make_plan("planted", SMALL, device="cpu", threads=1)
    return measure_cuda(plan, splits, repeats=1, clock=host_seconds, copied=2**16)


def test_stacks_are_compared_under_stable_names() -> None:
    found = small_stack()
    assert list(found) == ["splits", "methods"]
    assert list(found["methods"]) == ["fedavg", "motifair"]
    for method in found["methods"].values():
        assert list(method) == [
            "recorded", "recorded_vs_eager", "stack_vs_one_by_one", "round_vs_naive",
            "round_vs_bound", "seconds", "bound_bytes", "bandwidth_bytes_per_second",
            "batches_vs_steps", "whole_run_seconds",
        ]  # fmt: skip
        seconds, whole = method["seconds"], method["whole_run_seconds"]
        assert not method["recorded"]  # there is nothing to record on a CPU
        assert method["stack_vs_one_by_one"] == 2 * seconds["one"] / seconds["stack"]
        assert method["round_vs_naive"] == 2 * seconds["naive"] / seconds["stack"]
        assert seconds["bound"] * 2 * 2**16 == pytest.approx(
            method["bound_bytes"] * seconds["copy"]
        )
        assert whole["wall"] > whole["gpu"] > 0
    printed = Console(record=True, width=80)
    about = {"dataset": "planted", "agents": 3, **environment(torch.device("cpu")), "repeats": 1}
    show_benchmark(about | found, printed)
    text = printed.export_text()
    assert "2 federations as one stack" in text
    assert "whole run, wall" in text
    assert "recorded_vs_eager" in text


def test_splits_of_unequal_inputs_are_refused() -> None:
    plan = make_plan("planted", {**SMALL, "features": "degree"}, device="cpu", threads=1)
    with pytest.raises(MotifairError, match="no single stack"):
        measure_cuda(plan, 6, repeats=1, clock=host_seconds, copied=2**16)


def test_scale_is_a_list_with_a_plot_beside_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    small = lambda: measure_scale((2, 4), {"hidden": 16})  # noqa: E731
    monkeypatch.setattr("motifair.studies.bench.run.measure_scale", small)
    monkeypatch.setattr(
        "motifair.studies.bench.run.measure_cpu", lambda plan, repeats: {"seconds": {}}
    )
    monkeypatch.delenv("MOTIFAIR_DATA", raising=False)
    found = run_benchmark(tmp_path / "b.json", device="cpu", scale=True)
    assert found["dataset"] == "planted"  # where PROTEINS is not to be found
    assert [entry["agents"] for entry in found["scale"]] == [2, 4]
    assert all(list(e) == ["agents", "seconds", "per_agent_vs_first"] for e in found["scale"])
    assert found["scale"][0]["per_agent_vs_first"] == 1
    assert json.loads((tmp_path / "b.json").read_text()) == found
    assert (tmp_path / "agents.png").stat().st_size > 5_000
    show_benchmark(found, Console())
    assert "per agent" in capsys.readouterr().out


def test_variants_take_turns_and_the_first_turns_are_not_counted() -> None:
    heard: list[str] = []
    times = iter([9.0, 9.0, 1.0, 4.0, 3.0, 5.0, 2.0, 6.0])

    def clock(work: Any) -> float:
        work()
        return next(times)

    variants = {name: lambda name=name: heard.append(name) for name in "ab"}
    assert in_turn(variants, 3, clock, warm=1) == {"a": 2.0, "b": 5.0}
    assert heard == list("aabb" * 4)


def test_a_cpu_has_a_name_even_where_the_system_tells_none(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Abacus 9000\n")
    assert cpu_name(info) == "Abacus 9000"
    info.write_text("processor\t: 0\nmodel name\t:\n")
    assert cpu_name(info)
    assert cpu_name(tmp_path / "nowhere") == cpu_name(info)


MISTAKES = {
    "device": (["--device", "abacus"], "auto or cpu or cuda"),
    "no gpu": (["--device", "cuda"], "No CUDA device is available"),
    "splits": (["--device", "cpu", "--splits", "3"], "leave --splits out"),
    "no split": (["--splits", "0"], "at least 1"),
    "repeats": (["--device", "cpu", "--repeats", "0"], "at least 1"),
    "dataset": (["--device", "cpu", "--dataset", "PROTENS"], "Did you mean PROTEINS?"),
    "out": (["--device", "cpu", "--out", "nowhere/bench.json"], "in an existing folder"),
    "folder": (["--device", "cpu", "--out", "."], "in an existing folder"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_sentence_and_nothing_written(
    case: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    if case == "no gpu":
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    words, sentence = MISTAKES[case]
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *words) == 2
    printed = capsys.readouterr().err
    assert sentence in printed
    assert printed.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_on_a_gpu_agents_are_not_scaled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        "motifair.studies.bench.run.choose_device", lambda name: torch.device("cuda")
    )
    with pytest.raises(MotifairError, match="--scale measures a CPU"):
        run_benchmark(tmp_path / "b.json", device="cuda", scale=True)
