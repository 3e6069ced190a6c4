"""Whatever is asked, the answer is never a failure and never another file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import books
import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import response_schema_conformance
from served import OPERATOR, TOKENS, bearer, served, token_access

from motifair.consortium.dashboard.assets import FILES

SECRET = "what-nobody-may-read-here"
CHOSEN = [not_a_server_error, response_schema_conformance]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("operator")
    place = str(folder / "ledger.sqlite")
    books.write(place, books.make_run(rounds=8))
    for path in (folder / "secret.txt", folder / "runs" / books.RUN / "secret.txt"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET)
    with served(place, token_access(), folder) as at:
        yield at


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[httpx.Client]:
    """One client for all requests: to make one takes longer than a request."""
    with httpx.Client(base_url=address) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_whatever_fits_the_schema_or_does_not_is_answered(
    address: str, mode: GenerationMode
) -> None:
    described = schemathesis.openapi.from_url(f"{address}/openapi.json", headers=bearer(OPERATOR))
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) == 10
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and "{" not in operation.path:
            continue  # nothing is asked for, so nothing can be wrong

        @settings(max_examples=20, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: schemathesis.Case) -> None:
            answer = case.call(headers=bearer(OPERATOR))
            case.validate_response(answer, checks=CHOSEN)
            assert SECRET not in answer.text

        ask()


WAYS_OUT = st.sampled_from(
    ["..", ".", "/", "\\", "%2e%2e", "%2f", "%5c", "%00", "\x00", "~", "...", "runs", books.RUN,
     "secret.txt", "ledger.sqlite", "etc/passwd", "\u202e", "ａ", "\n", ";", "'", "$(id)"]
)  # fmt: skip
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
NAMES = st.one_of(
    st.lists(WAYS_OUT, min_size=1, max_size=8).map("".join),
    TEXT,
    st.integers(1000, 6000).map(lambda n: "x" * n),
)
PLACES = st.sampled_from(
    ["/runs/{}", "/api/runs/{}", "/api/runs/{}/curves", "/api/runs/{}/entries/0", "/assets/{}",
     "/api/runs/{}/events", "/{}", f"/api/runs/{books.RUN}/statements/{{}}"]
)  # fmt: skip
WHO = st.sampled_from([OPERATOR, *TOKENS.values()])
ASSETS = "|".join(map(re.escape, FILES))
THERE = re.compile(
    rf"/|/login|/openapi.json|/api/runs|(/api)?/runs/{books.RUN}(/.*)?|/assets/({ASSETS})"
)


@settings(max_examples=250, deadline=None)
@given(name=NAMES, place=PLACES, raw=st.booleans(), who=WHO)
def test_no_name_leads_out(
    client: httpx.Client, address: str, name: str, place: str, raw: bool, who: str
) -> None:
    path = place.format(name if raw else quote(name, safe=""))
    try:
        with client.stream("GET", address + path, headers=bearer(who)) as answer:
            endless = answer.headers.get("content-type", "").startswith("text/event-stream")
            content = b"" if endless else answer.read()
    except httpx.InvalidURL:
        return
    assert answer.status_code < 500
    if answer.is_success:
        assert THERE.fullmatch(answer.request.url.path), path
    for wrong in (SECRET.encode(), b"root:", b"SQLite format"):
        assert wrong not in content


@settings(max_examples=80, deadline=None)
@given(
    query=st.dictionaries(
        st.sampled_from(["page", "size", "points", "format", "v", "failed", "next", "x"]),
        st.one_of(TEXT, st.integers().map(str)),
        max_size=4,
    ),
    path=st.sampled_from(
        ["/", f"/runs/{books.RUN}", f"/api/runs/{books.RUN}/curves", "/login", "/assets/theme.css",
         f"/api/runs/{books.RUN}/entries", f"/api/runs/{books.RUN}/statements/bank-a"]
    ),
)  # fmt: skip
def test_no_query_makes_it_fail(client: httpx.Client, query: dict[str, str], path: str) -> None:
    answer = client.get(path, params=query, headers=bearer(OPERATOR))
    assert answer.status_code in (200, 422)
    assert SECRET not in answer.text


@pytest.mark.parametrize(
    "line",
    [
        b"GET /runs/../../etc/passwd HTTP/1.1",
        b"GET /assets/../../../secret.txt HTTP/1.1",
        b"GET //etc/passwd HTTP/1.1",
        b"GET /runs/%00 HTTP/1.1",
        b"GET /runs/%ff%fe HTTP/1.1",
        b"GET http://evil.example/runs/x HTTP/1.1",
    ],
)
def test_raw_requests_that_clients_would_tidy_up(address: str, line: bytes) -> None:
    import socket

    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as opened:
        opened.sendall(
            line + b"\r\nHost: localhost\r\nConnection: close\r\n"
            b"Authorization: Bearer " + OPERATOR.encode() + b"\r\n\r\n"
        )
        answer = b"".join(iter(lambda: opened.recv(65536), b""))
    status = int(answer.split(b" ")[1])
    assert 400 <= status < 500
    assert SECRET.encode() not in answer
    assert b"root:" not in answer
    assert Path("/etc/passwd").exists()
