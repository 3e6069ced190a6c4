"""Export of a ledger: one row for each member and round, and the balance of each member.

Every number is an exact decimal, never a float.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from motifair.errors import MotifairError
from motifair.extras import require
from motifair.files import check_target, write_atomic
from motifair.statements.accounts import Accounts
from motifair.statements.entry import AgreedTerms, Entry, Line, decimal
from motifair.statements.verification import Verification

if TYPE_CHECKING:
    from motifair.consortium.store.ledger import Ledger

FORMATS = ("csv", "json", "parquet")
RESERVE = "(reserve)"  # in place of a member, which cannot be called so


def overview(ledger: Ledger) -> list[dict[str, str]]:
    """Return one row for each entry, in the order of the chains."""
    rows = []
    for entry in (e for run in ledger.runs() for e in ledger.entries(run)):
        row = {
            "run": entry.run,
            "entry": str(entry.number),
            "kind": entry.kind,
            "round": str(entry.round),
            "settled": "yes" if entry.settled else "no",
            "present": str(sum(line.status == "present" for line in entry.lines)),
            "units": str(entry.budget),
            "hash": entry.hash[:16],
        }
        no_round = dict.fromkeys(("settled", "present", "units"), "")
        rows.append(row if entry.kind == "round" else row | no_round)
    return rows


def balance(
    ledger: Ledger, runs: Iterable[str] | None = None, operator: str = ""
) -> list[dict[str, str]]:
    """Return earnings, penalties, the fine of an audit and balance of each member of each run, as
    exact decimals, and what the reserve holds, where the terms name one.

    Refuse a run that fails verification, against the public key `operator` if given.
    """
    rows = []
    for run in ledger.runs() if runs is None else runs:
        books = _verified(ledger, run, ledger.entries(run), operator)
        for agent in sorted(books.earned):
            fine = (books.audited or {}).get(agent, 0)
            amounts = {"earned": books.earned[agent], "penalties": books.fined[agent]}
            amounts |= {"fine": fine, "balance": books.balance(agent)}
            rows.append(
                {"run": run, "agent": agent, "currency": books.agreed.currency}
                | {k: decimal(v, books.agreed.digits) for k, v in amounts.items()}
            )
        if books.agreed.reserve:
            held, nothing = (decimal(n, books.agreed.digits) for n in (books.reserve, 0))
            about = {"run": run, "agent": RESERVE, "currency": books.agreed.currency}
            none = {"penalties": nothing, "fine": nothing}
            rows.append(about | {"earned": held, **none, "balance": held})
    return rows


def to_frame(
    ledger: Ledger, number: Callable[[str], Any] = Decimal, operator: str = ""
) -> pd.DataFrame:
    """Return one row for each member and round, and for each that an audit drew; `number` converts
    values and money.

    Refuse a run that fails verification, against the public key `operator` if given.
    """
    rows = []
    for run in ledger.runs():
        entries = list(ledger.entries(run))
        terms = _verified(ledger, run, entries, operator).agreed
        rows += [line_row(e, x, terms, number) for e in entries for x in e.lines]
    if not rows:
        raise MotifairError(f"There are no rounds in the ledger {ledger.name} yet.")
    return pd.DataFrame(rows)


def export(ledger: Ledger, path: Path, kind: str, operator: str = "") -> None:
    """Write a ledger as CSV or Parquet (the rows of `to_frame`) or as JSON (the entries)."""
    if kind not in FORMATS:
        raise MotifairError(f"There is no format {kind}; there are {', '.join(FORMATS)}.")
    check_target(path)
    if kind == "parquet":
        require("ledger", "A Parquet file", "pyarrow")
    if kind == "json":
        entries = [e for run in ledger.runs() for e in ledger.entries(run)]
        write_atomic(path, json.dumps(to_json(entries), indent=1) + "\n")
        return
    if kind == "csv":
        write_atomic(path, to_frame(ledger, str, operator).to_csv(index=False))
    else:
        frame = to_frame(ledger, operator=operator)
        write_atomic(path, lambda temporary: frame.to_parquet(temporary, index=False))


def to_json(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return entries as JSON values, each with its hash and the operator's signature."""
    return [{"hash": e.hash, "signature": e.signature, **json.loads(e.to_json())} for e in entries]


def line_row(
    entry: Entry, line: Line, terms: AgreedTerms, number: Callable[[str], Any]
) -> dict[str, Any]:
    """Return a member's line of an entry; `number` converts values and money."""

    def value(pico: int | None) -> Any:
        return None if pico is None else number(decimal(pico, 12))

    return {
        "run": entry.run,
        "entry": entry.number,
        "kind": entry.kind,
        "round": entry.round,
        "settled": entry.settled,
        "agent": line.agent,
        "status": line.status,
        "reason": line.reason,
        "value": value(line.value),
        "alignment": value(line.alignment),
        "diversity": value(line.diversity),
        "compensation": value(line.compensation),
        "kept": line.kept,
        "payoff": number(decimal(line.payoff, terms.digits)),
        "currency": terms.currency,
        "upload": line.upload,
        "signature": line.signature,
        "hash": entry.hash,
        "entry_signature": entry.signature,
    }


def _verified(ledger: Ledger, run: str, entries: Iterable[Entry], operator: str) -> Accounts:
    """Verify entries and return the accounts after them; raise MotifairError on a mismatch."""
    verification = Verification(run, operator=operator)
    for entry in entries:
        if not verification.take(entry):
            break
    mismatch = verification.verdict.finding
    if mismatch or not verification.books.entries:
        reason = mismatch or "it has no entries"
        raise MotifairError(
            f"Run {run} in the ledger {ledger.name} is not verified ({reason}), so nothing can be "
            "paid by it. Check it with: motifair ledger verify."
        )
    return verification.books
