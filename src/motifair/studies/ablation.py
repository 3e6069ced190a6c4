"""The ablation: the mechanism with one part removed, compared with the paper's numbers."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from motifair.experiments.compare import COMPARED
from motifair.studies import drawing
from motifair.studies.rows import comparison_rows, split_rows
from motifair.studies.study import CONFIRMATION, Settings, Study, StudyResult, runs_folder
from motifair.studies.table2 import draw_metric

OURS = "motifair"
METHODS = (
    OURS, "motifair-alignment", "motifair-diversity", "motifair-allocation",
    "motifair-aggregation", "motifair-prototypes",
)  # fmt: skip
SPLITS = 20


def run(settings: Settings) -> StudyResult:
    """Run the mechanism and its five ablations on the same splits."""
    planned = [
        {m: settings.plan(d, seed=CONFIRMATION, splits=SPLITS, method=m) for m in METHODS}
        for d in settings.datasets or ("PROTEINS",)
    ]
    tables, raw, figures = [], [], {}
    for plans in planned:
        name = plans[OURS].data.name
        compared = settings.execute(runs_folder(plans[OURS]), plans, OURS)
        tables.append(comparison_rows(compared))
        raw.append(split_rows(compared))
        figures[name] = draw(tables[-1], f"{name}, {len(compared.first.splits)} splits")
    note = (
        "Means with Student's 95 % interval over splits; `difference`: what taking the part out "
        "changes, paired, with a bootstrap interval; `p_holm`: Wilcoxon's p, corrected by Holm "
        "over the five ablations."
    )
    rows = pd.concat(tables, ignore_index=True)
    return StudyResult(
        "Ablation: one part taken out",
        {"ablation": rows},
        figures,
        [note],
        raw={"splits": pd.concat(raw, ignore_index=True)},
    )


def draw(rows: pd.DataFrame, title: str) -> Figure:
    """Draw each metric by ablation."""
    figure, axes = drawing.panels(len(COMPARED), width=10, height=3.2)
    for panel, metric in zip(axes, COMPARED, strict=True):
        draw_metric(panel, rows[rows["metric"] == metric])
        drawing.name_rows(panel, METHODS if panel is axes[0] else [""] * len(METHODS))
    figure.suptitle(title, fontsize=9)
    drawing.legend_outside(figure, *axes)
    return figure


STUDY = Study("ablation", "the mechanism with one part removed", run)
