"""Ledger entries of a simulated split, without keys and signatures."""

from __future__ import annotations

import math

from motifair.config import Config
from motifair.errors import MotifairError
from motifair.experiments.split_result import SplitResult
from motifair.mechanism.payoff import SIZE_PAYOFFS
from motifair.mechanism.settlement import to_pico
from motifair.methods import make_method
from motifair.statements.accounts import Accounts
from motifair.statements.entry import LARGEST, AgreedTerms, Entry, Line

CURRENCY, DIGITS = "credits", 6


def entries_of(config: Config, split: SplitResult, run: str) -> tuple[Entry, ...]:
    """Return the entries that settle the recorded values of a split, in millionths of a credit.

    Payoffs differ from the history's by rounding only. Penalties are not limited.
    """
    if config.payoff in SIZE_PAYOFFS:
        raise MotifairError(
            f"This run pays by payoff={config.payoff}, which is a comparison and is never settled; "
            "name a run with payoff=paper."
        )
    accounts = Accounts(run)
    terms = AgreedTerms(
        members=dict.fromkeys(split.names, ""),
        budget=round(config.budget * 10**DIGITS),
        digits=DIGITS,
        currency=CURRENCY,
        max_penalty=LARGEST,
        max_total_penalty=LARGEST,
        rounds=config.rounds,
        quorum=1,
        method=config.method,
        pays="value" if make_method(config).pays_by_value else "equal",
        config=config.to_json(),
    )
    entries = [accounts.agree(terms)]
    accounts.add(entries[-1])
    for t in range(len(split.history.global_accuracy)):
        entries.append(accounts.settle(_lines(split, t)))
        accounts.add(entries[-1])
    return tuple(entries)


def _lines(split: SplitResult, t: int) -> list[Line]:
    row = {name: column[t] for name, column in split.history.columns.items()}
    return [
        Line(
            agent=name,
            status="present",
            reason="",
            value=to_pico(row["value"][k]),
            alignment=_pico_or_none(row["alignment"][k]),
            diversity=_pico_or_none(row["diversity"][k]),
            compensation=0,
            kept=int(row["kept"][k]),
            payoff=0,
            upload="",
            signature="",
        )
        for k, name in enumerate(split.names)
    ]


def _pico_or_none(number: float) -> int | None:
    return None if math.isnan(number) else to_pico(number)
