"""Ledger entries of a simulated split, without keys and signatures."""

from __future__ import annotations

from motifair.config import Config
from motifair.errors import MotifairError
from motifair.experiments.split_result import SplitResult
from motifair.mechanism.payoff import SIZE_PAYOFFS
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
    columns = {name: column[t] for name, column in split.history.columns.items()}
    return [
        Line.unsettled(name, {column: float(row[k]) for column, row in columns.items()})
        for k, name in enumerate(split.names)
    ]
