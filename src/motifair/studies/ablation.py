"""The ablation: the mechanism with one part removed, compared with the paper's numbers."""

from __future__ import annotations

import pandas as pd

from motifair.studies import drawing
from motifair.studies.rows import comparison_rows, split_rows
from motifair.studies.study import CONFIRMATION, Settings, Study, StudyResult
from motifair.studies.table2 import dataset_name, draw_methods

OURS = "motifair"
METHODS = (
    OURS, "motifair-alignment", "motifair-diversity", "motifair-allocation",
    "motifair-aggregation", "motifair-prototypes",
)  # fmt: skip
SPLITS = 20


def run(settings: Settings) -> StudyResult:
    """Run the mechanism and its five ablations on the same splits."""
    compared = settings.compare(
        settings.datasets or ("PROTEINS",), METHODS, OURS, lambda _: SPLITS, seed=CONFIRMATION
    )
    tables = [comparison_rows(c) for c in compared]
    figures = {}
    for comparison, rows in zip(compared, tables, strict=True):
        name = dataset_name(comparison)
        title = f"{name}, {len(comparison.first.splits)} splits"
        figures[name] = draw_methods(rows, title, height=3.2)
        drawing.legend_outside(figures[name], *figures[name].axes)
    note = (
        "Means with Student's 95 % interval over splits; `difference`: what taking the part out "
        "changes, paired, with a bootstrap interval; `p_holm`: Wilcoxon's p, corrected by Holm "
        "over the five ablations."
    )
    return StudyResult(
        "Ablation: one part taken out",
        {"ablation": pd.concat(tables, ignore_index=True)},
        figures,
        [note],
        raw={"splits": pd.concat([split_rows(c) for c in compared], ignore_index=True)},
    )


STUDY = Study("ablation", "the mechanism with one part removed", run)
