"""The audit of claims, from the operator's folder to members' kits and back, with which the
operator closes the ledger of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from motifair.consortium.claims import Answer, Question, answer, outcome, questions
from motifair.consortium.keys import signer
from motifair.consortium.members_key import read_members_key
from motifair.consortium.operator_folder import OperatorFolder
from motifair.consortium.rounds import RESULT
from motifair.consortium.store.ledger import Ledger, open_ledger
from motifair.consortium.terms import TERMS, read_terms
from motifair.errors import MotifairError
from motifair.graphs.csv_file import Columns
from motifair.graphs.read import read_graphs
from motifair.statements.accounts import Accounts
from motifair.statements.entry import decimal
from motifair.statements.verification import verify_run


def ask(operator: OperatorFolder, run: str) -> list[Question]:
    """Return the questions to the members that the last hash of a run drew."""
    with open_ledger(operator.ledger, write=False) as ledger:
        return questions(operator.terms.name, operator.run(run), _accounts(ledger, run))


def show(question: Question, kit: Path, graphs: Path) -> Answer:
    """Return the answer of the member whose kit and graphs these are, not signed yet."""
    from motifair.consortium.transports.nvflare.kits import name_of

    if (name := name_of(kit)) != question.member:
        raise MotifairError(f"The question is for {question.member}, and the kit is of {name}.")
    terms = read_terms(kit / "local" / TERMS)
    read = read_graphs(graphs, Columns(terms.config.smiles, terms.config.targets))
    return answer(question, terms, read, read_members_key(kit, terms.members_key))


def settle(operator: OperatorFolder, run: str, answers: Sequence[Path]) -> list[str]:
    """Append the audit of claims to the ledger; return a sentence for each member drawn."""
    given = [Answer.read(path) for path in answers]
    key = operator.signing_key()
    with open_ledger(operator.ledger, write=True) as ledger:
        accounts = _accounts(ledger, run)
        asked = questions(operator.terms.name, operator.run(run), accounts)
        finished = datetime.fromtimestamp(_result(operator, run).stat().st_mtime, UTC)
        lines = outcome(asked, given, accounts, finished, datetime.now(UTC))
        entry = accounts.audit(lines).signed(signer(key))
        ledger.append(entry)
    terms = accounts.agreed
    told = [
        f"{x.agent}: {x.reason or 'all graphs were shown'}; fine "
        f"{decimal(-x.payoff, terms.digits)} {terms.currency}"
        for x in entry.lines
    ]
    return [*(told or ["Nobody was drawn."]), f"Recorded as entry {entry.number}, the last."]


def _accounts(ledger: Ledger, run: str) -> Accounts:
    verdict = verify_run(ledger, run)
    if not verdict.fits or not verdict.entries:
        raise MotifairError(
            f"Run {run} in the ledger {ledger.name} is not verified "
            f"({verdict.finding or 'it has no entries'}); see motifair ledger verify."
        )
    return Accounts.of(run, ledger.entries(run))


def _result(operator: OperatorFolder, run: str) -> Path:
    path = operator.run(run) / RESULT
    if not path.exists():
        raise MotifairError(f"Run {run} is not finished; finish it: motifair federation run.")
    return path
