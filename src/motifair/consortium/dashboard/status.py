"""The state of a run and the status of its agents, from `live.json` and from the ledger."""

from __future__ import annotations

from motifair.consortium.dashboard.run_index import RunIndex
from motifair.consortium.dashboard.views import AgentStatus, RunState
from motifair.consortium.live import PULSE, ExchangeStatus

GONE = 3  # rounds in a row without an upload
SILENT = 4 * PULSE  # seconds without a pulse after which the server is taken to be down


def state_of(index: RunIndex, moment: ExchangeStatus | None, now: float) -> RunState:
    """Return the state of a run; without a moment only whether it is finished is known."""
    terms = index.verification.books.terms
    if terms is not None and index.verification.books.round >= terms.rounds:
        return "finished"
    if moment is None:
        return "open"
    return "running" if now - moment.written_at < SILENT else "standing"


def pause_of(
    index: RunIndex, moment: ExchangeStatus | None, state: RunState, now: float, *, names: bool
) -> str:
    """Say why nothing goes on, and what to do; '' where something does, or where it is unknown.

    Whom the server waits for is said by name, or else by number.
    """
    if state == "standing":
        return (
            "The server is not at work. Start it again with motifair federation server start, then "
            "motifair federation run: it continues after the last round."
        )
    if state != "running" or moment is None or not moment.open or now <= moment.deadline_at:
        return ""
    terms, missing = index.verification.books.terms, sorted({*moment.asked} - {*moment.answered})
    who = ", ".join(missing) if names else f"{len(missing)} members"
    quorum = f"{terms.quorum} uploads" if terms else "its quorum"
    return f"The deadline is over, and the round waits for {quorum}; no answer yet from {who}."


def status_of(
    agent: str, index: RunIndex, moment: ExchangeStatus | None, state: RunState, now: float
) -> AgentStatus:
    """Return the status of an agent.

    training  was asked, has not answered yet, and has time
    waiting   has answered, or was not asked for anything
    late      missed the deadline of this round, or of the last one and has not answered since
    gone      did so for several rounds

    Where the server is down, it is the status of the last round.
    """
    missed = index.missed.get(agent, 0)
    if moment is None or state not in ("running", "finished"):
        line = index.last.get(agent)
        return "gone" if missed >= GONE else line.status if line else "absent"
    if agent in moment.answered:
        return "waiting"
    if missed >= GONE:
        return "gone"
    if agent not in moment.asked:
        return "late" if missed else "waiting"
    in_time = moment.open and now <= moment.deadline_at
    return "training" if in_time and not missed else "late"
