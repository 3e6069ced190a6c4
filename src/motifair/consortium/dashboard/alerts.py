"""Alerts of a federation, posted to a webhook: late, rejected or fined members, and a ledger that
is not verified.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal
from urllib.parse import urlsplit

from motifair.consortium.dashboard.views import Agent
from motifair.consortium.dashboard.watcher import View
from motifair.errors import MotifairError

logger = logging.getLogger(__name__)

Kind = Literal["late", "rejected", "fined", "not verified"]
TIMEOUT = 10.0  # seconds
MOST_WAITING = 1000


@dataclass(frozen=True)
class Alert:
    """What happened, to whom ('' for the ledger), in which round, and a sentence that says so."""

    run: str
    kind: Kind
    agent: str
    round: int
    text: str


def alerts_of(old: View | None, new: View) -> Iterator[Alert]:
    """Yield what is wrong in a view and was not in the one before.

    What a dashboard finds when it starts is not news, except that a ledger is not verified.
    """
    summary = new.detail.summary
    if not summary.fits and (old is None or old.detail.summary.fits):
        text = f"The ledger of {summary.run} is not verified: {summary.finding}"
        yield Alert(summary.run, "not verified", "", summary.round, text)
    if old is None:
        return
    before = {row.agent: row for row in old.detail.agents}
    settled = old.detail.summary.round != summary.round
    for row in new.detail.agents:
        for kind, why in _wrong(before.get(row.agent), row, settled):
            text = f"{row.agent} in round {summary.round} of {summary.run}: {why}"
            yield Alert(summary.run, kind, row.agent, summary.round, text)


def _wrong(old: Agent | None, new: Agent, settled: bool) -> Iterator[tuple[Kind, str]]:
    """Yield what is wrong with an agent; a status once, what a round says once for each round."""
    if _is_missing(new) and (old is None or not _is_missing(old)):
        yield "late", f"{new.status}{f' ({new.reason})' if new.reason else ''}"
    if settled and new.outcome == "rejected":
        yield "rejected", f"its upload was rejected ({new.reason})"
    if settled and new.payoff.startswith("-"):
        yield "fined", f"it pays a penalty of {new.payoff.removeprefix('-')}"


def _is_missing(row: Agent) -> bool:
    """Whether a member is late or was absent; before its first round nobody is."""
    return row.status in ("late", "gone") or row.status == row.outcome == "absent"


class Webhook:
    """Posts alerts as JSON, in their order, from a thread of its own.

    A post that fails is logged and not repeated: a webhook that is away must not hold up the next.
    """

    def __init__(self, address: str) -> None:
        if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).hostname:
            raise MotifairError("A webhook is an address such as https://host/path.")
        self.address = address
        self.waiting: queue.Queue[Alert] = queue.Queue(MOST_WAITING)
        threading.Thread(target=self._post_all, name="webhook", daemon=True).start()

    def __call__(self, old: Mapping[str, View], new: Mapping[str, View]) -> None:
        """Post what is new in the views of all runs."""
        for run, view in new.items():
            for alert in alerts_of(old.get(run), view):
                try:
                    self.waiting.put_nowait(alert)
                except queue.Full:
                    logger.warning("too many alerts; left out: %s", alert.text)

    def _post_all(self) -> None:
        while True:
            self._post(self.waiting.get())

    def _post(self, alert: Alert) -> None:
        request = urllib.request.Request(
            self.address, json.dumps(asdict(alert)).encode(), {"Content-Type": "application/json"}
        )
        try:
            urllib.request.urlopen(request, timeout=TIMEOUT).close()
        except (OSError, ValueError) as error:
            # Not the address: it may hold a secret.
            logger.warning("the webhook did not take an alert (%s): %s", error, alert.text)
