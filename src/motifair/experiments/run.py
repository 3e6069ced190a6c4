"""Run a method over data splits, each beside agents that train alone (twice)."""

from __future__ import annotations

import fcntl
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from motifair.config import Config
from motifair.errors import MotifairError
from motifair.experiments.jobs import Finished, Progress, list_jobs, run_jobs
from motifair.experiments.origin import KeepFinalState, Origin
from motifair.experiments.plan import Given, Plan, join_settings, make_plan, write_config
from motifair.experiments.progress import show_progress
from motifair.experiments.result import Result, SplitResult, load_result
from motifair.federation.callbacks import Callback
from motifair.files import file_errors, read_json
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
    """Train a method on data splits, each beside two trainings of every agent alone.

    Arguments:
        dataset: a name, the path of a TU folder or zip, several of these joined by commas, a list
            of PyG or NetworkX graphs, a mapping from agent to such a list, or a `Config`, which
            names its dataset; default the embedded dataset.
        config: a configuration; `options` go over it.
        out: folder for the run, written as it goes; calling again continues an interrupted run, and
            loads a finished one. Default none, the result is in memory only.
        data_dir: folder with datasets; default MOTIFAIR_DATA, or they are downloaded.
        device: `auto`, `cpu` or `cuda`.
        threads: workers; default all usable cores.
        memory: GiB of a GPU for splits that are trained together; default 80 % of what is free.
        callbacks: called in the method's own rounds, such as the loggers of `motifair.report`.
        progress: whether to show progress; default in a notebook, and where the standard error is
            a terminal.
        **options: any option of `Config` by name; `method` may be a subclass of `Method`.

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
    """Run all splits of a plan, or what is left of them in `out`.

    The trainings alone are kept in `baselines` (by default in `out`), where runs of other methods
    on the same splits find them. Each of `callbacks` is asked for one for each split, which hears
    of the method's own rounds there, and in the end of the result.
    """
    with file_errors():
        finished = out is not None and (out / "summary.json").exists()
    if out is not None and finished:
        _check_same(plan, out)
        return _told(load_result(out), _hears(plan, out, callbacks))
    with training_process(), _folder(plan, out):
        started = time.monotonic()
        hears = _hears(plan, out, callbacks)
        jobs = list_jobs(plan, out, baselines or out)
        kept = {} if out is not None else {k: KeepFinalState() for k in range(plan.config.splits)}
        heard = [[*calls, *([kept[k]] if k in kept else [])] for k, calls in enumerate(hears)]
        found, layout = run_jobs(plan, jobs, progress, stop, heard)
        results = tuple(_split_result(plan, k, found) for k in range(plan.config.splits))
        environment = {
            "layout": {**_layout(plan), **layout},
            "versions": _versions(),
            "inputs": plan.inputs.to_json(),
        }
        states = {k: keeper.state for k, keeper in kept.items() if keeper.state is not None}
        origin = Origin(out, plan, states)
        result = Result(plan.config, results, time.monotonic() - started, environment, origin)
        if out is not None:
            result.write_tables(out)
        return _told(result, hears)


def _hears(plan: Plan, out: Path | None, callbacks: Sequence[Callback]) -> list[list[Callback]]:
    """Return for each split who hears of it."""
    splits = range(plan.config.splits)
    return [[c.for_split(plan.config, k, out) for c in callbacks] for k in splits]


def _told(result: Result, hears: Sequence[Sequence[Callback]]) -> Result:
    """Tell callbacks of each split what it came to."""
    for split, callbacks in zip(result.splits, hears, strict=True):
        for callback in callbacks:
            callback.on_result(split.history, split.metrics())
    return result


def _split_result(plan: Plan, number: int, found: dict[tuple[int, str], Finished]) -> SplitResult:
    """Put together what was found on one split."""
    method, alone, again = (found[number, part] for part in ("method", "alone", "alone-again"))
    return SplitResult(
        seed=plan.config.seed + number,
        names=method.split.names,
        roles=method.split.roles,
        graphs=tuple(len(t) for t in method.split.partition.train),
        test_graphs=tuple(len(t) for t in method.split.partition.test),
        alone=alone.history.columns["accuracy"][-1],
        alone_again=again.history.columns["accuracy"][-1],
        alone_one_class=alone.history.columns["one_class"][-1],
        history=method.history,
    )


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
    with file_errors():
        (out / "checkpoint").mkdir(parents=True, exist_ok=True)
        opened = (out / ".lock").open("w")
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise MotifairError(f"Another process is writing {out}; wait for it.") from error
        if not (out / "config.json").exists():
            write_config(out, plan.config, plan.environment(), plan.inputs.to_json())
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
    others = {name: version(name) for name in ("torch", "torch_geometric", "numpy")}
    return {"python": platform.python_version(), "motifair": __version__, **others}
