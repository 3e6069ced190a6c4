"""Tables of rounds and agents, from a simulation or a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from motifair.experiments.simulated_ledger import CURRENCY
from motifair.mechanism.settlement import PICO
from motifair.report.source import Source
from motifair.statements.entry import AgreedTerms
from motifair.statements.payment import paid_per_value

STATUS = {"present": 0, "absent": 1, "rejected": 2}


@dataclass(frozen=True)
class Timeline:
    """Tables `(rounds, agents)` by name; what was not measured is NaN, or missing altogether.

    Payoff and compensation are money, in `currency`. `status` has the numbers of `STATUS`. `roles`
    is empty where they are unknown.
    """

    agents: tuple[str, ...]
    roles: tuple[str, ...]
    rounds: np.ndarray
    columns: Mapping[str, np.ndarray]
    status: np.ndarray
    currency: str

    @property
    def labels(self) -> dict[str, str]:
        """What each agent is called in a figure: its name, with its role where that is known."""
        roles = self.roles or ("",) * len(self.agents)
        pairs = zip(self.agents, roles, strict=True)
        return {name: f"{name} ({role})" if role else name for name, role in pairs}

    @property
    def received(self) -> np.ndarray:
        """What each agent received of the aggregate, as a share of the most that any did."""
        kept = self.columns["kept"]
        most = np.nanmax(kept, initial=0.0)
        share: np.ndarray = kept / most if most else np.full(kept.shape, np.nan)
        return share

    def ranking(self) -> list[int]:
        """Order agents from the best paid to the worst; equals by value, then by accuracy."""
        totals = [np.nansum(self.columns["payoff"], axis=0)]
        for name in ("value", "accuracy"):
            if name in self.columns and len(self.rounds):
                totals.append(np.nan_to_num(self.columns[name][-1]))
        keys = [-np.round(t, 9) for t in totals]
        return [int(k) for k in np.lexsort(keys[::-1])]


def timeline(source: Source) -> Timeline:
    """Return the tables of a run."""
    return _simulated(source) if source.result is not None else _settled(source)


def _simulated(source: Source) -> Timeline:
    assert source.result is not None
    split = source.result.splits[source.split]
    rounds = len(split.history.global_accuracy)
    return Timeline(
        agents=split.names,
        roles=split.roles,
        rounds=np.arange(1, rounds + 1),
        columns={**split.history.columns, "compensation": split.compensation_paid},
        status=np.zeros((rounds, len(split.names)), dtype=np.int8),
        currency=CURRENCY,
    )


def _settled(source: Source) -> Timeline:
    """Read a ledger's lines into tables; NaN where an agent was no member."""
    rounds = [e for e in source.entries if e.kind == "round"]
    agents = source.agents or tuple(sorted(source.terms.members))
    names = ("value", "payoff", "compensation", "kept")
    columns = {n: np.full((len(rounds), len(agents)), np.nan) for n in names}
    status = np.full((len(rounds), len(agents)), -1, dtype=np.int8)
    place = {name: k for k, name in enumerate(agents)}
    money = 10.0**source.terms.digits
    terms, t = source.terms, -1
    for entry in source.entries:
        if entry.kind == "terms":
            terms = AgreedTerms.from_json(entry.terms)
        if entry.kind != "round":
            continue
        t += 1
        bonuses = any(line.compensation for line in entry.lines)  # only where paid by value
        rate = float(paid_per_value(entry, terms)) / money if bonuses else 0.0
        for line in entry.lines:
            k = place[line.agent]
            columns["value"][t, k] = line.value / PICO
            columns["compensation"][t, k] = rate * line.compensation
            columns["payoff"][t, k] = line.payoff / money
            columns["kept"][t, k] = line.kept
            status[t, k] = STATUS[line.status]
    numbers = np.array([e.round for e in rounds], dtype=int)
    return Timeline(agents, (), numbers, columns, status, source.terms.currency)
