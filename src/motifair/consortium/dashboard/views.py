"""What is shown of a run, to the operator and to one of its agents.

These are also the answers of the API. Amounts are exact decimals, as text; times are in UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from motifair.report.verdicts import look_at, most_and_least
from motifair.statements.verification import Mismatch

RunState = Literal["finished", "running", "standing", "open"]
AgentStatus = Literal["training", "waiting", "late", "gone", "present", "absent", "rejected"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Summary(_Frozen):
    """A run in one row.

    `paid` is what its settled rounds paid to all agents. `fits` says whether all entries verify,
    `finding` names the first that does not, `checked_at` is when the whole chain was last read.
    `state` is `open` where it is unknown when the server was last running. `left` is
    estimated: seconds until the last round, by the rounds that the dashboard saw, or None.
    """

    run: str
    method: str
    state: RunState
    round: int
    rounds: int
    members: int
    present: int
    currency: str
    budget: str
    paid: str
    entries: int
    head: str
    fits: bool
    finding: str
    checked_at: datetime
    left: int | None = None


class Agent(_Frozen):
    """A member: its status, when it was last seen, its value and what it was paid in all.

    `seen_at` is known only where the folder of runs is, `seen_in` is the last round in which it
    was present. `outcome` and `reason` are those of the last round, as are `alignment`
    (or coverage) and `received`, the share of the update that it was given. `accuracy` is that of
    its model on its own test graphs, which it reports after the last round.
    """

    agent: str
    status: AgentStatus
    seen_at: datetime | None
    seen_in: int | None
    outcome: str
    reason: str
    value: float | None
    alignment: float | None
    received: float | None
    accuracy: float | None
    payoff: str
    paid: str


class OpenExchange(_Frozen):
    """What the server is waiting for."""

    round: int
    asked: int
    answered: int
    asked_at: datetime
    deadline_at: datetime


class Detail(_Frozen):
    """One run: its agents, how many have which status, and what the server is waiting for.

    `verdict` says what follows from all of it, and `pause` why nothing goes on, where that is so.
    `aligned` is what alignments are called: alignment or coverage. An agent sees only itself in
    `agents`.
    """

    summary: Summary
    counts: dict[AgentStatus, int]
    exchange: OpenExchange | None
    verdict: str
    pause: str
    aligned: str
    agents: list[Agent]


class Row(_Frozen):
    """One entry of the ledger in brief; `hash` is the recorded one."""

    number: int
    kind: str
    round: int
    settled: bool
    present: int
    members: int
    budget: str
    hash: str
    fits: bool


class Page(_Frozen):
    """Some entries, newest first."""

    page: int
    pages: int
    entries: list[Row]


class Curve(_Frozen):
    """An agent's value and what it was paid so far, by round; colours and dash are the report's."""

    agent: str
    marked: bool
    light: str
    dark: str
    dash: str
    rounds: list[int]
    value: list[float]
    paid: list[float]


class Curves(_Frozen):
    """Curves of a run, thinned; with many agents the best and least paid are marked."""

    run: str
    currency: str
    agents: int
    curves: list[Curve]


class Problem(_Frozen):
    """Why there is no answer, in a sentence."""

    detail: str


def for_agent(detail: Detail, finding: Mismatch | None, pause: str, agent: str) -> Detail:
    """Return what an agent may see of a run: its own row, and what is public (`pause`)."""
    return detail.model_copy(
        update={
            "pause": pause,
            "verdict": verdict_for_agent(detail, agent),
            "summary": public(detail.summary, finding, agent),
            "agents": [row for row in detail.agents if row.agent == agent],
        }
    )


def verdict_for_operator(summary: Summary, agents: Sequence[Agent]) -> str:
    """Say who was paid most and least, and whom to look at."""
    if not summary.fits:
        return "The ledger does not fit: pay nothing by this page."
    if not summary.round or not agents:
        return "No round is settled yet."
    paid = np.array([float(row.paid) for row in agents])
    names = [row.agent for row in agents]
    harmed = [row.agent for row in agents if row.value is not None and row.value < 0]
    missing = [row.agent for row in agents if row.outcome not in ("present", "")]
    unpaid = [name for name, amount in zip(names, paid, strict=True) if not amount]
    look = look_at(
        {
            "has a negative value": harmed,
            "was paid nothing": unpaid,
            "missed the last round": missing,
        }
    )
    return f"{most_and_least(names, paid, summary.currency)} {look}".rstrip()


def verdict_for_agent(detail: Detail, agent: str) -> str:
    """Say what a member was paid of everything that was paid."""
    s, row = detail.summary, next((r for r in detail.agents if r.agent == agent), None)
    if not s.fits:
        return "The ledger does not fit; ask the operator why."
    if row is None or not s.round:
        return ""
    of_all = f"of {s.paid} {s.currency} in all, among {s.members} members"
    return f"You were paid {row.paid} {s.currency} {of_all}. Your own page says why."


def public(summary: Summary, finding: Mismatch | None, agent: str) -> Summary:
    """Reduce a finding to its place, unless it is the agent's own: it may hold another's payoff."""
    if finding is None or finding.agent == agent:
        return summary
    place = Mismatch(finding.number, finding.round, "", "does not fit; ask the operator why")
    return summary.model_copy(update={"finding": str(place)})
