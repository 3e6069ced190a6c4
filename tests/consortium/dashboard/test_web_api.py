"""The answers of the dashboard: what they hold, their headers, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import books
import httpx
import pytest
from served import Writer, client, served, until
from starlette.testclient import TestClient

from motifair.consortium.dashboard.api import BEAT, Form
from motifair.consortium.dashboard.dependencies import AWAY
from motifair.consortium.live import LIVE, LiveStatusWriter
from motifair.statements.entry import Entry

RUN = books.RUN
PATHS = [
    "/",
    f"/runs/{RUN}",
    f"/runs/{RUN}?page=2",
    f"/runs/{RUN}/agents/bank-a",
    "/api/runs",
    f"/api/runs/{RUN}",
    f"/api/runs/{RUN}/curves",
    f"/api/runs/{RUN}/rounds.csv",
    f"/api/runs/{RUN}/entries",
    f"/api/runs/{RUN}/entries/3",
    *(f"/api/runs/{RUN}/statements/bank-a?format={form}" for form in Form),
    "/assets/theme.css",
    "/assets/plotly.js",
    "/openapi.json",
    "/metrics",
]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    place = str(tmp_path_factory.mktemp("ledger") / "ledger.sqlite")
    books.write(place, books.make_run(rounds=8))
    with client(place) as opened:
        yield opened


@pytest.mark.parametrize("path", [*PATHS, "/nowhere", "/api/nowhere", "/runs/none", "/?x=%00"])
def test_every_answer_has_the_security_headers(asking: TestClient, path: str) -> None:
    answer = asking.get(path)
    assert answer.status_code == (200 if path in PATHS else 404 if "no" in path else 200)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    kept = "no-cache" if path.startswith("/assets") else "no-store"
    assert answer.headers["cache-control"] == kept


@pytest.mark.parametrize("path", PATHS)
def test_head_is_answered_and_nothing_can_be_written(asking: TestClient, path: str) -> None:
    head = asking.head(path)
    assert (head.status_code, head.content) == (200, b"")
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert asking.request(method, path).status_code == 405


def test_the_run_is_shown_as_the_ledger_has_it(place: str) -> None:
    entries = books.make_run(rounds=8)
    books.write(place, entries)
    with client(place) as asking:
        compare(asking, entries)


def compare(asking: TestClient, entries: list[Entry]) -> None:
    (summary,) = asking.get("/api/runs").json()
    assert (summary["run"], summary["round"], summary["members"]) == (RUN, 8, 4)
    assert (summary["head"], summary["fits"]) == (entries[-1].hash, True)
    paid = sum(entry.budget for entry in entries if entry.settled)
    assert summary["paid"] == f"{paid / 100:.2f}"
    detail = asking.get(f"/api/runs/{RUN}").json()
    for row, line in zip(detail["agents"], entries[-1].lines, strict=True):
        total = sum(x.payoff for e in entries for x in e.lines if x.agent == line.agent)
        assert row["paid"] == f"{total / 100:.2f}"
        assert (row["agent"], row["outcome"]) == (line.agent, line.status)
    curve = asking.get(f"/api/runs/{RUN}/curves").json()["curves"][0]
    assert curve["rounds"] == list(range(1, 9))
    assert curve["value"] == [
        round(x.value / 1e12, 6) for e in entries for x in e.lines if x.agent == curve["agent"]
    ]
    whole = asking.get(f"/api/runs/{RUN}/entries/3").json()
    assert whole["hash"] == entries[3].hash


def test_entries_come_in_pages_newest_first(asking: TestClient) -> None:
    found = [
        row["number"]
        for page in (1, 2, 3)
        for row in asking.get(f"/api/runs/{RUN}/entries?size=4&page={page}").json()["entries"]
    ]
    assert found == list(range(8, -1, -1))
    assert asking.get(f"/api/runs/{RUN}/entries?page=999").json()["entries"] == []
    for wrong in ("page=0", "page=x", "size=0", "size=1000", f"page={10**30}"):
        assert asking.get(f"/api/runs/{RUN}/entries?{wrong}").status_code == 422


def test_pages_need_no_script(asking: TestClient) -> None:
    page = asking.get(f"/runs/{RUN}").text
    for name in books.NAMES:
        assert name in page
    assert "<script>" not in page
    assert " style=" not in page
    assert "onclick" not in page
    assert "✓ verified" in page


def test_what_does_not_fit_is_named(place: str) -> None:
    books.write(place, books.make_run())
    books.forge(place, "UPDATE lines SET payoff = payoff + 1 WHERE number = 2 AND agent = 'bank-b'")
    with client(place) as asking:
        assert "entry 2, round 2, bank-b" in asking.get("/").text
        page = asking.get(f"/runs/{RUN}").text
        assert "✗ does not fit" in page
        for path in ("statements/bank-a", "rounds.csv"):
            assert asking.get(f"/api/runs/{RUN}/{path}").status_code == 409


@pytest.mark.parametrize("form", list(Form))
def test_statements_are_files_to_download(asking: TestClient, form: Form) -> None:
    answer = asking.get(f"/api/runs/{RUN}/statements/bank-c?format={form}")
    assert answer.headers["content-disposition"] == f'attachment; filename="{RUN}-bank-c.{form}"'
    if form is Form.JSON:
        assert json.loads(answer.text)["agent"] == "bank-c"
    if form is Form.PDF:
        assert answer.content.startswith(b"%PDF")
    assert asking.get(f"/api/runs/{RUN}/statements/bank-x?format={form}").status_code == 404
    assert asking.get(f"/api/runs/{RUN}/statements/bank-c?format=exe").status_code == 422


def test_all_rounds_can_be_downloaded_and_say_what_the_ledger_says(asking: TestClient) -> None:
    answer = asking.get(f"/api/runs/{RUN}/rounds.csv")
    assert answer.headers["content-disposition"] == f'attachment; filename="{RUN}.csv"'
    found = [(int(row["round"]), row["agent"], row["payoff"]) for row in read_csv(answer.text)]
    lines = [(entry.round, x) for entry in books.make_run(rounds=8) for x in entry.lines]
    assert found == [(round_, x.agent, f"{x.payoff / 100:.2f}") for round_, x in lines]


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_names_from_the_ledger_are_text_and_nothing_else(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    name, agent = "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'
    Writer(place, [agent, "b"], run=name).round()
    Writer(place, ["a", "b"], run='x"y\nz')
    with client(place) as asking:
        for path in ("/", "/runs/%3Cscript%3Ealert(1)%3C%2Fscript%3E"):
            page = asking.get(path).text
            assert "<script>alert" not in page
            assert "<img" not in page
        path = f"/api/runs/x%22y%0Az/statements/{'a' * 10}"
        assert asking.get(path).status_code == 404


def test_a_failure_nobody_foresaw_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run())
    with client(place, raise_server_exceptions=False) as asking:
        monkeypatch.setattr("motifair.consortium.dashboard.api.curves_of", lambda *_: 1 / 0)
        answer = asking.get(f"/api/runs/{RUN}/curves")
        assert answer.status_code == 500
        assert "ZeroDivision" not in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_while_the_ledger_is_away_that_is_what_is_told(place: str) -> None:
    books.write(place, books.make_run())
    with client(place) as asking:
        watcher = asking.app.state.context.watcher  # type: ignore[attr-defined]
        read, watcher._read_new = watcher._read_new, lambda: 1 / 0
        until(lambda: watcher.problem)
        for path in ("/api/runs", f"/api/runs/{RUN}", f"/api/runs/{RUN}/curves"):
            answer = asking.get(path)
            assert (answer.status_code, answer.json()) == (503, {"detail": AWAY})
        page = asking.get(f"/runs/{RUN}")
        assert page.status_code == 503
        assert 'http-equiv="refresh"' in page.text
        watcher._read_new = read
        until(lambda: not watcher.problem)
        assert asking.get(f"/runs/{RUN}").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil"])
def test_another_name_for_this_machine_is_refused(asking: TestClient, host: str) -> None:
    assert asking.get("/api/runs", headers={"Host": host}).status_code == 400
    for ours in ("localhost:8080", "127.0.0.1", "[::1]:99"):
        assert asking.get("/api/runs", headers={"Host": ours}).status_code == 200


def test_without_a_token_a_proxy_is_refused(asking: TestClient) -> None:
    answer = asking.get("/", headers={"X-Forwarded-For": "203.0.113.7"})
    assert answer.status_code == 400
    assert "--token-file" in answer.text


def test_assets_can_be_kept_for_ever_and_are_a_fixed_list(asking: TestClient) -> None:
    page = asking.get(f"/runs/{RUN}").text
    address = next(part for part in page.split('"') if part.startswith("/assets/plotly.js"))
    answer = asking.get(address)
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-encoding"] == "gzip"
    again = asking.get(address, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["cache-control"] == answer.headers["cache-control"]
    older = asking.get(address.partition("=")[0] + "=000000000000")
    assert older.headers["cache-control"] == "no-cache"
    for name in ("../app.py", "base.html", "%2e%2e%2fapp.py", "", "plotly.js/"):
        assert asking.get(f"/assets/{name}").status_code == 404


def events(answer: httpx.Response) -> Iterator[dict[str, str]]:
    found: dict[str, str] = {}
    for line in answer.iter_lines():
        if line:
            key, _, value = line.partition(": ")
            found[key] = value
        elif found:
            yield found
            found = {}


def test_rounds_are_pushed_and_nothing_is_pushed_twice(place: str) -> None:
    writer = Writer(place)
    with served(place) as at, httpx.stream("GET", f"{at}/api/runs/live/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = events(answer)
        assert next(found) == {"retry": "2000"}
        assert '<strong id="round">0</strong>' in json.loads(next(found)["data"])
        writer.round()
        pushed = next(found)
        assert '<strong id="round">1</strong>' in json.loads(pushed["data"])
        known = {"Last-Event-ID": pushed["id"]}
        with httpx.stream("GET", f"{at}/api/runs/live/events", headers=known) as again:
            more = events(again)
            next(more)
            writer.round()
            assert '<strong id="round">2</strong>' in json.loads(next(more)["data"])


def test_many_listeners_share_one_reader(place: str) -> None:
    writer = Writer(place)
    with served(place) as at, httpx.Client() as http:
        streams = [http.stream("GET", f"{at}/api/runs/live/events") for _ in range(20)]
        found = [events(stream.__enter__()) for stream in streams]
        for each in found:
            next(each), next(each)
        writer.round()
        texts = {next(each)["data"] for each in found}
        assert len(texts) == 1
        for stream in streams:
            stream.__exit__(None, None, None)
        assert http.get(f"{at}/api/runs").json()[0]["round"] == 1


def test_a_silent_stream_shows_that_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert BEAT > 1
    monkeypatch.setattr("motifair.consortium.dashboard.api.BEAT", 0.1)
    place = str(tmp_path / "ledger.sqlite")
    Writer(place)
    with served(place) as at, httpx.stream("GET", f"{at}/api/events") as answer:
        lines = answer.iter_lines()
        assert any(line == ": still here" for line, _ in zip(lines, range(20), strict=False))


def test_what_the_server_waits_for_is_shown_live(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    Writer(place).round()
    folder = tmp_path / "runs" / "live"
    folder.mkdir(parents=True)
    with client(place, runs=tmp_path) as asking, LiveStatusWriter(folder / LIVE) as live:
        live.started(2, books.NAMES, 60)
        live.replied("bank-b")

        def found() -> dict[str, str]:
            agents = asking.get("/api/runs/live").json()["agents"]
            return {row["agent"]: row["status"] for row in agents}

        until(lambda: found().get("bank-b") == "waiting")
        assert found()["bank-a"] == "training"
        assert "1 of 4 have answered" in asking.get("/runs/live").text
