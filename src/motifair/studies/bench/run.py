"""The benchmark: measurements by device, the result file and the printed tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from motifair.errors import MotifairError
from motifair.experiments.plan import choose_device, make_plan
from motifair.files import check_target, write_atomic, write_json
from motifair.graphs.dataset import EMBEDDED
from motifair.graphs.tu import locate
from motifair.learning.process import training_process
from motifair.report.static import picture
from motifair.studies.bench.cpu import measure_cpu
from motifair.studies.bench.cuda import measure_cuda
from motifair.studies.bench.measure import environment
from motifair.studies.bench.scale import draw_scale, measure_scale
from motifair.table import Table

SPLITS, REPEATS = 20, 12
RATIOS = (
    "round_vs_naive", "round_vs_bound", "threads_2_vs_1", "batches_vs_loader", "small_vs_loader",
    "gine_vs_gin", "recorded_vs_eager", "stack_vs_one_by_one", "batches_vs_steps",
)  # fmt: skip


# One model per agent, and the equations that the naive loop also implements.
TIMED: Mapping[str, Any] = {
    "profile": "paper",
    "rings": "chordless",
    "max_ring": 4,
    "retention": 0.1,
    "reward_step": 3.0,
    "prototype_distance": "unit",
    "prototype_reduce": "mean",
}


def run_benchmark(
    out: Path,
    *,
    dataset: str | None = None,
    device: str = "auto",
    splits: int | None = None,
    repeats: int = REPEATS,
    scale: bool = False,
    data_dir: Path | None = None,
) -> dict[str, Any]:
    """Run the benchmark, write the results to `out`, and return them.

    Args:
        out: The JSON file; with `scale` also `agents.png` in the same folder.
        dataset: By default PROTEINS if it is available, else `planted`.
        device: `auto`, `cpu` or `cuda`.
        splits: Number of federations in a stack on a GPU.
        repeats: Number of timed repetitions.
        scale: Whether to time rounds with up to 1,000 agents as well, on a CPU.
        data_dir: Folder with TU datasets.
    """
    where = choose_device(device)
    _check(out, where, splits, repeats, scale)
    if dataset is None:
        dataset = EMBEDDED if locate("PROTEINS", data_dir) is None else "PROTEINS"
    plan = make_plan(dataset, TIMED, data_dir=data_dir, device=device, threads=1)
    results = {
        "dataset": plan.data.name,
        "agents": plan.config.agents,
        **environment(where),
        "repeats": repeats,
    }
    with training_process():
        if where.type == "cpu":
            results |= measure_cpu(plan, repeats)
        else:
            results |= measure_cuda(plan, splits or SPLITS, repeats)
        if scale:
            results["scale"] = measure_scale()
    if scale:
        write_atomic(out.with_name("agents.png"), picture(draw_scale(results["scale"]), "png"))
    write_json(out, results)
    return results


def show_benchmark(results: dict[str, Any], console: Console) -> None:
    """Print the results as tables."""
    machine = results["machine"]
    place = machine["gpu"] or f"{machine['cpu']}, {machine['cores']} cores"
    rounds = f"One round on {results['dataset']}, {results['agents']} agents"
    if "splits" in results:
        rounds += f", {results['splits']} federations as one stack"
    console.print(f"{rounds} ({place})", highlight=False)
    console.print(_table(results.get("methods") or {"value": results}).to_rich())
    if "scale" in results:
        rows = [
            (str(e["agents"]), _time(e["seconds"]), f"{e['per_agent_vs_first']:.2f}")
            for e in results["scale"]
        ]
        head = ("agents", "round", "per agent, vs first")
        console.print(Table(head, rows, numbers=range(3)).to_rich())


def _table(columns: dict[str, dict[str, Any]]) -> Table:
    """Give everything that was measured a row, and each method a column."""
    first = next(iter(columns.values()))
    rows = [(n, *(_time(c["seconds"][n]) for c in columns.values())) for n in first["seconds"]]
    for name in first.get("whole_run_seconds", ()):
        times = (_time(c["whole_run_seconds"][name]) for c in columns.values())
        rows.append((f"whole run, {name}", *times))
    for name in RATIOS:
        if name in first:
            rows.append((name, *(f"{c[name]:.2f}" for c in columns.values())))
    if "peak_memory_mib" in first:
        memory = (f"{c['peak_memory_mib']:.0f} MiB" for c in columns.values())
        rows.append(("peak memory", *memory))
    return Table(("measured", *columns), rows, numbers=range(1, len(columns) + 1))


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.2f} ms"


def _check(out: Path, where: torch.device, splits: int | None, repeats: int, scale: bool) -> None:
    """Raise if options conflict or `out` cannot be written."""
    if repeats < 1 or (splits is not None and splits < 1):
        raise MotifairError("--repeats and --splits take whole numbers of at least 1.")
    if where.type == "cpu" and splits is not None:
        raise MotifairError("On a CPU one federation is measured; leave --splits out.")
    if where.type != "cpu" and scale:
        raise MotifairError("--scale measures a CPU; add --device cpu.")
    check_target(out)
