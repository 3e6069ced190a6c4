"""Time a round of `motifair` against a naive loop and against its own matrix products.

All variants run in turn in one process, so that a noisy machine is noisy for all of them; what is
reported is the ratio of medians. PROTEINS where MOTIFAIR_DATA has it, else the embedded dataset.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from naive import NaiveFederation
from rich.console import Console
from rich.table import Table
from worlds import to_pyg

from motifair.experiments.plan import make_plan, split_data
from motifair.federation.members import prepare
from motifair.federation.simulation import Simulation
from motifair.graphs.features import motif_labels
from motifair.learning.memory import keep_freed_memory
from motifair.motifs.extract import extract_motifs

REPEATS = 12
CPU = torch.device("cpu")


def main() -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    dataset = "PROTEINS" if os.environ.get("MOTIFAIR_DATA") else "planted"
    plan = make_plan(dataset, {"agents": 10}, device="cpu", threads=1)
    split = split_data(plan, 0)
    members = prepare(plan.config, split, seed=0)
    ours = {n: Simulation(plan.config, members, device=CPU, threads=n) for n in (1, 2)}
    naive = NaiveFederation(
        [to_pyg_float(split, t) for t in split.partition.train],
        [torch.tensor(shard.motifs.T.toarray(), dtype=torch.float32) for shard in members.train],
    )
    labels = motif_labels(split.graphs, "auto")
    seconds = measure(
        {
            "naive": naive.round,
            "round": stepper(ours[1]),
            "round_two_threads": stepper(ours[2]),
            "bound": products(ours[1]),
            "motifs": lambda: extract_motifs(split.graphs, labels, rings="chordless", max_ring=4),
        }
    )
    ratios = {
        "round_vs_naive": seconds["naive"] / seconds["round"],
        "round_vs_bound": seconds["round"] / seconds["bound"],
        "threads_2_vs_1": seconds["round"] / seconds["round_two_threads"],
    }
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    report(dataset, machine, seconds, ratios)
    content = {"dataset": dataset, "machine": machine, **ratios, "seconds": seconds}
    Path("bench.json").write_text(json.dumps(content, indent=2) + "\n")


def to_pyg_float(split: object, chosen: np.ndarray) -> list:  # type: ignore[type-arg]
    graphs = to_pyg(split.graphs, chosen)  # type: ignore[attr-defined]
    for graph in graphs:
        graph.x = graph.x.float()
    return graphs


def stepper(simulation: Simulation) -> Callable[[], None]:
    """Go on by one round with every call."""
    state = [simulation.start()]

    def step() -> None:
        state[0] = simulation.round(state[0])[0]

    return step


def products(simulation: Simulation) -> Callable[[], None]:
    """Only the matrix products of a round: forward, both backward ones, the prototype pass."""
    hidden = simulation.config.hidden
    matrix = torch.randn(hidden, hidden)
    inputs = []
    for shard in simulation.members[0].train:
        kinds, nodes = shard.kinds.shape[0], len(shard.kind)
        rows = [kinds] * 2 + [nodes] * 2 * (simulation.config.layers - 1)
        inputs.append([torch.randn(n, hidden) for n in rows])

    def multiply() -> None:
        for agent in inputs:
            for x in agent:
                x @ matrix
                x @ matrix.T
                x.T @ x
                x @ matrix

    return multiply


def measure(variants: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median seconds of each variant, taken in turn."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for repeat in range(REPEATS + 2):
        for name, work in variants.items():
            started = time.perf_counter()
            work()
            if repeat >= 2:  # the first two warm up
                times[name].append(time.perf_counter() - started)
    return {name: statistics.median(t) for name, t in times.items()}


def report(dataset: str, machine: str, seconds: dict[str, float], ratios: dict[str, float]) -> None:
    console = Console(width=80)
    console.print(f"One round on {dataset}, ten agents ({machine})", highlight=False)
    table = Table()
    table.add_column("measured")
    table.add_column("value", justify="right")
    for name, value in seconds.items():
        table.add_row(name, f"{1000 * value:.1f} ms")
    for name, value in ratios.items():
        table.add_row(name, f"{value:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
