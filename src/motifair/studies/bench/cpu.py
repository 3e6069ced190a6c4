"""Time of a round on a CPU, compared with a naive loop, its matrix products, and two threads."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from motifair.experiments.plan import Plan, split_data
from motifair.federation.members import prepare
from motifair.federation.simulation import Simulation
from motifair.graphs.features import motif_labels, resolve_features
from motifair.motifs.extract import extract_motifs
from motifair.studies.bench.bound import products
from motifair.studies.bench.measure import in_turn, peak_memory_mib, stepper
from motifair.studies.bench.naive import naive_federation


def measure_cpu(plan: Plan, repeats: int) -> dict[str, Any]:
    """Time a round on the first split of a plan; all but `round_two_threads` use one thread.

    `round_vs_naive` is the time of a round of the naive loop over ours, `round_vs_bound` the time
    of our round over that of its matrix products, `threads_2_vs_1` the speed-up by a second thread.
    """
    config, split = plan.config, split_data(plan, 0)
    labels = motif_labels(split.graphs, resolve_features(split.graphs, config.features))
    members = prepare(config, split, seed=config.seed)
    one, two = (Simulation(config, members, device=plan.device, threads=n) for n in (1, 2))
    with closing(two):
        seconds = in_turn(
            {
                "naive": naive_federation(config, members, plan.device).round,
                "round": stepper(one.round, one.start()),
                "round_two_threads": stepper(two.round, two.start()),
                "bound": products(config, members),
                "motifs": lambda: extract_motifs(
                    split.graphs, labels, rings=config.rings, max_ring=config.max_ring
                ),
            },
            repeats,
        )
    return {
        "round_vs_naive": seconds["naive"] / seconds["round"],
        "round_vs_bound": seconds["round"] / seconds["bound"],
        "threads_2_vs_1": seconds["round"] / seconds["round_two_threads"],
        "seconds": seconds,
        "peak_memory_mib": peak_memory_mib(),
    }
