"""Sweeps over λ, the weight of prototypes, and α2, the weight of diversity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from motifair.experiments.comparison import COMPARED, Comparison
from motifair.experiments.plan import Plan
from motifair.methods import find_method
from motifair.studies import drawing
from motifair.studies.rows import split_rows
from motifair.studies.study import CONFIRMATION, Settings, Study, StudyResult, runs_folder

METHOD = "motifair"
SWEEPS = {
    "prototype_weight": (0.0, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0),
    "diversity_weight": (0.0, 2.0, 4.0, 8.0, 16.0),
}
SYMBOLS = {"prototype_weight": "λ", "diversity_weight": "α2"}
SPLITS = 20


@dataclass(frozen=True)
class Variant:
    """A method with one option set; `label` names its run, the method alone for the default."""

    method: str
    option: str
    value: float
    label: str
    plan: Plan


def variants(
    settings: Settings, dataset: str, method: str, option: str, values: Sequence[float], splits: int
) -> list[Variant]:
    """Plan a method at each value of an option and at its default.

    Returns an empty list if the method does not have the option. The default is the plain run of
    the method, which all studies share.
    """
    if option not in find_method(method).options:
        return []
    plain = settings.plan(dataset, seed=CONFIRMATION, splits=splits, method=method)
    default: float = getattr(plain.config, option)
    swept = []
    for value in sorted({*values, default}):
        if value == default:
            swept.append(Variant(method, option, value, method, plain))
            continue
        options = {"method": method, option: value}
        plan = settings.plan(dataset, seed=CONFIRMATION, splits=splits, **options)
        swept.append(Variant(method, option, value, f"{method}-{option}={value:g}", plan))
    return swept


def run(settings: Settings) -> StudyResult:
    """Run both sweeps, with the default values of all other options."""
    planned = [
        variants(settings, dataset, METHOD, option, values, SPLITS)
        for option, values in SWEEPS.items()
        for dataset in settings.datasets or ("PROTEINS",)
    ]
    tables: dict[str, pd.DataFrame] = {}
    raw, figures = [], {}
    for swept in planned:
        option, name = swept[0].option, swept[0].plan.data.name
        comparison = execute(settings, swept)
        raw.append(split_rows(comparison))
        rows = sweep_rows(comparison, swept)
        tables[option] = pd.concat([tables[option], rows]) if option in tables else rows
        figures[f"{option}-{name}"] = draw(rows, f"{name}, {METHOD}")
    return StudyResult(
        "λ and α2: how much prototypes and diversity weigh",
        tables,
        figures,
        _notes(planned),
        # The default is in both sweeps.
        raw={"splits": pd.concat(raw, ignore_index=True).drop_duplicates()},
    )


def execute(settings: Settings, swept: Sequence[Variant]) -> Comparison:
    """Run variants on the same splits; the baseline is the plain run of the first method."""
    plans = {v.label: v.plan for v in swept}
    return settings.execute(runs_folder(swept[0].plan), plans, swept[0].method)


def sweep_rows(comparison: Comparison, swept: Sequence[Variant]) -> pd.DataFrame:
    """Return a row for each metric and value, with the difference to the default."""
    keys = pd.DataFrame(
        {"method": [v.label for v in swept], "value": [v.value for v in swept]}
    ).assign(dataset=comparison.first.config.dataset, option=swept[0].option)
    rows = comparison.to_frame().drop(columns=["rank", "published"]).merge(keys, on="method")
    first = ["dataset", "option", "value", "metric"]
    return rows[[*first, *[c for c in rows if c not in (*first, "method")]]]


def draw(rows: pd.DataFrame, title: str) -> Figure:
    """Draw each metric over the values of the option."""
    option = str(rows["option"].iloc[0])
    figure, axes = drawing.panels(len(COMPARED), width=9, height=3)
    for panel, metric in zip(axes, COMPARED, strict=True):
        label = "mean and 95 % interval over splits"
        drawing.curve(panel, rows[rows["metric"] == metric], label=label)
        panel.set(xlabel=f"{option} [{SYMBOLS[option]}]", ylabel=drawing.TITLES[metric])
    figure.suptitle(title, fontsize=9)
    drawing.legend_outside(figure, *axes)
    return figure


def _notes(planned: Sequence[Sequence[Variant]]) -> list[str]:
    defaults = {v.option: v.value for swept in planned for v in swept if v.label == v.method}
    words = ", ".join(f"{SYMBOLS[o]} = {v:g}" for o, v in defaults.items())
    c = planned[0][0].plan.config
    return [
        f"Splits {c.seed} to {c.seed + c.splits - 1}, {c.rounds} rounds, {c.agents} agents. Means "
        "with Student's 95 % interval over splits; `difference`: paired, to the usual value "
        f"({words}), with a bootstrap interval; `p_holm`: Wilcoxon's p, corrected by Holm over the "
        "values of an option. The paper draws λ without printing figures; α2 is ours."
    ]


STUDY = Study("lambda", "sweeps over the weights of prototypes and diversity (λ, α2)", run)
