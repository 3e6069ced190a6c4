"""Who may see what."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import books
import httpx
import pytest
from served import OPERATOR, TOKENS, bearer, client, served, token_access
from starlette.testclient import TestClient

from motifair.consortium.dashboard import access as access_module
from motifair.consortium.dashboard.access import (
    Access,
    Viewer,
    check_access,
    is_loopback,
    read_agent_tokens,
    read_token,
)
from motifair.consortium.dashboard.api import ONE_AGENTS_STREAMS
from motifair.consortium.dashboard.connections import bounded_protocol
from motifair.errors import MotifairError

RUN = books.RUN
HALVES = (b"", b"GET / HT", b"POST /login HTTP/1.1\r\nContent-Length: 9\r\n\r\n")
OWN = f"/api/runs/{RUN}/statements/bank-a"
OTHERS = f"/api/runs/{RUN}/statements/bank-b"
MATRIX = [  # path, who has no token, bank-a, the operator
    ("/", 303, 200, 200),
    (f"/runs/{RUN}", 303, 200, 200),
    ("/runs/none", 303, 404, 404),
    (f"/runs/{RUN}/agents/bank-a", 303, 200, 200),
    (f"/runs/{RUN}/agents/bank-b", 303, 403, 200),
    (f"/runs/{RUN}/agents/nobody", 303, 403, 404),
    (f"/api/runs/{RUN}/curves?agent=bank-b", 401, 403, 200),
    ("/api/runs", 401, 200, 200),
    (f"/api/runs/{RUN}", 401, 200, 200),
    ("/api/runs/none", 401, 404, 404),
    (f"/api/runs/{RUN}/curves", 401, 200, 200),
    (f"/api/runs/{RUN}/entries", 401, 200, 200),
    (f"/api/runs/{RUN}/rounds.csv", 401, 200, 200),
    (f"/api/runs/{RUN}/entries/2", 401, 403, 200),
    (f"/runs/{RUN}/entries/2", 303, 403, 200),
    ("/results/none", 303, 403, 404),
    ("/compare", 303, 422, 422),
    ("/api/results", 401, 403, 200),
    ("/api/results/none/curves", 401, 403, 404),
    ("/api/results/none/agents.csv", 401, 403, 404),
    (OWN, 401, 200, 200),
    (OTHERS, 401, 403, 200),
    (f"/api/runs/{RUN}/statements/nobody", 401, 403, 404),
    ("/openapi.json", 401, 403, 200),
    ("/metrics", 401, 403, 200),
    ("/login", 200, 200, 200),
    ("/assets/theme.css", 200, 200, 200),
    ("/docs", 404, 404, 404),
    ("/redoc", 404, 404, 404),
]


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[TestClient]:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run(rounds=8))
    with client(place, token_access(), follow_redirects=False) as opened:
        yield opened


@pytest.mark.parametrize(("path", "stranger", "agent", "operator"), MATRIX)
def test_who_gets_what(
    asking: TestClient, path: str, stranger: int, agent: int, operator: int
) -> None:
    assert asking.get(path).status_code == stranger
    assert asking.get(path, headers=bearer(TOKENS["bank-a"])).status_code == agent
    assert asking.get(path, headers=bearer(OPERATOR)).status_code == operator
    wrong = asking.get(path, headers=bearer("no-token-of-anybody-here"))
    assert wrong.status_code == stranger


def test_a_stream_is_for_who_has_a_token(asking: TestClient) -> None:
    for path in ("/api/events", f"/api/runs/{RUN}/events"):
        assert asking.get(path).status_code == 401


def others_amounts() -> set[str]:
    """What an agent must not see: every payoff and sum of the others, as they would be written."""
    found, own = set(), {"0.00"}
    for agent in books.NAMES:
        lines = [x for e in books.make_run(rounds=8) for x in e.lines if x.agent == agent]
        sums = [sum(x.payoff for x in lines[: k + 1]) for k in range(len(lines))]
        texts = {f"{units / 100:.2f}" for units in [*sums, *(x.payoff for x in lines)]}
        texts |= {f"{x.value / 1e12:.4f}" for x in lines}
        if agent == "bank-a":
            own |= texts
        else:
            found |= texts
    return found - own


def seen_by_an_agent(at: str) -> dict[str, str]:
    """All that bank-a can get: every answer and page, and what is pushed to it."""
    found = {}
    with httpx.Client(base_url=at, headers=bearer(TOKENS["bank-a"])) as http:
        for path, _, _, _ in MATRIX:
            found[path] = http.get(path).text
        for path in ("/api/events", f"/api/runs/{RUN}/events"):
            with http.stream("GET", path) as answer:
                data = next(line for line in answer.iter_lines() if line.startswith("data: "))
                found[path] = json.loads(data.removeprefix("data: "))
    return found


def test_nothing_an_agent_can_get_shows_anothers_payoff_or_name(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run(rounds=8))
    with served(place, token_access()) as at:
        found = seen_by_an_agent(at)
    assert "bank-a" in found[f"/runs/{RUN}"]
    for path, text in found.items():
        numbers = set(re.findall(r"-?\d+\.\d+", text))
        assert not numbers & others_amounts(), path
        assert not re.search("bank-[bcd]", text), path


def test_neither_does_what_does_not_fit(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run(rounds=8))
    books.forge(place, "UPDATE lines SET payoff = 424242 WHERE number = 2 AND agent = 'bank-b'")
    with served(place, token_access()) as at:
        found = seen_by_an_agent(at)
        summary = json.loads(found["/api/runs"])[0]
        assert summary["finding"] == "entry 2, round 2: does not fit; ask the operator why"
        assert not any("424242" in text or "bank-b" in text for text in found.values())
        whole = httpx.get(f"{at}/api/runs", headers=bearer(OPERATOR)).json()[0]
        assert "bank-b" in whole["finding"]


def test_an_agents_curves_are_its_own(asking: TestClient) -> None:
    found = asking.get(f"/api/runs/{RUN}/curves", headers=bearer(TOKENS["bank-c"])).json()
    assert [curve["agent"] for curve in found["curves"]] == ["bank-c"]


def test_who_is_no_member_sees_what_is_public(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run())
    token = "this-one-is-of-a-newcomer"
    with client(place, Access(OPERATOR, {"bank-new": token})) as asking:
        detail = asking.get(f"/api/runs/{RUN}", headers=bearer(token)).json()
        assert detail["agents"] == []
        assert "not a member" in asking.get(f"/runs/{RUN}", headers=bearer(token)).text
        path = f"/api/runs/{RUN}/statements/bank-new"
        assert asking.get(path, headers=bearer(token)).status_code == 404


def log_in(asking: TestClient, token: str, **headers: str) -> httpx.Response:
    return asking.post("/login", data={"token": token}, headers=headers)


def test_a_form_gives_a_session_that_can_be_ended(asking: TestClient) -> None:
    assert asking.get("/").headers["location"] == "/login"
    answer = log_in(asking, TOKENS["bank-a"])
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKENS["bank-a"] not in cookie
    assert asking.get(OWN).status_code == 200
    assert asking.get(OTHERS).status_code == 403
    session = asking.cookies["motifair-session"]
    asking.post("/logout")
    asking.cookies.set("motifair-session", session)
    assert asking.get(OWN).status_code == 401


def test_a_session_ends_by_itself(asking: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "LASTS", -1.0)
    log_in(asking, OPERATOR)
    assert asking.get("/api/runs").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
def test_a_form_on_another_page_is_refused(asking: TestClient, headers: dict[str, str]) -> None:
    answer = log_in(asking, OPERATOR, **headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_who_keeps_on_guessing_has_to_wait_and_locks_nobody_out(asking: TestClient) -> None:
    def guess(k: int) -> httpx.Response:
        return log_in(asking, f"a-guess-{k}", **{"X-Forwarded-For": f"10.0.0.{k}"})

    for k in range(access_module.MOST_FAILED - 1):
        assert guess(k).headers["location"] == "/login?failed=true"
    assert [guess(k).status_code for k in range(20, 25)] == [429] * 5
    assert asking.get("/api/runs", headers=bearer("a-guess")).status_code == 429
    assert asking.get("/api/runs", headers=bearer(OPERATOR)).status_code == 200
    assert log_in(asking, TOKENS["bank-a"]).headers["location"] == "/"


def test_an_agents_streams_are_its_own(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run(rounds=1))
    streams: list[Iterator[str]] = []
    with served(place, token_access()) as at, httpx.Client() as http, ExitStack() as stack:

        def listen(token: str) -> int:
            answer = stack.enter_context(
                http.stream("GET", f"{at}/api/events", headers=bearer(token))
            )
            if answer.status_code == 200:
                streams.append(answer.iter_lines())
                next(streams[-1])  # it counts from its first line on
            return answer.status_code

        opened = [listen(TOKENS["bank-a"]) for _ in range(ONE_AGENTS_STREAMS + 2)]
        assert opened == [200] * ONE_AGENTS_STREAMS + [429, 429]
        assert listen(TOKENS["bank-b"]) == 200
        assert listen(OPERATOR) == 200


def test_half_open_connections_are_closed_and_nobody_waits_for_them(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run(rounds=1))
    with served(place, http=bounded_protocol(most=30, within=1.0)) as at, ExitStack() as stack:
        address = urlsplit(at)
        for k in range(120):
            half = socket.create_connection((str(address.hostname), int(address.port or 0)))
            stack.callback(half.close)
            half.sendall(HALVES[k % 3])
        assert httpx.get(f"{at}/api/runs").status_code == 200
        half.settimeout(10)
        with suppress(ConnectionResetError):  # also the newest is closed, after a second
            while half.recv(1000):
                pass


def test_a_stream_ends_with_its_session(tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run(rounds=3))
    with served(place, token_access()) as at, httpx.Client(base_url=at) as http:
        http.post("/login", data={"token": TOKENS["bank-a"]})
        with http.stream("GET", "/api/events") as answer:
            lines = answer.iter_lines()
            next(lines)
            httpx.post(f"{at}/logout", cookies=dict(http.cookies))
            books.write(place, books.make_run(rounds=4)[4:])
            assert not any("4 of 20" in line for line in lines)


@pytest.mark.parametrize("body", [b"", b"token=", b"\xff\x00", b"token=" + b"x" * 10_000, b"&&=="])
def test_rubbish_in_the_form_is_refused(asking: TestClient, body: bytes) -> None:
    answer = asking.post("/login", content=body)
    assert answer.status_code in (303, 413)
    assert "set-cookie" not in answer.headers


def test_tokens_may_be_given_as_their_hashes(tmp_path: Path) -> None:
    token, hashed = "a-token-that-is-long-enough", tmp_path / "agents.toml"
    digest = access_module._digest(token).hex()
    hashed.write_text(f'bank-a = "sha256:{digest}"\n"bank b" = "another-token-long-enough"\n')
    access = Access(OPERATOR, read_agent_tokens(hashed))
    assert access.by_token(token) == Viewer("bank-a")
    assert access.by_token("another-token-long-enough") == Viewer("bank b")
    assert access.by_token(f"sha256:{digest}") is None
    assert access.by_token("\udcff") is None


MISTAKES = [
    (lambda: Access("short"), "openssl rand"),
    (lambda: Access("with a space in between it all"), "openssl rand"),
    (lambda: Access(OPERATOR, {"a": OPERATOR}), "its own"),
    (lambda: Access(None, {"a": OPERATOR}), "the operator"),
    (lambda: check_access(Access(), "0.0.0.0", ()), "--token-file"),
    (lambda: check_access(Access(), "127.0.0.1", ["fed.example"]), "--token-file"),
]


@pytest.mark.parametrize(("mistake", "named"), MISTAKES)
def test_mistakes_with_tokens_are_sentences(mistake: object, named: str) -> None:
    with pytest.raises(MotifairError, match=named):
        mistake()  # type: ignore[operator]


def test_files_with_tokens_that_cannot_be_read_are_sentences(tmp_path: Path) -> None:
    empty, wrong = tmp_path / "empty", tmp_path / "wrong"
    empty.write_text("\n")
    wrong.write_text("a = 5\n")
    for path in (empty, tmp_path / "none", tmp_path):
        with pytest.raises(MotifairError, match="openssl rand"):
            read_token(path)
    with pytest.raises(MotifairError, match='a = "token"'):
        read_agent_tokens(wrong)
    wrong.write_text("a = = 5\n")
    with pytest.raises(MotifairError, match="TOML"):
        read_agent_tokens(wrong)


def test_which_hosts_are_this_machine_alone() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "")))
    check_access(Access(), "127.0.0.1", ())
    check_access(Access(OPERATOR), "0.0.0.0", ())
