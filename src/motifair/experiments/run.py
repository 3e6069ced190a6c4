"""Run a method over data splits, each with two trainings of every agent alone."""

from __future__ import annotations

import fcntl
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from motifair.config import OPTIONS, Config
from motifair.errors import MotifairError
from motifair.evaluation.incentives import SHARES, Giving
from motifair.experiments.final_states import KeepFinalState
from motifair.experiments.jobs import GIVES, Finished, Progress, list_jobs, run_jobs
from motifair.experiments.origin import Origin
from motifair.experiments.plan import Given, Plan, join_settings, make_plan, write_config
from motifair.experiments.progress import show_progress
from motifair.experiments.result import COMPARISON, Result, load_result
from motifair.experiments.split_result import SplitResult
from motifair.federation.callbacks import Callback
from motifair.federation.offer import draw_member
from motifair.files import damaged_files, file_errors, read_json
from motifair.learning.process import training_process
from motifair.methods import find_method
from motifair.version import __version__


def run(
    dataset: Given = None,
    *,
    config: Config | None = None,
    out: str | Path | None = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
    threads: int | None = None,
    memory: float | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    **options: Any,
) -> Result:
    """Train a method on data splits, each with two trainings of every agent alone.

    Arguments:
        dataset: a name, the path of a TU folder or zip, several of these joined by commas, a list
            of PyG or NetworkX graphs, a mapping from agent to such a list, or a `Config`, which
            names its dataset; default the embedded dataset.
        config: a configuration; `options` override it.
        out: folder for the run, written during training; calling again continues an interrupted
            run, and loads a finished one. Default none: the result is in memory only.
        data_dir: folder with datasets; default MOTIFAIR_DATA, or they are downloaded.
        device: `auto`, `cpu` or `cuda`.
        threads: workers; default all usable cores.
        memory: GiB of a GPU for splits that are trained together; default 80 % of what is free.
        callbacks: called in the method's own rounds, such as the loggers of `motifair.report`.
        progress: whether to show progress; default in a notebook, and if the standard error is a
            terminal.
        **options: any option of `Config` by name; `method` may be a subclass of `Method`, and
            `model` a PyG module of your own, or a class or function that makes it.

    Returns:
        The result: tables, metrics with intervals, reports and predictions.

    >>> result = run(method="fedavg", agents=3, rounds=2, hidden=8, device="cpu", threads=1)
    >>> result.to_frame().shape
    (3, 20)
    >>> from motifair import Config
    >>> small = Config(agents=3, rounds=2, hidden=8)
    >>> run(small, method="fedavg", device="cpu", threads=1).mean == result.mean
    True
    """
    where: dict[str, Any] = {
        "data_dir": data_dir,
        "device": device,
        "threads": threads,
        "memory": memory,
    }
    plan = make_plan(*join_settings(dataset, config, options), **where)
    with show_progress({plan.config.method: plan}, progress) as shown:
        folder = None if out is None else Path(out)
        return execute(plan, folder, progress=shown(plan), callbacks=callbacks)


def execute(
    plan: Plan,
    out: Path | None = None,
    *,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
    baselines: Path | None = None,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Run all splits of a plan, or continue them in `out`; return the result.

    The trainings alone are saved in `baselines` (by default `out`), and shared by runs of other
    methods on the same splits. Each of `callbacks` makes one for each split by `for_split`, which
    is called in the method's own rounds, and at the end with the result.
    """
    with file_errors():
        finished = out is not None and (out / "summary.json").exists()
    if out is not None and finished:
        _check_same(plan, out)
        result = load_result(out)
        _notify(result, _split_callbacks(plan, out, callbacks))
        return result
    with training_process(), _folder(plan, out):
        started = time.monotonic()
        split_callbacks = _split_callbacks(plan, out, callbacks)
        jobs = list_jobs(plan, out, baselines or out)
        keepers = {k: KeepFinalState() for k in range(plan.config.splits)} if out is None else {}
        called = [
            [*calls, keepers[k]] if k in keepers else calls
            for k, calls in enumerate(split_callbacks)
        ]
        finished_jobs, layout = run_jobs(plan, jobs, progress, stop, called)
        splits = tuple(_split_result(plan, k, finished_jobs) for k in range(plan.config.splits))
        environment = {
            "layout": {**_layout(plan), **layout},
            "versions": _versions(),
            "inputs": plan.inputs.to_json(),
            "finished": datetime.now(UTC).isoformat(" ", "minutes"),
        }
        states = {k: keeper.state for k, keeper in keepers.items() if keeper.state is not None}
        origin = Origin(out, plan, states)
        result = Result(plan.config, splits, time.monotonic() - started, environment, origin)
        if out is not None:
            result.write_tables(out)
        _notify(result, split_callbacks)
        return result


def _split_callbacks(
    plan: Plan, out: Path | None, callbacks: Sequence[Callback]
) -> list[list[Callback]]:
    """Return the callbacks of each split."""
    splits = range(plan.config.splits)
    return [[c.for_split(plan.config, k, out) for c in callbacks] for k in splits]


def _notify(result: Result, split_callbacks: Sequence[Sequence[Callback]]) -> None:
    """Call `on_result` of the callbacks of each split."""
    for split, callbacks in zip(result.splits, split_callbacks, strict=True):
        for callback in callbacks:
            callback.on_result(split.history, split.metrics())


def _split_result(plan: Plan, number: int, jobs: dict[tuple[int, str], Finished]) -> SplitResult:
    """Return the result of one split from its jobs."""
    method, alone, again = (jobs[number, part] for part in ("method", "alone", "alone-again"))
    return SplitResult(
        seed=plan.config.seed + number,
        names=method.split.names,
        roles=method.split.roles,
        graphs=tuple(len(t) for t in method.split.partition.train),
        test_graphs=tuple(len(t) for t in method.split.partition.test),
        alone=alone.history.columns["accuracy"][-1],
        alone_again=again.history.columns["accuracy"][-1],
        alone_one_class=alone.history.columns["one_class"][-1],
        metric=plan.config.metric,
        history=method.history,
        giving=_giving(plan, number, jobs) if plan.config.incentives else None,
    )


def _giving(plan: Plan, number: int, jobs: dict[tuple[int, str], Finished]) -> Giving:
    """Return what the member of a split had for each share of its graphs that it gave."""
    shares = {**{share: part for part, share in GIVES.items()}, 1.0: "method"}
    histories = [jobs[number, shares[share]].history for share in SHARES]
    agent = draw_member(plan.config.seed + number, len(histories[0].names))
    return Giving(
        agent=agent,
        accuracy=tuple(float(h.columns["accuracy"][-1, agent]) for h in histories),
        payoff=tuple(float(h.columns["payoff"][:, agent].sum()) for h in histories),
    )


@contextmanager
def _folder(plan: Plan, out: Path | None) -> Iterator[None]:
    """Create the out folder or check that it is this run's, and lock it for this process."""
    if out is None:
        yield
        return
    if (out / "config.json").exists():
        _check_same(plan, out)
    elif out.exists() and (not out.is_dir() or any(p.name != ".lock" for p in out.iterdir())):
        raise MotifairError(f"{out} is not empty and holds no run; name another --out.")
    with file_errors():
        (out / "checkpoint").mkdir(parents=True, exist_ok=True)
    with locked(out):
        if not (out / "config.json").exists():
            write_config(out, plan.config, plan.environment(), plan.inputs.to_json())
        yield


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Lock the folder of a run for this process."""
    with file_errors():
        opened = (out / ".lock").open("w")
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise MotifairError(f"Another process is writing {out}; wait for it.") from error
        yield


def _check_same(plan: Plan, out: Path) -> None:
    wanted = plan.config.to_json()
    with damaged_files(out):
        stored = read_json(out / "config.json")["options"]
        # Some options are not written where they have their usual value.
        usual = {k: getattr(plan.config, k) for k in stored if k in OPTIONS and k not in wanted}
        other = [k for k, value in {**wanted, **usual}.items() if stored.get(k) != value]
    if other:
        values = ", ".join(f"{k}={stored.get(k)}" for k in other[:3])
        more = wanted["rounds"]
        longer = other == ["rounds"] and more > stored["rounds"]
        whole = out.parent if (out.parent / COMPARISON).exists() else out
        how = f", or extend it: motifair resume {whole} --rounds {more}" if longer else "."
        raise MotifairError(f"{out} holds another run ({values}); name another --out{how}")


def _layout(plan: Plan) -> dict[str, Any]:
    on_cpu = plan.device.type == "cpu"
    return {
        "device": plan.device.type,
        "threads": plan.threads,
        "tf32": bool(torch.backends.cuda.matmul.allow_tf32) and not on_cpu,
        "global_model": _global_model(plan.config),
    }


def _global_model(config: Config) -> str | None:
    """Return which model the global accuracy was measured on, or None if there is none."""
    if not find_method(config.method).global_model or config.spaces == "own":
        return None
    if config.share == "all":
        return "server"
    return "server's convolutions and the mean of the agents' personal layers"


def _versions() -> dict[str, str]:
    others = {name: version(name) for name in ("torch", "torch_geometric", "numpy")}
    return {"python": platform.python_version(), "motifair": __version__, **others}
