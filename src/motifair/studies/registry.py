"""The studies by name; a study is imported when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from motifair.errors import MotifairError, nearest

if TYPE_CHECKING:
    from motifair.studies.study import Study

# Each module has a `STUDY`; the order is that in which `all` runs them.
MODULES = {
    "datasets": "motifair.studies.datasets",
    "table2": "motifair.studies.table2",
    "perturbed": "motifair.studies.perturbed",
    "tradeoff": "motifair.studies.tradeoff",
    "payoff": "motifair.studies.payoff",
    "ablation": "motifair.studies.ablation",
    "lambda": "motifair.studies.sweep",
    "scale": "motifair.studies.scale",
    "contribution": "motifair.studies.contribution",
    "members": "motifair.studies.members",
    "claims": "motifair.studies.claims",
    "pooled": "motifair.studies.pooled",
    "manipulation": "motifair.studies.manipulation",
    "influence": "motifair.studies.influence",
    "axioms": "motifair.studies.axioms",
    "inversion": "motifair.studies.inversion",
    "values": "motifair.studies.values.study",
}
ALL = "all"


def choose_studies(name: str) -> list[str]:
    """Return the name, or the names of all studies for `all`.

    >>> choose_studies("tabel2")
    Traceback (most recent call last):
    motifair.errors.MotifairError: There is no study 'tabel2'. Did you mean table2?
    """
    if name == ALL:
        return list(MODULES)
    if name not in MODULES:
        raise MotifairError(f"There is no study '{name}'. {nearest(name, [*MODULES, ALL])}")
    return [name]


def load_study(name: str) -> Study:
    """Import a study by name.

    >>> load_study("datasets").summary
    'the table of datasets, counted from the data'
    """
    try:
        study: Study = import_module(MODULES[name]).STUDY
    except ModuleNotFoundError as error:
        raise MotifairError(f"The study {name} needs {error.name}, which is not here.") from error
    return study
