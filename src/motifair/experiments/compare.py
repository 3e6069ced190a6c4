"""Compare several methods on the same splits, against the same trainings alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from motifair.config import OPTIONS, Config, make_config
from motifair.errors import MotifairError
from motifair.experiments.comparison import Comparison
from motifair.experiments.jobs import Progress
from motifair.experiments.plan import Given, Plan, join_settings, make_plan
from motifair.experiments.progress import show_progress
from motifair.experiments.result import Result
from motifair.experiments.together import execute_together
from motifair.federation.callbacks import Callback
from motifair.graphs.dataset import Objects
from motifair.methods import Method, all_methods, find_method, method_settings, reads


def choose_methods(words: str) -> list[str]:
    """Return the methods named by `all` or by names joined by commas; refuse fewer than two."""
    if words == "all":
        return list(all_methods())
    names = [w.strip() for w in words.split(",") if w.strip()]
    for name in names:
        find_method(name)
    if len(set(names)) < 2:
        raise MotifairError("A comparison needs at least two methods; join names with commas.")
    return list(dict.fromkeys(names))


def compare(
    dataset: Given = None,
    *,
    methods: str | Sequence[str | Method | type[Method]] = "all",
    baseline: str | None = None,
    config: Config | None = None,
    out: str | Path | None = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
    threads: int | None = None,
    memory: float | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    **options: Any,
) -> Comparison:
    """Run several methods on the same splits; agents are trained alone once, for all of them.

    Arguments:
        dataset, config, out, data_dir, device, threads, memory, callbacks, progress: as for `run`.
            In `out` each method has a folder.
        methods: `all`, names joined by commas, or a list of names, subclasses of `Method` or
            their instances.
        baseline: the method that the others are compared with; default fedavg, else the first.
        **options: as for `run`, except `method`; the method of `config` is ignored. An
            option of the mechanism is passed to the methods that use it.

    Returns:
        The results by method, with paired differences to the baseline.

    >>> small = {"agents": 3, "rounds": 2, "hidden": 8, "device": "cpu", "threads": 1}
    >>> comparison = compare(methods="fedavg,self-train", **small)
    >>> list(comparison.results), comparison.to_frame()["metric"].nunique()
    (['fedavg', 'self-train'], 3)
    """
    if "method" in options:
        raise MotifairError("A comparison takes methods, not method; name at least two.")
    own: dict[str, dict[str, Any]] = {}
    if not isinstance(methods, str):
        own = {settings["method"]: settings for settings in map(method_settings, methods)}
    names = choose_methods(methods if isinstance(methods, str) else ",".join(own))
    where = {"data_dir": data_dir, "device": device, "threads": threads, "memory": memory}
    chosen, settings = join_settings(dataset, config, options)
    settings.pop("method", None)
    plans = make_plans(chosen, {n: own.get(n, {}) for n in names}, settings, **where)
    folder = None if out is None else Path(out)
    with show_progress(plans, progress) as shown:
        return execute_all(plans, folder, baseline=baseline, progress=shown, callbacks=callbacks)


def make_plans(
    dataset: str | Path | Objects,
    methods: Mapping[str, Mapping[str, Any]],
    options: Mapping[str, Any],
    **where: Any,
) -> dict[str, Plan]:
    """Check a comparison and return the plan of each method.

    An option of the mechanism or of a component is passed to the methods that use it, and refused
    if none does. `methods` maps each name to the options of that method alone.
    """
    usual = make_config({"profile": options.get("profile", "default")})
    for name, value in options.items():
        repeated = name in OPTIONS and value == getattr(usual, name)
        if not repeated and not any(reads(m, name, options) for m in methods):
            known = f" ({OPTIONS[name].metadata['help']})" if name in OPTIONS else ""
            raise MotifairError(f"None of {', '.join(methods)} uses {name}{known}; leave it out.")
    plans = {}
    for method, alone in methods.items():
        used = {name: value for name, value in options.items() if reads(method, name, options)}
        plans[method] = make_plan(dataset, {**used, **alone, "method": method}, **where)
    return plans


def execute_all(
    plans: Mapping[str, Plan],
    out: Path | None = None,
    *,
    baseline: str | None = None,
    progress: Callable[[Plan], Progress | None] = lambda plan: None,
    stop: Callable[[], bool] = lambda: False,
    callbacks: Sequence[Callback] = (),
) -> Comparison:
    """Run all plans, or continue them in `out`, in a folder for each method; compare results."""
    reference = baseline or ("fedavg" if "fedavg" in plans else next(iter(plans)))
    if reference not in plans:
        raise MotifairError(f"The baseline {reference} is not among the methods; add it.")

    def gather(results: Mapping[str, Result]) -> Comparison:
        return Comparison(results, reference)

    return execute_together(
        plans,
        out,
        gather,
        lambda plan: "baselines",
        progress=progress,
        stop=stop,
        callbacks=callbacks,
    )
