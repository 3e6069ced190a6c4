"""What is shown of a run, as the operator sees it and as one of its agents does.

These are the answers of the API, too. Amounts are exact decimals, as text; times are in UTC.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from motifair.statements.verification import Mismatch

State = Literal["finished", "running", "standing", "open"]
Status = Literal["training", "waiting", "late", "gone", "present", "absent", "rejected"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Summary(_Frozen):
    """A run in one row.

    `paid` is what its settled rounds paid out, all agents together. `fits` says whether all entries
    that were read fit, `finding` names the first one that does not, `checked_at` is when the whole
    chain was last read. `state` is `open` where nobody told when the server was last there.
    """

    run: str
    method: str
    state: State
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


class Agent(_Frozen):
    """A member: what it does, when it was last heard of, what it is worth and was paid in all.

    `seen_at` is known only where the folder of the runs is, `seen_in` is the last round in which it
    was present. `outcome` and `reason` are those of the last round.
    """

    agent: str
    status: Status
    seen_at: datetime | None
    seen_in: int | None
    outcome: str
    reason: str
    value: float | None
    payoff: str
    paid: str


class Exchange(_Frozen):
    """What the server waits for just now."""

    round: int
    asked: int
    answered: int
    asked_at: datetime
    deadline_at: datetime


class Detail(_Frozen):
    """One run: who is there, how many are in which state, and what the server waits for.

    `agents` holds only itself where an agent asks.
    """

    summary: Summary
    counts: dict[Status, int]
    exchange: Exchange | None
    agents: list[Agent]


class Row(_Frozen):
    """One entry of the ledger in brief; `hash` is the one recorded beside it."""

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
    """An agent's value and what it was paid so far, by round."""

    agent: str
    marked: bool
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


def for_agent(detail: Detail, finding: Mismatch | None, agent: str) -> Detail:
    """Leave what an agent may see of a run: its own row, and what is public."""
    return detail.model_copy(
        update={
            "summary": public(detail.summary, finding, agent),
            "agents": [row for row in detail.agents if row.agent == agent],
        }
    )


def public(summary: Summary, finding: Mismatch | None, agent: str) -> Summary:
    """Name only the place of a finding, which may tell another's payoff, unless it is one's own."""
    if finding is None or finding.agent == agent:
        return summary
    told = Mismatch(finding.number, finding.round, "", "does not fit; ask the operator why")
    return summary.model_copy(update={"finding": str(told)})
