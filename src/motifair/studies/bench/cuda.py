"""Time of a round on a GPU, with many federations as one stack.

Only the clock needs a GPU. For tests, the same functions run on a CPU with another clock, and
without recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from motifair.config import Config
from motifair.errors import MotifairError
from motifair.experiments.plan import Plan, split_data
from motifair.federation.cuda_graph import Rounds
from motifair.federation.loop import run_rounds
from motifair.federation.members import Members, prepare
from motifair.federation.simulation import Simulation
from motifair.studies.bench.bound import round_bytes
from motifair.studies.bench.measure import (
    Clock,
    Work,
    device_seconds,
    host_seconds,
    in_turn,
    stepper,
    with_first_graphs,
)
from motifair.studies.bench.naive import naive_federation

METHODS = ("fedavg", "motifair")
COPIED = 2**30  # bytes: many times the cache of a GPU
STEPS = 4  # steps of a round with mini-batches


def measure_cuda(
    plan: Plan, splits: int, repeats: int, *, clock: Clock = device_seconds, copied: int = COPIED
) -> dict[str, Any]:
    """Time stacks of `splits` federations, method by method."""
    methods = {}
    for name in METHODS:
        config = replace(plan.config, method=name, eval_every=plan.config.rounds)
        members = [
            prepare(config, split_data(plan, k), seed=config.seed + k) for k in range(splits)
        ]
        if len({m.model.width for m in members}) > 1:
            raise MotifairError(
                f"The splits of {plan.data.name} differ in their largest degree, so they are no "
                "single stack; use a dataset with node labels, or --splits 1."
            )
        measured = measure_rounds(config, members, plan.device, repeats, clock, copied)
        batches = measure_batches(config, members, plan.device, repeats, clock)
        measured["batches_vs_steps"] = batches["batches"] / (STEPS * batches["batch"])
        measured["seconds"] |= batches
        whole_run(replace(config, rounds=3), members, plan.device, clock)  # warm-up
        measured["whole_run_seconds"] = whole_run(config, members, plan.device, clock)
        methods[name] = measured
    return {"splits": splits, "methods": methods}


def measure_rounds(
    config: Config,
    members: Sequence[Members],
    device: torch.device,
    repeats: int,
    clock: Clock,
    copied: int,
) -> dict[str, Any]:
    """Time a round of the stack and its variants.

    `stack` is a recorded round (CUDA graph), `eager` the same without recording; `one` is a
    recorded round of the first federation alone; `naive` is the naive loop on it; `bound` is the
    bytes that a round of the stack must move over the bandwidth of `copy`. A stack that fits into
    the cache can be faster.
    """
    stack = Simulation(config, members, device=device)
    one = Simulation(config, members[0], device=device)
    replayed = Rounds(stack)
    seconds = in_turn(
        {
            "stack": stepper(replayed, stack.start()),
            "eager": stepper(stack.round, stack.start()),
            "one": stepper(Rounds(one), one.start()),
            "naive": naive_federation(config, members[0], device).round,
            "copy": copier(copied, device),
        },
        repeats,
        clock,
    )
    bandwidth = 2 * copied / seconds["copy"]  # a copy reads and writes
    moved = sum(round_bytes(config, m) for m in members)
    seconds["bound"] = moved / bandwidth
    return {
        "recorded": replayed.graph is not None,
        "recorded_vs_eager": seconds["eager"] / seconds["stack"],
        "stack_vs_one_by_one": len(members) * seconds["one"] / seconds["stack"],
        "round_vs_naive": len(members) * seconds["naive"] / seconds["stack"],
        "round_vs_bound": seconds["stack"] / seconds["bound"],
        "seconds": seconds,
        "bound_bytes": moved,
        "bandwidth_bytes_per_second": bandwidth,
    }


def measure_batches(
    config: Config,
    members: Sequence[Members],
    device: torch.device,
    repeats: int,
    clock: Clock,
) -> dict[str, float]:
    """Time a round of `batches`, in which agents take up to `STEPS` steps, and one in which each
    trains on its first `batch` of graphs only, in a single step.
    """
    most = max(len(shard) for m in members for shard in m.train)
    cut = replace(config, batch_size=-(-most // STEPS))
    firsts = [with_first_graphs(m, cut.batch_size) for m in members]
    variants = {}
    for name, held in (("batches", members), ("batch", firsts)):
        simulation = Simulation(cut, held, device=device)
        variants[name] = stepper(Rounds(simulation), simulation.start())
    return in_turn(variants, repeats, clock)


def whole_run(
    config: Config, members: Sequence[Members], device: torch.device, clock: Clock
) -> dict[str, float]:
    """Time all rounds of a stack, from prepared graphs to the final evaluation.

    `wall` includes everything: collating graphs and moving them to the device, recording, rounds
    and evaluation. `gpu` is measured by the device's clock from the first round on.
    """
    seconds = {}

    def work() -> None:
        simulation = Simulation(config, members, device=device)
        state, histories = simulation.start(), simulation.histories()
        seconds["gpu"] = clock(
            lambda: run_rounds(simulation, state, histories, eval_every=config.eval_every)
        )

    seconds["wall"] = host_seconds(work)  # `work` ends by waiting for the device
    return seconds


def copier(size: int, device: torch.device) -> Work:
    """Return a function that copies `size` bytes."""
    source = torch.zeros(size // 4, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)
