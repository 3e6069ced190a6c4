"""Alerts are posted once for what is new; metrics say what the pages say."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import books
import pytest
from served import Writer, client, until

from motifair.consortium.dashboard.alerts import Alert, Webhook, alerts_of
from motifair.consortium.dashboard.watcher import View, Watcher
from motifair.errors import MotifairError

Posted = list[dict[str, object]]


def views(watcher: Watcher) -> View:
    watcher.look()
    return watcher.views["live"]


def kinds(alerts: Iterator[Alert]) -> list[tuple[str, str]]:
    return [(alert.kind, alert.agent) for alert in alerts]


def test_what_is_there_at_the_start_is_no_news(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    Writer(place).round(["bank-c"])
    assert kinds(alerts_of(None, views(Watcher(place)))) == []


def test_a_member_that_stays_away_is_told_of_once(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    writer = Writer(place)
    writer.round()
    watcher = Watcher(place)
    seen = []
    before = views(watcher)
    for absent in (["bank-c"], ["bank-c"], [], ["bank-c"], ["bank-c"], ["bank-c"]):
        writer.round(absent)
        after = views(watcher)
        seen.append(kinds(alerts_of(before, after)))
        before = after
    late = [("late", "bank-c")]
    assert seen == [late, [], [], late, [], []]


def test_a_rejected_upload_and_a_penalty_are_told_of_in_every_round(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    writer = Writer(place)
    watcher = Watcher(place)
    for _ in range(2):
        before = views(watcher)
        values = {"bank-a": 0.6, "bank-b": 0.5, "bank-c": -0.2, "bank-d": 0.1}
        status = {"bank-b": "rejected"}
        lines = [books.line(n, v, status.get(n, "present")) for n, v in values.items()]
        writer._append(writer.accounts.settle(lines))
        found = kinds(alerts_of(before, views(watcher)))
        assert found == [("rejected", "bank-b"), ("fined", "bank-c")]
    assert kinds(alerts_of(watcher.views["live"], views(watcher))) == []


def test_a_ledger_that_is_not_verified_is_told_of_also_at_the_start(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run())
    books.forge(place, "UPDATE lines SET payoff = payoff + 1 WHERE number = 2 AND agent = 'bank-b'")
    watcher = Watcher(place)
    watcher.look()
    (alert,) = alerts_of(None, watcher.views[books.RUN])
    assert (alert.kind, alert.agent) == ("not verified", "")
    assert "entry 2, round 2, bank-b" in alert.text


@pytest.fixture
def hook() -> Iterator[tuple[str, Posted]]:
    """A webhook that refuses the first post."""
    posted: Posted = []

    class Taker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.append(json.loads(body))
            self.send_response(500 if len(posted) == 1 else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/secret", posted
    server.shutdown()


def test_alerts_arrive_at_the_webhook_and_a_refusal_stops_nothing(
    tmp_path: Path, hook: tuple[str, Posted], caplog: pytest.LogCaptureFixture
) -> None:
    address, posted = hook
    place = str(tmp_path / "ledger.sqlite")
    writer = Writer(place)
    watcher = Watcher(place, notify=Webhook(address))
    watcher.look()
    for absent in (["bank-c"], [], ["bank-d"]):
        writer.round(absent)
        watcher.look()
    until(lambda: len(posted) == 2)
    assert posted[1] == {
        "run": "live", "kind": "late", "agent": "bank-d", "round": 3,
        "text": "bank-d in round 3 of live: absent (no answer in 60 s)",
    }  # fmt: skip
    assert "did not take an alert" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("address", ["ftp://host/x", "host", "", "file:///etc/passwd"])
def test_only_web_addresses_are_webhooks(address: str) -> None:
    with pytest.raises(MotifairError, match="https://host/path"):
        Webhook(address)


def test_metrics_say_what_the_pages_say(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run(rounds=8))
    with client(place) as asking:
        text = asking.get("/metrics").text
        detail = asking.get(f"/api/runs/{books.RUN}").json()
    run = f'{{run="{books.RUN}"}}'
    assert f"motifair_round{run} 8\n" in text
    assert f"motifair_ledger_verified{run} 1\n" in text
    for row in detail["agents"]:
        labels = f'{{run="{books.RUN}",agent="{row["agent"]}",currency="EUR"}}'
        assert f"motifair_agent_paid{labels} {row['paid']}\n" in text
    for line in text.splitlines():  # the grammar of the format
        assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{(\w+="[^"]*",?)+\})? -?[\d.e-]+', line), (
            line
        )


def test_metrics_escape_names(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    Writer(place, ["a", "b"], run='x"y\nz\\').round()
    with client(place) as asking:
        assert 'motifair_round{run="x\\"y\\nz\\\\"} 1\n' in asking.get("/metrics").text
