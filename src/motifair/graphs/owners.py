"""Give each graph to an agent by what is known of it: a column, its scaffold, or a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from motifair.errors import MotifairError, nearest
from motifair.graphs.dataset import Dataset, agent_names
from motifair.graphs.graph_set import Ints
from motifair.graphs.molecules import scaffolds

SCAFFOLD = "scaffold"
FUNCTION = "a function"  # the partition of a run to which a function was given
DEFAULT_AGENTS = 10

Owners = Callable[[Dataset], Sequence[Any]]


def by_column(data: Dataset, column: str, agents: int | None, others: Sequence[str]) -> Dataset:
    """Give each graph to an agent by the value of a column, or by `scaffold`.

    Graphs of equal value have the same agent. Each value of a text column has an agent of its own,
    named after it, unless `agents` is less: then the most frequent value goes first, each to the
    agent with the fewest graphs. Scaffolds are always joined in this way, to 10 agents by default.
    Numbers are cut into as many ranges of about equally many graphs.

    Args:
        data: A dataset from a table.
        column: Name of the column, or `scaffold`, the Murcko scaffold of a molecule.
        agents: Number of agents, or None for the default.
        others: Partitions that are no columns, for the error message.

    Raises:
        MotifairError: If there is no such column, values are missing, an agent of its own would
            have no graph, or there are fewer values than agents.
    """
    values = _values(data, column, others)
    count = values.nunique()
    numbers = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    if agents is None:
        agents = min(count, DEFAULT_AGENTS) if numbers or column == SCAFFOLD else count
    if agents >= count and data.table is not None and data.table.emptied:
        raise MotifairError(
            f"Agent '{data.table.emptied[0]}' of partition={column} has no molecule with a value "
            f"of any target that RDKit can read; give it some, or remove its rows from {data.name}."
        )
    if count < max(agents, 2):
        raise MotifairError(
            f"partition={column} has {count} different values in {data.name} for "
            f"{max(agents, 2)} agents; use fewer agents or another partition."
        )
    if agents == count and column != SCAFFOLD:
        return owned(data, values.tolist())
    owner = _ranges(values, agents) if numbers else _joined(values, agents)
    names = np.array(_range_names(values, owner) if numbers else agent_names(agents))
    return owned(data, names[owner].tolist())


def by_function(data: Dataset, function: Owners) -> Dataset:
    """Give each graph to the agent that a function of the dataset returns for it."""
    return owned(data, function(data))


def owned(data: Dataset, owners: Sequence[Any]) -> Dataset:
    """Return the dataset with the name of each graph's agent."""
    names = np.asarray([str(name) for name in owners])
    if len(names) != len(data.graphs):
        raise MotifairError(
            f"The partition gives {len(names)} owners for the {len(data.graphs)} graphs of "
            f"{data.name}; return the name of an agent for each graph."
        )
    distinct, owner = np.unique(names, return_inverse=True)
    if len(distinct) < 2:
        raise MotifairError(
            f"The partition gives all graphs of {data.name} to one agent; name at least two."
        )
    return replace(data, owner=owner, owners=tuple(distinct.tolist()), roles=(), sources=())


def _values(data: Dataset, column: str, others: Sequence[str]) -> pd.Series[Any]:
    known = [] if data.table is None else [str(c) for c in data.table.rows.columns]
    if data.table is None or column not in (*known, SCAFFOLD):
        if data.table is None and column != SCAFFOLD:
            raise MotifairError(
                f"partition takes {' or '.join(others)}, not '{column}'; columns are for CSV files."
            )
        if data.table is None:
            raise MotifairError(
                f"partition={SCAFFOLD} is for molecules in a CSV file; use another one for "
                f"{data.name}."
            )
        hint = nearest(column, [*known, *others])
        raise MotifairError(f"There is no partition or column '{column}'. {hint}")
    if column in known:
        values = data.table.rows[column]
        if values.isna().any():
            raise MotifairError(
                f"{int(values.isna().sum())} molecules of {data.name} have no '{column}' (such as "
                f"'{data.table.rows[data.table.smiles][values.isna()].iloc[0]}'); fill it in, or "
                "use another partition."
            )
        return values
    return pd.Series(scaffolds(data.table.rows[data.table.smiles].tolist()))


def _joined(values: pd.Series[Any], agents: int) -> Ints:
    """Return an agent for each value: the most frequent first, to the agent with the fewest.

    >>> _joined(pd.Series(list("aaabbc")), 2).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    code, distinct = pd.factorize(values, sort=True)
    size = np.bincount(code, minlength=len(distinct))
    agent, held = np.empty(len(distinct), np.int64), np.zeros(agents, np.int64)
    for value in np.argsort(-size, kind="stable"):
        agent[value] = held.argmin()
        held[agent[value]] += size[value]
    return agent[code]


def _ranges(values: pd.Series[Any], agents: int) -> Ints:
    """Cut numbers into ranges of about equally many graphs; equal numbers stay together.

    >>> _ranges(pd.Series([2001, 1999, 2001, 2000, 2005, 2005]), 2).tolist()
    [0, 0, 0, 0, 1, 1]
    """
    code, distinct = pd.factorize(values, sort=True)
    place, total = np.arange(1, agents), np.cumsum(np.bincount(code))
    cut = np.searchsorted(total, len(values) * place / agents) + 1
    # A frequent number may cover several cuts: every range has at least one number.
    cut = np.maximum.accumulate(cut - place) + place
    cut = np.minimum(cut, len(distinct) - agents + place)
    return np.searchsorted(cut, np.arange(len(distinct)), side="right")[code]


def _range_names(values: pd.Series[Any], owner: Ints) -> list[str]:
    """Name ranges by their least and largest number."""
    ranges = values.groupby(owner).agg(["min", "max"])
    return [f"{low:g}" if low == high else f"{low:g}–{high:g}" for low, high in ranges.to_numpy()]
