"""The dashboard in a real browser, while a run goes on."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import books
import pytest
from deployed import Answer, World, terms_of
from served import OPERATOR, TOKENS, Writer, served, token_access, until
from test_web_results import write_results

from motifair.consortium.wire import Download

WATCH = "addEventListener('securitypolicyviolation', e => console.error(e.violatedDirective))"
PAGES = (
    "/",
    "/results/other",
    "/compare?result=first&result=second",
    f"/runs/{books.RUN}/entries/2",
    f"/runs/{books.RUN}/agents/bank-b",
    f"/runs/{books.RUN}",
)
LINES = "document.querySelectorAll('#value-curve .scatterlayer .trace').length"


@contextmanager
def page_of(browser: Any, at: str, **options: Any) -> Iterator[Any]:
    """Open a page; whatever goes wrong in it, or leads elsewhere, fails the test."""
    context = browser.new_context(base_url=at, **options)
    page, wrong = context.new_page(), []
    page.on("console", lambda m: m.type in ("error", "warning") and wrong.append(m.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    context.on("request", lambda r: r.url.startswith((at, "data:")) or wrong.append(r.url))
    context.on("page", lambda opened: wrong.append(f"opened {opened.url}"))
    page.add_init_script(WATCH)
    try:
        yield page
        assert wrong == []
    finally:
        context.close()


def round_of(page: Any) -> int:
    return int(page.locator("#round").inner_text())


def shows(page: Any, round: int) -> None:
    page.locator("#round", has_text=re.compile(f"^{round}$")).wait_for()


def drawn(page: Any, round: int) -> None:
    page.wait_for_selector(f"#value-curve[data-rounds='{round}']")


def test_a_run_that_goes_on_is_seen_without_a_reload(browser: Any, place: str) -> None:
    writer = Writer(place)
    writer.round()
    with served(place) as at, page_of(browser, at) as page:
        page.goto("/runs/live")
        page.evaluate("window.mark = 'the same page'")
        drawn(page, 1)
        assert page.evaluate(LINES) == 4
        assert not page.locator("[data-part=ledger]").is_visible()
        page.locator("details.ledger summary").click()
        for absent in ((), ("bank-c",)):
            writer.round(absent)
            shows(page, writer.accounts.round)
        drawn(page, 3)
        assert page.evaluate("window.mark") == "the same page"
        assert page.evaluate("document.getElementById('value-curve').data[0].x.length") == 3
        row = page.locator("[data-part=agents] tr", has_text="bank-c")
        assert "absent" in row.inner_text()
        assert writer.accounts.head in page.locator("[data-part=ledger]").inner_text()


def test_curves_have_no_buttons_and_no_way_to_a_cloud(browser: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run())
    script = """() => [...document.querySelectorAll(".js-plotly-plot")].map((plot) => [plot.id,
      plot.querySelectorAll(".modebar-btn").length, plot.querySelectorAll("a").length,
      plot._context.showSendToCloud, plot._context.plotlyServerURL])"""
    with served(place) as at, page_of(browser, at) as page:
        page.goto(f"/runs/{books.RUN}")
        drawn(page, 6)
        page.locator("#paid-curve").hover()
        assert page.evaluate(script) == [
            [name, 0, 0, False, ""] for name in ("value-curve", "paid-curve")
        ]


def test_a_real_run_shows_who_trains_and_who_waits(browser: Any, tmp_path: Path) -> None:
    go = threading.Semaphore(0)

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if task.round > 0:
            go.acquire(timeout=20)
        return answer()

    world = World(tmp_path, terms_of(rounds=2, seed=5), meddle=meddle)

    def run() -> None:
        with world.server(f"runs/{world.run}") as drive:
            drive()

    running = threading.Thread(target=run)
    running.start()
    until(lambda: (tmp_path / "ledger.sqlite").exists() and world.heard)
    with (
        served(str(tmp_path / "ledger.sqlite"), runs=tmp_path) as at,
        page_of(browser, at) as page,
    ):
        page.goto(f"/runs/{world.run}")
        agents = page.locator("[data-part=agents]")
        row = agents.locator("tr", has_text="bank-a")
        until(lambda: agents.locator(".status.training").count() == 4)
        assert "training" in row.inner_text()
        go.release()
        page.wait_for_selector("[data-part=agents] .status.waiting")
        assert "waiting" in row.inner_text()
        assert "ago" in row.inner_text() or "now" in row.inner_text()
        assert "1 of 4 have answered" in page.locator("[data-part=round]").inner_text()
        for _ in range(20):
            go.release()
        shows(page, 2)
        page.get_by_text("finished", exact=True).wait_for()
        drawn(page, 2)
    running.join(30)
    assert not running.is_alive()


def test_the_list_of_runs_grows_by_itself(browser: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    Writer(place, run="first")
    with served(place) as at, page_of(browser, at) as page:
        page.goto("/")
        assert page.locator("tbody tr").count() == 1
        Writer(place, run="second").round()
        page.get_by_role("link", name="second").click()
        page.wait_for_url("**/runs/second")
        assert round_of(page) == 1


def test_runs_are_filtered_chosen_and_compared(browser: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    writer = Writer(place)
    writer.round()
    write_results(tmp_path / "runs")
    with served(place, results=tmp_path / "runs") as at, page_of(browser, at) as page:
        page.goto("/")
        rows = page.locator("[data-part=results] tbody tr")
        assert rows.count() == 6
        field = page.get_by_label("Filter simulations")
        field.fill("FEDAVG second")
        assert rows.locator("visible=true").count() == 1
        field.press("Enter")
        assert page.url.endswith("/")
        page.get_by_label("Compare second").check()
        field.fill("")
        page.get_by_label("Compare first").check()
        page.get_by_role("button", name="Compare").click()
        page.get_by_text("Best by accuracy").wait_for()
        page.goto("/runs/live")
        page.get_by_label("Filter agents").fill("bank-c")
        writer.round()
        shows(page, 2)
        assert page.locator("[data-part=agents] tbody tr").locator("visible=true").count() == 1


def test_an_agent_logs_in_and_sees_only_itself(browser: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run())
    with served(place, token_access()) as at, page_of(browser, at) as page:
        page.goto(f"/runs/{books.RUN}")
        page.wait_for_url("**/login")
        page.get_by_label("Token").fill(TOKENS["bank-b"])
        page.keyboard.press("Enter")
        page.wait_for_url(f"{at}/")
        page.goto(f"/runs/{books.RUN}")
        drawn(page, 6)
        text = page.locator("body").inner_text()
        assert "bank-b" in text
        assert not any(name in text for name in ("bank-a", "bank-c", "bank-d"))
        assert page.evaluate(LINES) == 1
        page.get_by_role("link", name="bank-b", exact=True).click()
        page.wait_for_url(f"**/runs/{books.RUN}/agents/bank-b")
        drawn(page, 6)
        assert "You were paid" in page.locator(".verdict").inner_text()
        assert page.evaluate(LINES) == 1
        with page.expect_download() as download:
            page.get_by_role("link", name="Statement of bank-b as TXT").click()
        assert "bank-b" in Path(download.value.path()).read_text()
        status = "async (path) => (await fetch(path)).status"
        own, others = (f"/api/runs/{books.RUN}/statements/{n}" for n in ("bank-b", "bank-a"))
        assert page.evaluate(status, own) == 200
        answer = page.request.get(others)
        assert answer.status == 403
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/login")
        assert page.request.get(own).status == 401


def test_the_operators_token_opens_everything(browser: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run())
    with served(place, token_access()) as at, page_of(browser, at) as page:
        page.goto("/login")
        page.get_by_label("Token").fill("this is not it, certainly")
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("alert").wait_for()
        page.get_by_label("Token").fill(OPERATOR)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("link", name=books.RUN).click()
        page.wait_for_url(f"**/runs/{books.RUN}")
        assert all(name in page.locator("main").inner_text() for name in books.NAMES)


def test_everything_can_be_reached_by_keyboard(browser: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    writer = Writer(place)
    for _ in range(30):
        writer.round()
    with served(place) as at, page_of(browser, at) as page:
        page.goto("/")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        for _ in ("the filter", "the table", "to compare", "the run"):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs/live")
        page.locator("details.ledger summary").press("Enter")
        seen = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("(a => a.ariaLabel || a.textContent)(document.activeElement)"))
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none" or page.evaluate("document.activeElement === document.body")
        assert {"Statement of bank-d as PDF", "All runs", "older"} <= seen
        link = page.get_by_role("link", name="Statement of bank-b as JSON")
        link.focus()
        writer.round()
        shows(page, 31)
        assert link.evaluate("e => e === document.activeElement"), "a push takes no focus away"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(browser: Any, tmp_path: Path, scheme: str) -> None:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run())
    phone = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
    write_results(tmp_path / "runs")
    with served(place, results=tmp_path / "runs") as at, page_of(browser, at, **phone) as page:
        for path in PAGES:
            page.goto(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
        drawn(page, 6)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 31)"}[scheme]
        ink = page.evaluate("document.getElementById('value-curve').layout.font.color")
        assert ink == {"light": "#1c2430", "dark": "#e7ebf0"}[scheme]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(browser: Any, tmp_path: Path, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run())
    write_results(tmp_path / "runs")
    with served(place, results=tmp_path / "runs") as at:
        # The pages' own policy forbids the script that examines them.
        context = browser.new_context(base_url=at, bypass_csp=True, color_scheme=scheme)
        page = context.new_page()
        for path in PAGES:
            page.goto(path)
            if page.locator("#value-curve").count():
                page.wait_for_selector("#value-curve[data-rounds]")
            if path.endswith(books.RUN):
                page.locator("details.ledger summary").click()
            found = axe.Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
        context.close()


def test_it_can_be_read_without_scripts(browser: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    books.write(place, books.make_run())
    with served(place) as at, page_of(browser, at, java_script_enabled=False) as page:
        page.goto("/")
        page.get_by_role("link", name=books.RUN).click()
        text = page.locator("main").inner_text()
        assert all(name in text for name in books.NAMES)
        assert "Curves need JavaScript" in text


@pytest.mark.parametrize("listening", [True, False])
def test_a_page_recovers_when_the_ledger_comes_back(
    listening: bool, browser: Any, postgres: Any
) -> None:
    """Also if its stream is refused because the ledger went between the page and its stream."""
    place = postgres.create()
    writer = Writer(place)
    with served(place) as at:
        context = browser.new_context(base_url=at)
        page = context.new_page()
        if not listening:
            page.route("**/events*", lambda route: route.fulfill(status=503))
        page.goto("/runs/live")
        with postgres.down():
            page.get_by_text("cannot be read just now").wait_for(timeout=20_000)
            page.unroute("**/events*")
            other = context.new_page()
            assert other.goto("/runs/live").status == 503
        page.wait_for_selector("#trouble", state="hidden", timeout=20_000)
        other.locator("#round").wait_for(timeout=20_000)
        writer.round()
        shows(page, 1)
        context.close()


def test_a_page_recovers_when_the_dashboard_comes_back(browser: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "ledger.sqlite")
    writer = Writer(place)
    context = browser.new_context()
    page = context.new_page()
    with served(place) as at:
        page.goto(f"{at}/runs/live")
        drawn(page, 0)
    page.wait_for_selector("#trouble:not([hidden])")
    writer.round()
    with served(place, port=int(at.rpartition(":")[2])):
        shows(page, 1)
        assert page.locator("#trouble").is_hidden()
    context.close()
