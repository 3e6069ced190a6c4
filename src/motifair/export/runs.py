"""The models of a finished run, written out one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from motifair.errors import MotifairError
from motifair.experiments.jobs import Job, list_jobs
from motifair.experiments.plan import Plan, read_plan, split_data
from motifair.export.model import save_model
from motifair.federation.history import History
from motifair.federation.members import prepare
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState, load_history, load_state
from motifair.graphs.features import fit_features


def export_run(run_dir: Path, out: Path) -> list[Path]:
    """Write every agent's model of a finished run, and the server's where the method has one.

    Split k goes to `out/split-00k`, there agents to `agents/NAME` and the server to `server`.
    """
    plan = read_plan(run_dir)
    jobs = [job for job in list_jobs(plan, run_dir, run_dir) if job.part == "method"]
    return [path for job in jobs for path in _export(plan, job, out)]


def _export(plan: Plan, job: Job, out: Path) -> list[Path]:
    config, seed = plan.config, plan.config.seed + job.number
    state, history = _finished(plan, job)
    members = prepare(config, split_data(plan, job.number), seed=seed)
    features = fit_features(members.split.graphs, np.concatenate(members.numbers), config.features)
    about = {
        "method": config.method,
        "rounds": config.rounds,
        "classes": list(plan.data.graphs.class_values),
        "dataset": config.dataset,
        "seed": seed,
    }
    made = []

    def write(
        place: str,
        agent: str,
        weights: Tensor,
        accuracy: float,
        own: tuple[Tensor, float] | None = None,
    ) -> None:
        made.append(out / f"split-{job.number:03d}" / place)
        card = {**about, "agent": agent, "accuracy": float(accuracy)}
        save_model(made[-1], weights, members.model, features, card, own)

    simulation = Simulation(config, members, device=state.agents.weights.device)
    for a, name in enumerate(members.split.names):
        accuracy, agents = history.columns["accuracy"][-1, a], state.agents
        own = None
        if agents.own is not None:
            own = agents.own.weights[a], simulation.method.own_weight
        write(f"agents/{name}", name, agents.weights[a], accuracy, own)
    if simulation.method.global_model:
        weights = simulation.global_weights(state)[0]
        write("server", "server", weights, history.global_accuracy[-1])
    return made


def _finished(plan: Plan, job: Job) -> tuple[FederationState, History]:
    """Read where a job ended; refuse one that has not."""
    assert job.path is not None
    about = plan.about(plan.config.seed + job.number, job.part)
    done, history = load_history(job.path, about) if job.path.exists() else (0, None)
    if history is None or done < plan.config.rounds:
        raise MotifairError(
            f"Split {job.number} stands at round {done} of {plan.config.rounds}; finish the run "
            "with motifair resume first."
        )
    return load_state(job.path, torch.device("cpu")), history
