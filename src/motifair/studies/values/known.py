"""Truth that need not be trained again: the files of an earlier run of the study.

Whoever changes the mechanism changes what is paid, and not what members are worth. To train every
coalition takes a GPU; to pay them again, and compare it with the truth, does not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from motifair.errors import MotifairError
from motifair.studies.values.truth import Array

SPLIT = ["dataset", "scenario", "split"]
EXACT = 1e-5  # of utilities of nobody, which are computed: files have six digits


class Known:
    """Utilities of coalitions, and how near valuations are to the truth, split by split.

    Those that are `stale` are left out: valuations that the present code does not give.
    """

    def __init__(self, folder: Path, stale: Collection[str] = ()) -> None:
        self.folder = folder
        self.utilities = self._read("utilities").set_index(SPLIT).sort_index()
        ranks, agents = self._read("splits"), self._read("agents")
        rows = ranks.merge(agents, on=[*SPLIT, "valuation"], how="left").fillna({"role": ""})
        self.valuations = rows[~rows["valuation"].isin(stale)]

    def scenarios(self, dataset: str) -> list[str]:
        """Return the scenarios of a dataset, in order."""
        rows = self.valuations[self.valuations["dataset"] == dataset]
        if rows.empty:
            known = ", ".join(self.valuations["dataset"].unique())
            raise MotifairError(f"{self.folder} has no truth of {dataset}; it has {known}.")
        return list(rows["scenario"].unique())

    def find(self, about: Mapping[str, Any], rounds: int) -> pd.DataFrame:
        """Return the rows of a split's coalitions, in order."""
        key, what = tuple(about.values()), _words(about)
        if key not in self.utilities.index:
            raise MotifairError(
                f"{self.folder} has no truth of {what}; name other datasets or scenarios, or fewer "
                "splits."
            )
        rows = self.utilities.loc[[key]].sort_values("coalition")
        if (rows["rounds"] != rounds).any():
            raise MotifairError(
                f"The truth of {what} in {self.folder} is of {rows['rounds'].iloc[0]} rounds, not "
                f"{rounds}; give as many."
            )
        return rows

    def utility(self, about: Mapping[str, Any], rounds: int, agents: int, nobody: float) -> Array:
        """Return the utilities of all coalitions of a split in two trainings, `(2, 2^A)`.

        That of `nobody` is computed from the graphs that are read here, and must be the same.
        """
        utility = self.find(about, rounds)[["utility", "utility_again"]].to_numpy().T
        if utility.shape[1] != 2**agents or not np.allclose(utility[:, 0], nobody, rtol=EXACT):
            raise MotifairError(
                f"The truth of {_words(about)} in {self.folder} is of other graphs than are read "
                "here; take the dataset that it was measured on."
            )
        return utility

    def others(self, about: Mapping[str, Any], measured: Collection[str]) -> pd.DataFrame:
        """Return the rows of a split's valuations, without those that are measured now."""
        same = (self.valuations[list(about)] == pd.Series(about)).all(axis=1)
        return self.valuations[same & ~self.valuations["valuation"].isin(measured)]

    def _read(self, name: str) -> pd.DataFrame:
        path = self.folder / f"{name}.csv"
        if not path.is_file():
            raise MotifairError(
                f"{self.folder} has no {path.name}; name a folder with results of "
                "`motifair paper values`."
            )
        table = pd.read_csv(path, dtype={"role": str})
        if name == "utilities" and "rounds" not in table:
            raise MotifairError(
                f"{path} does not say after how many rounds; make it anew with "
                "`motifair paper values`."
            )
        return table


def _words(about: Mapping[str, Any]) -> str:
    return "{dataset}, {scenario}, split {split}".format(**about)
