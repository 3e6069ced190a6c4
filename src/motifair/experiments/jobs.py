"""The trainings a run is made of, and how many of them go side by side.

On each split a run trains agents alone, alone again, and by the method, each with its own seed:
results are compared with trainings that share no random bit with them. Each of these is a job with
a file of its own, so that it can be resumed whatever the others did. On a CPU jobs run one after
another; on a GPU as many at once as its memory holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from motifair.config import Config
from motifair.errors import MotifairError
from motifair.experiments.packing import memory_needed, pack
from motifair.experiments.plan import Plan, alone, split_data
from motifair.federation.callbacks import Callback, Checkpoint, Pace
from motifair.federation.history import History
from motifair.federation.loop import run_rounds
from motifair.federation.members import Members, prepare
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState, load_history, load_state
from motifair.graphs.split import Split
from motifair.learning.randomness import derive_seed

ALONE = ("alone", "alone-again")
PARTS = (*ALONE, "method")


class Progress(Protocol):
    """Hears of every job: as it goes, or that it is done."""

    def part(self, split: int, name: str) -> Callback:
        """Return a callback for a job that starts."""
        ...

    def skip(self, split: int, name: str) -> None:
        """Hear of a job that was finished earlier."""
        ...

    def stacked(self, jobs: int) -> None:
        """Hear that so many jobs go side by side."""
        ...


@dataclass(frozen=True)
class Job:
    """One training on one split: which part of the run it is, and where it is kept."""

    number: int
    part: str
    path: Path | None


@dataclass(frozen=True)
class Finished:
    """What a job leaves."""

    split: Split
    history: History


def checkpoint_path(folder: Path, number: int, part: str) -> Path:
    """Return the file of a job in the folder of a run."""
    return folder / "checkpoint" / f"split-{number:03d}-{part}.safetensors"


def list_jobs(plan: Plan, out: Path | None, baselines: Path | None) -> list[Job]:
    """List the jobs of a run."""

    def path(number: int, part: str) -> Path | None:
        folder = out if part == "method" else baselines
        return None if folder is None else checkpoint_path(folder, number, part)

    return [Job(k, part, path(k, part)) for k in range(plan.config.splits) for part in PARTS]


def run_jobs(
    plan: Plan,
    jobs: Sequence[Job],
    progress: Progress | None,
    stop: Callable[[], bool],
    callbacks: Sequence[Sequence[Callback]] = (),
) -> tuple[dict[tuple[int, str], Finished], dict[str, Any]]:
    """Do what is left of all jobs; return what they found, and how they were laid out.

    `callbacks` has some for each split, which hear of the method's own job.
    """
    splits: dict[int, Split] = {}
    found: dict[tuple[int, str], Finished] = {}
    left = []
    for job in jobs:
        splits[job.number] = splits.get(job.number) or split_data(plan, job.number)
        history = _finished(plan, job)
        if history is None:
            left.append(job)
            continue
        found[job.number, job.part] = Finished(splits[job.number], history)
        if progress is not None:
            progress.skip(job.number, job.part)
    for group in _groups(plan, left, splits):
        if progress is not None and len(group.jobs) > 1:
            progress.stacked(len(group.jobs))
        histories = _run_group(plan, group, progress, stop, callbacks)
        for job, history in zip(group.jobs, histories, strict=True):
            found[job.number, job.part] = Finished(splits[job.number], history)
    return found, {"jobs_in_a_stack": max(f.history.side_by_side for f in found.values())}


@dataclass(frozen=True)
class _Group:
    """Jobs that go side by side, their members, and how far they are."""

    config: Config
    jobs: tuple[Job, ...]
    members: tuple[Members, ...]
    done: int


def _groups(plan: Plan, jobs: Sequence[Job], splits: dict[int, Split]) -> Iterator[_Group]:
    """Group jobs for stacks: of one method, after as many rounds, and of equal inputs."""
    alike: dict[object, list[Job]] = {}
    for number, job in enumerate(jobs):
        kind = "method" if job.part == "method" else "alone"
        # On a CPU jobs keep their order, and none is read before its turn.
        alike.setdefault((kind, _done(plan, job)) if plan.memory else number, []).append(job)
    for group in alike.values():
        yield from _stacks(plan, group, splits)


def _stacks(plan: Plan, jobs: Sequence[Job], splits: dict[int, Split]) -> Iterator[_Group]:
    """Group jobs of one method and after as many rounds by inputs and memory."""
    config, done = _config(plan, jobs[0]), _done(plan, jobs[0])
    for stack in pack(
        ((job, _members(plan, job, splits[job.number])) for job in jobs),
        shape=lambda prepared: prepared[1].model.width,
        need=lambda prepared: memory_needed(config, prepared[1]),
        memory=plan.memory,
    ):
        yield _Group(config, tuple(job for job, _ in stack), tuple(m for _, m in stack), done)


def _run_group(
    plan: Plan,
    group: _Group,
    progress: Progress | None,
    stop: Callable[[], bool],
    hears: Sequence[Sequence[Callback]],
) -> list[History]:
    """Run jobs to their end, from their files where there are some."""
    simulation = Simulation(
        group.config,
        group.members[0] if len(group.jobs) == 1 else group.members,
        device=plan.device,
        threads=plan.threads,
    )
    state, histories = simulation.start(), simulation.histories()
    if group.done:
        states, histories = _load(plan, group)
        state = simulation.join(states)
    for history in histories:
        history.side_by_side = len(group.jobs)
    pace = Pace()
    callbacks: list[list[Callback]] = [[] for _ in group.jobs]
    for job, calls in zip(group.jobs, callbacks, strict=True):
        calls.append(_RefuseOverflow(group.config.learning_rate))  # before anything is kept
        if progress is not None:
            calls.append(progress.part(job.number, job.part))
        if job.path is not None:
            about = plan.about(_seed(plan, job), job.part)
            calls.append(Checkpoint(job.path, about, pace))
        if hears and job.part == "method":
            calls.extend(hears[job.number])
    with closing(simulation):
        run_rounds(
            simulation,
            state,
            histories,
            callbacks=callbacks,
            stop=stop,
            eval_every=group.config.eval_every,
        )
    return histories


class _RefuseOverflow(Callback):
    """Ends a run whose last step, which no further round looks at, has left models overflowing."""

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate = learning_rate

    def on_round(self, state: FederationState, history: History) -> None:
        bad = ~np.isfinite(history.columns["accuracy"][-1])
        if state.round == len(history.global_accuracy) and bad.any():
            raise MotifairError(
                f"The predictions of {history.names[int(bad.argmax())]} are not finite after round "
                f"{state.round}; lower learning_rate ({self.learning_rate:g})."
            )


def _load(plan: Plan, group: _Group) -> tuple[list[FederationState], list[History]]:
    states, histories = [], []
    for job in group.jobs:
        assert job.path is not None
        states.append(load_state(job.path, plan.device))
        histories.append(load_history(job.path, plan.about(_seed(plan, job), job.part))[1])
    return states, histories


def _done(plan: Plan, job: Job) -> int:
    """Return how many rounds of a job were done earlier."""
    if job.path is None or not job.path.exists():
        return 0
    return load_history(job.path, plan.about(_seed(plan, job), job.part))[0]


def _finished(plan: Plan, job: Job) -> History | None:
    """Return the history of a job that was finished earlier."""
    if job.path is None or not job.path.exists():
        return None
    done, history = load_history(job.path, plan.about(_seed(plan, job), job.part))
    return history if done == plan.config.rounds else None


def _config(plan: Plan, job: Job) -> Config:
    return plan.config if job.part == "method" else alone(plan.config)


def _seed(plan: Plan, job: Job) -> int:
    return plan.config.seed + job.number


def _members(plan: Plan, job: Job, split: Split) -> Members:
    seed = _seed(plan, job)
    training_seed = derive_seed(seed, job.part) if job.part in ALONE else seed
    return prepare(_config(plan, job), split, seed=training_seed)
