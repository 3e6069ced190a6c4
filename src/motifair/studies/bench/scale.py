"""Time of a round by number of agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from motifair.experiments.plan import make_plan, split_data
from motifair.federation.members import prepare
from motifair.federation.simulation import Simulation
from motifair.graphs.dataset import EMBEDDED
from motifair.studies.bench.measure import Work, in_turn, stepper

AGENTS = (10, 30, 100, 300, 1000)
ROUNDS = 3  # a round of a thousand agents takes seconds


def measure_scale(
    counts: Sequence[int] = AGENTS, options: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Time a round on the `planted` dataset for each number of agents, with one CPU thread.

    `per_agent_vs_first` is the time per agent over that of the first entry: 1 if the time of a
    round is proportional to the number of agents.
    """
    variants = {str(n): _round(n, options or {}) for n in counts}
    seconds = in_turn(variants, ROUNDS, warm=1)
    first = seconds[str(counts[0])] / counts[0]
    return [
        {
            "agents": n,
            "seconds": seconds[str(n)],
            "per_agent_vs_first": seconds[str(n)] / n / first,
        }
        for n in counts
    ]


def draw_scale(scale: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw seconds over agents, and the line of slope 1 through the first point."""
    agents, seconds = ([entry[name] for entry in scale] for name in ("agents", "seconds"))
    figure = Figure(figsize=(6, 4), layout="constrained", dpi=110)
    axes = figure.subplots()
    expected = [seconds[0] * n / agents[0] for n in agents]
    axes.loglog(agents, expected, color="0.6", lw=0.8, ls=":", label="slope 1")
    axes.loglog(agents, seconds, color="#0072B2", marker="o", lw=1.3, label="measured")
    axes.set(title="One round of the embedded dataset", xlabel="agents", ylabel="seconds")
    axes.legend(frameon=False)
    return figure


def _round(agents: int, options: Mapping[str, Any]) -> Work:
    plan = make_plan(EMBEDDED, {**options, "agents": agents}, device="cpu", threads=1)
    members = prepare(plan.config, split_data(plan, 0), seed=plan.config.seed)
    simulation = Simulation(plan.config, members, device=plan.device)
    return stepper(simulation.round, simulation.start())
