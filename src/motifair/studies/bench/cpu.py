"""Time of a round on a CPU, compared with a naive loop, its matrix products, and two threads."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

from motifair.experiments.plan import Plan, split_data
from motifair.federation.members import prepare
from motifair.federation.simulation import Simulation
from motifair.graphs.features import motif_labels, resolve_features
from motifair.motifs.extract import extract_motifs
from motifair.studies.bench.bound import products
from motifair.studies.bench.measure import (
    Work,
    in_turn,
    peak_memory_mib,
    stepper,
    with_first_graphs,
)
from motifair.studies.bench.naive import naive_federation

BATCH, FEW = 32, 17  # graphs of a batch; graphs of a small agent, as ten agents of MUTAG have


def measure_cpu(plan: Plan, repeats: int) -> dict[str, Any]:
    """Time a round on the first split of a plan; all but `round_two_threads` use one thread.

    `round_vs_naive` is the time of a round of the naive loop over ours, `round_vs_bound` the time
    of our round over that of its matrix products, `threads_2_vs_1` the speed-up by a second thread.
    `batches_vs_loader` and `small_vs_loader` are those of `measure_loaded`, `gine_vs_gin`, where
    edges have labels, the time of a round that reads them over one that does not.
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
    loaded = measure_loaded(plan, repeats)
    edges = {} if split.graphs.edge_label is None else measure_edges(plan, repeats)
    return {
        "round_vs_naive": seconds["naive"] / seconds["round"],
        "round_vs_bound": seconds["round"] / seconds["bound"],
        "threads_2_vs_1": seconds["round"] / seconds["round_two_threads"],
        "batches_vs_loader": loaded["batches_loader"] / loaded["batches"],
        "small_vs_loader": loaded["small_loader"] / loaded["small"],
        **({"gine_vs_gin": edges["gine"] / edges["gin"]} if edges else {}),
        "seconds": seconds | loaded | edges,
        "peak_memory_mib": peak_memory_mib(),
    }


def measure_loaded(plan: Plan, repeats: int) -> dict[str, float]:
    """Time rounds of federated averaging against a PyG loop that loads its batches anew.

    `batches` are agents with more graphs than a batch has, `small` are agents with few graphs.
    """
    config = replace(plan.config, method="fedavg", batch_size=BATCH)
    members = prepare(config, split_data(plan, 0), seed=config.seed)
    variants: dict[str, Work] = {}
    for name, held in (("batches", members), ("small", with_first_graphs(members, FEW))):
        ours = Simulation(config, held, device=plan.device)
        variants[name] = stepper(ours.round, ours.start())
        naive = naive_federation(config, held, plan.device, loaded=True)
        variants[f"{name}_loader"] = naive.round
    return in_turn(variants, repeats)


def measure_edges(plan: Plan, repeats: int) -> dict[str, float]:
    """Time rounds of federated averaging with edge labels (`gine`) and without (`gin`)."""
    variants: dict[str, Work] = {}
    for name, edges in (("gin", "ignore"), ("gine", "label")):
        config = replace(plan.config, method="fedavg", edges=edges)
        members = prepare(config, split_data(plan, 0), seed=config.seed)
        ours = Simulation(config, members, device=plan.device)
        variants[name] = stepper(ours.round, ours.start())
    return in_turn(variants, repeats)
