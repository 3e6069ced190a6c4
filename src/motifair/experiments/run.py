"""Run a method over data splits, each beside agents that train alone (twice)."""

from __future__ import annotations

import fcntl
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import torch

from motifair.config import Config
from motifair.errors import MotifairError
from motifair.experiments.plan import Plan, alone, make_plan, split_data
from motifair.experiments.result import Result, SplitResult, load_result
from motifair.federation.callbacks import Callback, Checkpoint
from motifair.federation.history import History
from motifair.federation.loop import run_rounds
from motifair.federation.simulation import Simulation
from motifair.federation.state import load_history, load_state
from motifair.files import read_json, write_json
from motifair.graphs.dataset import EMBEDDED, Objects
from motifair.graphs.split import Split
from motifair.learning.memory import keep_freed_memory
from motifair.learning.randomness import derive_seed
from motifair.methods import find_method

PARTS = ("self-train", "retest", "method")


class Progress(Protocol):
    """Hears of every part of a run (a training on a split): as it goes, or that it is done."""

    def part(self, split: int, name: str) -> Callback:
        """Return a callback for a part that starts."""
        ...

    def skip(self, split: int, name: str) -> None:
        """Hear of a part that was finished earlier."""
        ...


def run(
    dataset: str | Objects = EMBEDDED,
    *,
    out: str | Path | None = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
    threads: int | None = None,
    **options: Any,
) -> Result:
    """Run a method and return what it found; options are those of `Config`, by name.

    `dataset` is a name, a path, a list of PyG or NetworkX graphs, or a mapping from agent to such
    a list; `method` may be a name or a subclass of `Method`. With `out` the run is written to that
    folder as it goes, and calling again goes on.
    """
    plan = make_plan(dataset, options, data_dir=data_dir, device=device, threads=threads)
    return execute(plan, None if out is None else Path(out))


def execute(
    plan: Plan,
    out: Path | None = None,
    *,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
    baselines: Path | None = None,
) -> Result:
    """Run all splits of a plan, or what is left of them in `out`.

    The trainings alone are kept in `baselines` (by default in `out`), where runs of other methods
    on the same splits find them.
    """
    if out is not None and (out / "summary.json").exists():
        _check_same(plan, out)
        return load_result(out)
    with _one_thread(), _folder(plan, out):
        started = time.monotonic()
        splits = tuple(
            _run_split(plan, number, _Places(out, baselines or out), progress, stop)
            for number in range(plan.config.splits)
        )
        environment = {"layout": _layout(plan), "versions": _versions()}
        result = Result(plan.config, splits, time.monotonic() - started, environment)
        if out is not None:
            result.save(out)
        return result


@dataclass(frozen=True)
class _Places:
    """Where the parts of a run are kept, if they are."""

    out: Path | None
    baselines: Path | None

    def path(self, number: int, part: str) -> Path | None:
        folder = self.out if part == "method" else self.baselines
        if folder is None:
            return None
        return folder / "checkpoint" / f"split-{number:03d}-{part}.safetensors"


def _run_split(
    plan: Plan,
    number: int,
    places: _Places,
    progress: Progress | None,
    stop: Callable[[], bool],
) -> SplitResult:
    """Run both baselines and the method on one split; a method that is a baseline runs once."""
    split = split_data(plan, number)
    seed = plan.config.seed + number
    found: dict[str, History] = {}
    for part in PARTS:
        if part == "method" and plan.config.method == "self-train":
            found[part] = found["self-train"]
            continue
        path = places.path(number, part)
        history = None if path is None else _finished(plan, seed, part, path)
        if history is None:
            callback = [] if progress is None else [progress.part(number, part)]
            history = _run_part(plan, split, seed, part, path, callback, stop)
        elif progress is not None:
            progress.skip(number, part)
        found[part] = history
    first = found["self-train"].columns["accuracy"][-1]
    again = found["retest"].columns["accuracy"][-1]
    # Training alone is compared with training alone again: its fairness is the reliability.
    if plan.config.method == "self-train":
        first, again = again, first
    return SplitResult(
        seed=seed,
        names=split.names,
        roles=split.roles,
        graphs=tuple(len(t) for t in split.partition.train),
        alone=first,
        retest=again,
        history=found["method"],
        best_on_test=plan.config.report == "best_on_test",
    )


def _run_part(
    plan: Plan,
    split: Split,
    seed: int,
    part: str,
    path: Path | None,
    callbacks: list[Callback],
    stop: Callable[[], bool],
) -> History:
    """Run one training to its end, from its checkpoint where there is one."""
    config = plan.config if part == "method" else alone(plan.config)
    training_seed = derive_seed(seed, "retest") if part == "retest" else seed
    simulation = Simulation(
        config, split, seed=training_seed, device=plan.device, threads=plan.threads
    )
    state, history = simulation.start(), simulation.history()
    if path is not None:
        about = plan.about(seed, part)
        callbacks.append(Checkpoint(path, about))
        if path.exists():
            state, history = load_state(path, plan.device), load_history(path, about)[1]
    run_rounds(
        simulation, state, history, callbacks=callbacks, stop=stop, eval_every=config.eval_every
    )
    return history


def _finished(plan: Plan, seed: int, part: str, path: Path) -> History | None:
    """Return the history of a part that was finished earlier."""
    if not path.exists():
        return None
    done, history = load_history(path, plan.about(seed, part))
    return history if done == plan.config.rounds else None


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let agents be the unit of parallel work, so that results do not depend on the machine."""
    keep_freed_memory()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _folder(plan: Plan, out: Path | None) -> Iterator[None]:
    """Make the out folder or check that it is this run's, and keep other processes out of it."""
    if out is None:
        yield
        return
    if (out / "config.json").exists():
        _check_same(plan, out)
    elif out.exists() and (not out.is_dir() or any(p.name != ".lock" for p in out.iterdir())):
        raise MotifairError(f"{out} is not empty and holds no run; name another --out.")
    (out / "checkpoint").mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise MotifairError(f"Another process is writing {out}; wait for it.") from error
        if not (out / "config.json").exists():
            write_json(
                out / "config.json",
                {"options": plan.config.to_json(), "environment": plan.environment()},
            )
        yield


def _check_same(plan: Plan, out: Path) -> None:
    stored = read_json(out / "config.json")["options"]
    wanted = plan.config.to_json()
    other = [k for k in wanted if stored.get(k) != wanted[k]]
    if other:
        raise MotifairError(
            f"{out} holds another run ({', '.join(f'{k}={stored.get(k)}' for k in other[:3])}); "
            "name another --out."
        )


def _layout(plan: Plan) -> dict[str, Any]:
    on_cpu = plan.device.type == "cpu"
    return {
        "device": plan.device.type,
        "threads": plan.threads,
        "agents_in_a_stack": 1 if on_cpu else plan.config.agents,
        "tf32": bool(torch.backends.cuda.matmul.allow_tf32) and not on_cpu,
        "global_model": _global_model(plan.config),
    }


def _global_model(config: Config) -> str | None:
    """Say what the global accuracy was measured on."""
    if not find_method(config.method).global_model:
        return None
    if config.share == "all":
        return "server"
    return "server's convolutions and the mean of the agents' personal layers"


def _versions() -> dict[str, str]:
    names = ("motifair", "torch", "torch_geometric", "numpy")
    return {"python": platform.python_version(), **{n: _version(n) for n in names}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # a source tree that was never installed
        return "not installed"
