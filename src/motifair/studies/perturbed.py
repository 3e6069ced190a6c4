"""The methods of Table 2 on data with quality tiers."""

from __future__ import annotations

from motifair.studies.study import DATASETS, PAYOFF_CONFIRMATION, Settings, Study, StudyResult
from motifair.studies.table2 import BASELINE, METHODS, describe


def run(settings: Settings) -> StudyResult:
    """Run all methods on data with quality tiers, for which the paper prints no table."""
    datasets = settings.datasets or DATASETS
    where = {"seed": PAYOFF_CONFIRMATION, "perturbation": "tiers"}
    compared = settings.compare(datasets, METHODS, BASELINE, splits, **where)
    return describe("All methods, perturbed data (quality tiers)", compared, printed=False)


def splits(dataset: str) -> int:
    """Return the number of splits."""
    return 10 if dataset == "DD" else 20


STUDY = Study("perturbed", "all methods on data with quality tiers", run)
