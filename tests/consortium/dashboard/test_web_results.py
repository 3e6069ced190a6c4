"""Simulations and comparisons on the dashboard, runs beside each other, entries as pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import books
import pytest
from report_samples import made_up_source
from served import OPERATOR, TOKENS, bearer, client, token_access
from starlette.testclient import TestClient

from motifair.consortium.store.ledger import open_ledger
from motifair.experiments.comparison import Comparison
from motifair.files import write_json

HOSTILE = "<script>alert(1)</script>"


def write_results(folder: Path) -> None:
    """Two runs on the same splits, one on others, a comparison, one unfinished, one damaged."""
    results = {}
    for name, options in {
        "first": {"splits": 2},
        "second": {"splits": 2, "method": "fedavg"},
        "other": {"rounds": 20},
    }.items():
        result = made_up_source([HOSTILE, "b", "c"], **options).result
        assert result is not None
        result.save(folder / name)
        results[name] = result
    compared = {name: results[name] for name in ("first", "second")}
    Comparison(compared, "second").save(folder / "both")
    for name, result in compared.items():
        result.save(folder / "both" / name)
    for name in ("begun", "damaged"):
        (folder / name).mkdir()
        write_json(folder / name / "config.json", {"options": results["first"].config.to_json()})
    (folder / "damaged" / "summary.json").write_text("{}")
    (folder / "notes").mkdir()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("dashboard")
    write_results(made / "runs")
    books.write(str(made / "ledger.sqlite"), books.make_run(rounds=8))
    return made


@pytest.fixture
def asking(folder: Path) -> Iterator[TestClient]:
    place = str(folder / "ledger.sqlite")
    with client(place, results=folder / "runs") as opened:
        yield opened


def test_the_first_page_lists_both_kinds_of_runs(asking: TestClient) -> None:
    page = asking.get("/").text
    assert f'name="run" value="{books.RUN}"' in page
    for name in ("first", "second", "other", "both"):
        assert f'<a href="/results/{name}">' in page
        assert f'name="result" value="{name}"' in page
    assert "0 % done" in page  # begun, without a link
    assert "/results/begun" not in page
    assert "notes" not in page
    rows = {row["run"]: row for row in asking.get("/api/results").json()}
    assert set(rows) == {"first", "second", "other", "both", "begun", "damaged"}
    assert rows["both"]["comparison"]
    assert rows["begun"]["done"] == 0


def test_a_simulation_has_a_page_with_verdict_agents_curves_and_files(asking: TestClient) -> None:
    page = asking.get("/results/first").text
    assert "Federating is not worth it on average: accuracy 0.523 instead of 0.643" in page
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert "2 splits" in page
    curves = asking.get("/api/results/first/curves").json()
    assert [len(c["rounds"]) for c in curves["curves"]] == [30] * 3
    result = made_up_source([HOSTILE, "b", "c"], splits=2).result
    assert result is not None
    agents = asking.get("/api/results/first/agents.csv")
    assert agents.text == result.to_frame().to_csv(index=False)
    assert agents.headers["content-disposition"] == 'attachment; filename="first-agents.csv"'


def test_a_report_is_a_file_to_save_and_never_a_page_here(asking: TestClient) -> None:
    answer = asking.get("/api/results/other/report.html")
    assert answer.text.startswith("<!DOCTYPE html>")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "script-src 'self'" in answer.headers["content-security-policy"]


def test_runs_on_the_same_splits_are_compared_in_pairs(asking: TestClient) -> None:
    for path in ("/compare?result=first&result=second", "/results/both"):
        page = asking.get(path).text
        assert "Best by accuracy" in page, path
        assert "Differences to" in page
    page = asking.get("/compare?result=first&result=other").text
    assert "These runs differ in rounds (20, 30), splits (1, 2)" in page
    assert "Differences to" not in page


def test_runs_of_the_ledger_are_compared_by_what_they_paid(folder: Path, tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    for run in ("one", "two"):
        books.write(place, books.make_run(rounds=4, run=run))
    with client(place, token_access()) as asking:
        page = asking.get("/compare?run=one&run=two", headers=bearer(OPERATOR)).text
        for name in books.NAMES:
            assert f"{name}</th>" in page
        own = asking.get("/compare?run=one&run=two", headers=bearer(TOKENS["bank-a"])).text
        assert "bank-a</th>" in own
        assert "bank-b" not in own
        refused = asking.get("/compare?run=one&result=x", headers=bearer(TOKENS["bank-a"]))
        assert refused.status_code == 403


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/results/nothing", 404, "no such run"),
        ("/results/notes", 404, "no such run"),
        ("/results/%2e%2e", 404, "no such"),
        ("/results/begun", 409, "begun is not finished: 0 % are done"),
        ("/results/damaged", 409, "damaged"),
        ("/compare", 422, "at least two"),
        ("/compare?result=first", 422, "at least two"),
        ("/compare?result=first&result=nothing", 404, "no such run"),
        (f"/compare?run={books.RUN}&run=nothing", 404, "no such run"),
        ("/api/results/first/summary.json", 422, "literal_error"),
        ("/api/results/both/agents.csv", 404, "no such file"),
        (f"/runs/{books.RUN}/entries/99", 404, "no such entry"),
    ],
)
def test_what_is_not_there_is_a_sentence(
    asking: TestClient, path: str, status: int, words: str
) -> None:
    answer = asking.get(path)
    assert (answer.status_code, words in answer.text) == (status, True), answer.text


def test_an_entry_is_a_page_that_says_what_the_ledger_holds(
    asking: TestClient, folder: Path
) -> None:
    with open_ledger(folder / "ledger.sqlite", write=False) as ledger:
        entries = list(ledger.entries(books.RUN))
    assert '<a href="/runs/bank-run/entries/2">' in asking.get(f"/runs/{books.RUN}").text
    page = asking.get(f"/runs/{books.RUN}/entries/2").text
    for line in entries[2].lines:
        assert f"{line.agent}</th>" in page
    assert entries[2].hash in page
    assert entries[1].hash in page
    assert 'href="/runs/bank-run/entries/1"' in page
    terms = asking.get(f"/runs/{books.RUN}/entries/0").text
    assert "Entry 0: terms" in terms
    assert "&#34;kind&#34;: &#34;terms&#34;" in terms


def test_without_a_ledger_there_are_simulations_alone(folder: Path) -> None:
    with client(None, results=folder / "runs") as asking:
        page = asking.get("/").text
        assert "/results/first" in page
        assert "nothing in the ledger" not in page
        assert asking.get("/api/runs").json() == []
        assert asking.get("/metrics").status_code == 200
