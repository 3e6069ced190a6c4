"""The methods of Table 2 on data with quality tiers."""

from __future__ import annotations

from motifair.studies.study import PAYOFF_CONFIRMATION, Settings, Study, StudyResult
from motifair.studies.table2 import compare_methods, describe

SPLITS = {"DD": 10}
MOST_SPLITS = 20


def run(settings: Settings) -> StudyResult:
    """Run all methods on data with quality tiers, for which the paper prints no table."""
    compared = compare_methods(
        settings, SPLITS, MOST_SPLITS, seed=PAYOFF_CONFIRMATION, perturbation="tiers"
    )
    return describe("All methods, perturbed data (quality tiers)", compared, printed=False)


STUDY = Study("perturbed", "all methods on data with quality tiers", run)
