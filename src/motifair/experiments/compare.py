"""Compare several methods on the same splits, against the same trainings alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from motifair.config import OPTIONS, Config, make_config
from motifair.errors import MotifairError
from motifair.evaluation.metrics import find_metric
from motifair.evaluation.statistics import holm, mean_ranks, paired_difference
from motifair.experiments.jobs import Progress
from motifair.experiments.plan import Given, Plan, join_settings, make_plan
from motifair.experiments.progress import show_progress
from motifair.experiments.published import published
from motifair.experiments.result import Result, load_result
from motifair.experiments.together import execute_together
from motifair.federation.callbacks import Callback
from motifair.files import file_errors, read_json, write_atomic, write_json
from motifair.graphs.dataset import Objects
from motifair.methods import Method, all_methods, find_method, method_settings, reads

FILE = "comparison.json"
COMPARED = ("personalised_accuracy", "global_accuracy", "fairness")
OTHER_MEASURES = (
    "gain", "worst_gain", "worse_off", "rationality", "rationality_retest", "rank_fairness",
    "payoff_gini", "payoff_jain", "value_payoff", "contribution_payoff", "uploaded", "downloaded",
    "accuracy_slope", "pay_slope", "free_rider_gain",
)  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """Results of several methods on the same splits, as `compare` returns them.

    Shown as a table in a notebook.

    Attributes:
        results: the result of each method, by name.
        baseline: the method that the others are compared with.

    >>> import motifair
    >>> comparison = motifair.compare("PROTEINS", methods="fedavg,motifair")  # doctest: +SKIP
    >>> comparison.results["motifair"].mean["fairness"]  # doctest: +SKIP
    """

    results: Mapping[str, Result]
    baseline: str

    @property
    def first(self) -> Result:
        """The first result, to read what all of them have in common."""
        return next(iter(self.results.values()))

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each method and compared metric.

        Columns: `mean`, `low`, `high` over splits; `difference` to the baseline method with its
        bootstrap interval; `p_holm`, Wilcoxon's p after Holm's correction over methods; `rank`,
        the mean over splits; `published`, the paper's figure, or NaN.
        """
        frames = [self._metric_frame(metric) for metric in COMPARED]
        return pd.concat(frames, ignore_index=True)

    def measures(self) -> pd.DataFrame:
        """Return one row for each method with the measures in addition to the compared metrics."""
        rows = [
            {"method": m, **{k: r.mean[k] for k in OTHER_MEASURES}} for m, r in self.results.items()
        ]
        return pd.DataFrame(rows).set_index("method")

    @property
    def caveats(self) -> dict[str, tuple[str, ...]]:
        """Reasons why a method's fairness is unreliable, for the methods that have some."""
        return {name: r.caveats for name, r in self.results.items() if r.caveats}

    def _repr_html_(self) -> str:
        from motifair.experiments.notebook import comparison_html

        return comparison_html(self)

    def save(self, folder: str | Path) -> None:
        """Write the comparison as CSV, Markdown, LaTeX and JSON to a folder."""
        from motifair.experiments.tables import comparison_table

        folder = Path(folder)
        with file_errors():
            folder.mkdir(parents=True, exist_ok=True)
        table = comparison_table(self)
        write_atomic(folder / "comparison.csv", self.to_frame().to_csv(index=False))
        write_atomic(folder / "measures.csv", self.measures().to_csv())
        write_atomic(folder / "comparison.md", table.to_markdown() + "\n")
        write_atomic(folder / "comparison.tex", table.to_latex())
        write_json(folder / FILE, self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as values that JSON can hold."""
        return {
            "dataset": self.first.config.dataset,
            "metric": self.first.config.metric,
            "baseline": self.baseline,
            "fairness_retest": self.first.mean["fairness_retest"],
            "fairness_bound": self.first.fairness_bound,
            "caveats": {name: list(sentences) for name, sentences in self.caveats.items()},
            "comparison": self.to_frame().to_dict("records"),
            "measures": self.measures().reset_index().to_dict("records"),
        }

    def _metric_frame(self, metric: str) -> pd.DataFrame:
        names = list(self.results)
        values = {m: [s.metrics()[metric] for s in r.splits] for m, r in self.results.items()}
        pairs = [paired_difference(values[m], values[self.baseline]) for m in names]
        tested = [
            p.p if m != self.baseline else float("nan") for m, p in zip(names, pairs, strict=True)
        ]
        rank = mean_ranks([values[m] for m in names])
        # What is published are accuracies, which do not compare with another metric.
        comparable = self.first.metric == find_metric("accuracy")
        dataset = self.first.config.dataset if comparable else ""
        rows = []
        for k, (method, p) in enumerate(zip(names, holm(tested), strict=True)):
            low, high = self.results[method].ci95[metric]
            rows.append(
                {
                    "metric": metric,
                    "method": method,
                    "mean": self.results[method].mean[metric],
                    "low": low,
                    "high": high,
                    "difference": pairs[k].mean,
                    "difference_low": pairs[k].low,
                    "difference_high": pairs[k].high,
                    "p_holm": p,
                    "rank": rank[k],
                    "published": published(dataset, method, metric),
                }
            )
        return pd.DataFrame(rows)


def paired_runs(results: dict[str, Result]) -> Comparison | None:
    """Return the comparison of runs on the same splits; None if they are not."""
    splits = {tuple(split.seed for split in result.splits) for result in results.values()}
    if len(results) < 2 or len(splits) > 1 or unlike(results):
        return None
    return Comparison(results, "fedavg" if "fedavg" in results else next(iter(results)))


def unlike(results: dict[str, Result]) -> list[str]:
    """Name what keeps runs from being compared split by split."""
    differing = []
    for name in ("dataset", "partition", "agents", "rounds", "seed", "splits"):
        values = sorted({str(getattr(r.config, name)) for r in results.values()})
        if len(values) > 1:
            differing.append(f"{name} ({', '.join(values)})")
    return differing


def is_comparison(folder: Path) -> bool:
    """Return whether a folder is that of a finished comparison."""
    return (folder / FILE).exists()


def load_comparison(folder: str | Path) -> Comparison:
    """Load a finished comparison from the folder given as `out` or `--out`.

    Arguments:
        folder: the folder with a subfolder for each method.

    Returns:
        The comparison, equal to the one that was written.
    """
    folder = Path(folder)
    try:
        stored = read_json(folder / FILE)
        methods, baseline = [row["method"] for row in stored["measures"]], stored["baseline"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MotifairError(
            f"{folder} holds no comparison of this version of motifair ({error}); run motifair "
            "compare again into another folder."
        ) from error
    return Comparison({name: load_result(folder / name) for name in methods}, baseline)


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
