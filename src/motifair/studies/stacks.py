"""Train variants of a planned federation: without some agents, or with other graphs in some rounds.

On a GPU federations of equal shape are trained as a stack. Finished ones are stored and reused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from motifair.experiments.packing import memory_needed, pack
from motifair.experiments.plan import Plan
from motifair.federation.callbacks import Callback
from motifair.federation.history import History
from motifair.federation.loop import run_rounds
from motifair.federation.members import Members
from motifair.federation.simulation import Simulation
from motifair.federation.state import FederationState, load_history, save_state
from motifair.graphs.perturb import Damage
from motifair.learning.process import training_process
from motifair.studies.study import Settings

Stages = tuple[Members, ...]


@dataclass(frozen=True)
class Training:
    """A variant of the federation on split `number`, named by `part`.

    `members` prepares the members of each stage: of the first one, and of those that begin after
    each of the rounds `turns`.
    """

    number: int
    part: str
    members: Callable[[], Stages]
    turns: tuple[int, ...] = ()


def train(
    settings: Settings, plan: Plan, folder: str, trainings: Sequence[Training]
) -> list[History]:
    """Train federations with the configuration of the plan; finished ones are read from files.

    Files are in `out/runs/folder`. An interrupted federation is trained from the start.
    """
    runs = settings.out / "runs" / folder
    runs.mkdir(parents=True, exist_ok=True)
    histories: dict[int, History] = {}
    left = []
    for number, training in enumerate(trainings):
        path, about = _file(plan, runs, training)
        if path.exists():
            histories[number] = _saved(path, about)
        else:
            left.append(number)
    for numbers, stages in _groups(plan, trainings, left):
        callbacks = [[_Save(*_file(plan, runs, trainings[n]))] for n in numbers]
        turns = trainings[numbers[0]].turns
        trained = run_stages(plan, stages, turns, callbacks=callbacks, stop=settings.stop)
        histories |= dict(zip(numbers, trained, strict=True))
    return [histories[number] for number in range(len(trainings))]


def _saved(path: Path, about: Mapping[str, Any]) -> History:
    return load_history(path, lambda rounds: about)[1]


def run_stages(
    plan: Plan,
    stages: Sequence[Stages],
    turns: Sequence[int],
    *,
    callbacks: Sequence[Sequence[Callback]] = (),
    stop: Callable[[], bool] = lambda: False,
) -> list[History]:
    """Run a stack of federations of equal shape; the next stage begins after each turn.

    Callbacks are called in the last stage only.
    """
    config = plan.config
    histories = [History(first.split.names, config.rounds) for first, *_ in stages]
    state: FederationState | None = None
    with training_process():
        for stage, until in enumerate((*turns, config.rounds)):
            members = [s[stage] for s in stages]
            before = [s[stage - 1] for s in stages]
            simulation = Simulation(
                replace(config, rounds=until),
                members[0] if len(members) == 1 else members,
                device=plan.device,
                threads=plan.threads,
            )
            with closing(simulation):
                state = run_rounds(
                    simulation,
                    simulation.start() if state is None else taken_over(simulation, state, before),
                    histories,
                    callbacks=callbacks if until == config.rounds else (),
                    stop=stop,
                    eval_every=config.eval_every,
                )
    return histories


def taken_over(
    simulation: Simulation, state: FederationState, before: Sequence[Members]
) -> FederationState:
    """Return the state with which agents continue, some of them on other graphs than `before`.

    Other graphs have other motifs, so prototypes are aggregated again, as before round 1 but with
    the current values. Where peers judge, they judge once more, and whose graphs are others begins
    anew with what that finds, as who joins between machines does.
    """
    judged = simulation.judgement(simulation.own_models())
    blank = simulation.server.start(state.server.weights, judged=judged)
    prototypes, active = blank.prototypes, blank.active
    if simulation.method.uses_prototypes:
        local = simulation.agents.prototypes(state.agents)
        prototypes, active = simulation.server.share_prototypes(
            local, state.server.value, prototypes, active
        )
    server = replace(state.server, worth=blank.worth, prototypes=prototypes, active=active)
    if judged is not None:
        pairs = zip(before, simulation.members, strict=True)
        changed = [a != b for old, new in pairs for a, b in _damage(old, new)]
        newcomer = torch.tensor(changed, device=server.value.device).view_as(server.value)
        server = replace(server, alignment=server.alignment.where(~newcomer, torch.nan))
    return replace(state, server=server)


def _damage(old: Members, new: Members) -> Iterator[tuple[Damage, Damage]]:
    """Yield what was done to the graphs of each agent before, and now."""
    return zip(old.split.damage, new.split.damage, strict=True)


class _Save(Callback):
    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path, self.about = path, about

    def on_end(self, state: FederationState, history: History) -> None:
        save_state(self.path, state, history, self.about, final=True)


def _file(plan: Plan, folder: Path, training: Training) -> tuple[Path, dict[str, Any]]:
    about = {
        "config": plan.config.digest(),
        "device": plan.device.type,
        "seed": plan.config.seed + training.number,
        "part": [training.part, *training.turns],
    }
    return folder / f"split-{training.number:03d}-{training.part}.safetensors", about


def _groups(
    plan: Plan, trainings: Sequence[Training], left: Sequence[int]
) -> Iterator[tuple[list[int], list[Stages]]]:
    """Group federations of equal shape into stacks that fit into the memory."""

    def shape(prepared: tuple[int, Stages]) -> tuple[object, ...]:
        number, (first, *_) = prepared
        return first.model.width, len(first.train), trainings[number].turns

    for stack in pack(
        ((number, trainings[number].members()) for number in left),
        shape=shape,
        need=lambda prepared: max(memory_needed(plan.config, m) for m in prepared[1]),
        memory=plan.memory,
    ):
        yield [number for number, _ in stack], [stages for _, stages in stack]
