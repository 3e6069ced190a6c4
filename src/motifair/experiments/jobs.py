"""The training jobs of a run, and how they are stacked on a GPU.

On each split a run trains agents alone, alone again, and by the method, each with its own seed, so
that compared trainings share no random numbers; with the option `incentives` also by the method
with one member that withholds graphs, for each of several shares that it gives. Each of these is a
job with its own checkpoint file and can be resumed independently of the others. On a CPU jobs run
one after another; on a GPU as many at once as fit into its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from motifair.config import Config
from motifair.errors import MotifairError
from motifair.experiments.packing import memory_needed, pack
from motifair.experiments.plan import ALONE, Plan, alone, split_data
from motifair.federation.callbacks import Callback, Checkpoint, Pace
from motifair.federation.history import History
from motifair.federation.loop import Stopped, run_rounds
from motifair.federation.members import Members, prepare
from motifair.federation.offer import Offer, draw_member
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState, load_history, load_state
from motifair.federation.withholding import Withholding
from motifair.graphs.split import Split
from motifair.learning.randomness import derive_seed

# Parts in which one member withholds graphs, and the share that it gives.
GIVES = {"gives-075": 0.75, "gives-050": 0.5, "gives-025": 0.25, "gives-000": 0.0}


class Progress(Protocol):
    """Progress display that is notified of every job."""

    def part(self, split: int, name: str) -> Callback:
        """Return a callback for the rounds of a job that starts."""
        ...

    def skip(self, split: int, name: str) -> None:
        """Called for a job that was finished earlier."""
        ...

    def stacked(self, jobs: int) -> None:
        """Called before `jobs` jobs are trained together in a stack."""
        ...


@dataclass(frozen=True)
class Job:
    """One training on one split: its part of the run, and its checkpoint file."""

    number: int
    part: str
    path: Path | None


@dataclass(frozen=True)
class Finished:
    """The data split and the history of a finished job."""

    split: Split
    history: History


def list_parts(config: Config) -> tuple[str, ...]:
    """Return the parts of a run on each split, in their order."""
    return (*ALONE, "method", *(GIVES if config.incentives else ()))


def checkpoint_path(folder: Path, number: int, part: str) -> Path:
    """Return the checkpoint file of a job in the folder of a run."""
    return folder / "checkpoint" / f"split-{number:03d}-{part}.safetensors"


def list_jobs(plan: Plan, out: Path | None, baselines: Path | None) -> list[Job]:
    """Return the jobs of a run, split by split."""

    def path(number: int, part: str) -> Path | None:
        folder = baselines if part in ALONE else out
        return None if folder is None else checkpoint_path(folder, number, part)

    parts = list_parts(plan.config)
    return [Job(k, part, path(k, part)) for k in range(plan.config.splits) for part in parts]


def run_jobs(
    plan: Plan,
    jobs: Sequence[Job],
    progress: Progress | None,
    stop: Callable[[], bool],
    callbacks: Sequence[Sequence[Callback]] = (),
) -> tuple[dict[tuple[int, str], Finished], dict[str, Any]]:
    """Run all unfinished jobs; return every job by split and part, and how they were stacked.

    `callbacks` has a list for each split, called in the rounds of the method's own job.
    """
    splits: dict[int, Split] = {}
    finished: dict[tuple[int, str], Finished] = {}
    left = []
    for job in jobs:
        splits[job.number] = splits.get(job.number) or split_data(plan, job.number)
        history = _finished(plan, job)
        if history is None:
            left.append(job)
            continue
        finished[job.number, job.part] = Finished(splits[job.number], history)
        if progress is not None:
            progress.skip(job.number, job.part)
    for group in _groups(plan, left, splits):
        if progress is not None and len(group.jobs) > 1:
            progress.stacked(len(group.jobs))
        histories = _run_group(plan, group, progress, stop, callbacks)
        for job, history in zip(group.jobs, histories, strict=True):
            finished[job.number, job.part] = Finished(splits[job.number], history)
    largest = max(job.history.side_by_side for job in finished.values())
    return finished, {"jobs_in_a_stack": largest}


@dataclass(frozen=True)
class _Group:
    """Jobs that are trained in one stack, their members, and the rounds already done."""

    config: Config
    jobs: tuple[Job, ...]
    members: tuple[Members, ...]
    done: int


def _groups(plan: Plan, jobs: Sequence[Job], splits: dict[int, Split]) -> Iterator[_Group]:
    """Yield stacks of jobs with the same method, rounds done and input width."""
    alike: dict[object, list[Job]] = {}
    for number, job in enumerate(jobs):
        kind = "gives" if job.part in GIVES else "alone" if job.part in ALONE else "method"
        # On a CPU jobs keep their order, and none is loaded before its turn.
        alike.setdefault((kind, _done(plan, job)) if plan.memory else number, []).append(job)
    for group in alike.values():
        yield from _stacks(plan, group, splits)


def _stacks(plan: Plan, jobs: Sequence[Job], splits: dict[int, Split]) -> Iterator[_Group]:
    """Yield stacks of jobs with the same method and rounds done, by input width and memory."""
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
    method_callbacks: Sequence[Sequence[Callback]],
) -> list[History]:
    """Run jobs to their end, from their checkpoints if any; return their histories."""
    kind = Simulation if group.members[0].given is None else Withholding
    simulation = kind(
        group.config,
        group.members[0] if len(group.jobs) == 1 else group.members,
        device=plan.device,
        threads=plan.threads,
    )
    pace = Pace()
    callbacks: list[list[Callback]] = [[] for _ in group.jobs]
    for job, calls in zip(group.jobs, callbacks, strict=True):
        calls.append(_RefuseOverflow(group.config.learning_rate))  # before anything is saved
        if progress is not None:
            calls.append(progress.part(job.number, job.part))
        if job.path is not None:
            about = plan.about(_seed(plan, job), job.part)
            calls.append(Checkpoint(job.path, about, pace))
        if method_callbacks and job.part == "method":
            calls.extend(method_callbacks[job.number])
    with closing(simulation):
        if group.done:
            states, histories = _load(plan, group)
            state = simulation.join(states)
        else:
            simulation.on_trial = partial(_notify_of_trial, callbacks, stop)
            state, histories = simulation.start(), simulation.histories()
        for history in histories:
            history.side_by_side = len(group.jobs)
        run_rounds(
            simulation,
            state,
            histories,
            callbacks=callbacks,
            stop=stop,
            eval_every=group.config.eval_every,
        )
    return histories


def _notify_of_trial(callbacks: Sequence[Sequence[Callback]], stop: Callable[[], bool]) -> None:
    """Notify callbacks of a round of the trial, and stop where it is asked for."""
    for callback in chain.from_iterable(callbacks):
        callback.on_trial()
    if stop():
        raise Stopped


class _RefuseOverflow(Callback):
    """Refuse models that overflowed in the last round, which no later round would notice."""

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
        histories.append(_read_history(plan, job)[1])
    return states, histories


def _done(plan: Plan, job: Job) -> int:
    """Return how many rounds of a job its checkpoint has."""
    if job.path is None or not job.path.exists():
        return 0
    return _read_history(plan, job)[0]


def _finished(plan: Plan, job: Job) -> History | None:
    """Return the history of a job that was finished earlier, else None."""
    if job.path is None or not job.path.exists():
        return None
    done, history = _read_history(plan, job)
    return history if done == plan.config.rounds else None


def _read_history(plan: Plan, job: Job) -> tuple[int, History]:
    """Read how far a job's checkpoint is, and its history; of a run that is being extended, too."""
    assert job.path is not None
    about = partial(plan.about, _seed(plan, job), job.part)
    done, history = load_history(job.path, about)
    history.lengthen(plan.config.rounds, _config(plan, job).eval_every)
    return done, history


def _config(plan: Plan, job: Job) -> Config:
    if job.part in ALONE:
        return alone(plan.config)
    if job.part in GIVES:  # of which nothing but the end is read
        return replace(plan.config, eval_every=plan.config.rounds, contribution=False)
    return plan.config


def _seed(plan: Plan, job: Job) -> int:
    return plan.config.seed + job.number


def _members(plan: Plan, job: Job, split: Split) -> Members:
    seed = _seed(plan, job)
    training_seed = derive_seed(seed, job.part) if job.part in ALONE else seed
    offer = None
    if job.part in GIVES:
        offer = Offer(draw_member(seed, len(split.names)), GIVES[job.part])
    return prepare(_config(plan, job), split, seed=training_seed, offer=offer)
