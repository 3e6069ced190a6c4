"""The page in a browser: nothing leaves it, everything is drawn, and it can be worked by hand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Browser, Page
from report_samples import made_up_chapter, made_up_source

from motifair.config import make_config
from motifair.options import read_settings
from motifair.report.page import html_page, write_report

HOSTILE = "</script><img src=x onerror=alert(1)>"
DRAWN = """() => new Promise((done) => {
  const look = () => {
    const plots = [...document.querySelectorAll(".plot")]
      .filter((plot) => !plot.closest("details.run:not([open])"));
    if (plots.length && plots.every((plot) => plot.dataset.drawn)) done(plots.length);
    else setTimeout(look, 10);
  };
  look();
})"""
BUTTONS = ["Download plot", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"]
BUTTONS_OF_ALL = """() => Object.fromEntries([...document.querySelectorAll(".plot")].map((plot) => [
  plot.id, [...plot.querySelectorAll(".modebar-btn")].map((button) => button.dataset.title)]))"""
CLOUD_OF_ALL = """() => [...document.querySelectorAll(".plot")]
  .map((plot) => [plot._context.showSendToCloud, plot._context.plotlyServerURL])"""
DRAWN_AGAIN = "() => new Promise((done) => requestIdleCallback(() => setTimeout(done, 300)))"


@dataclass
class Reader:
    """A page that is open, and everything it should not have done."""

    page: Page
    troubles: list[str] = field(default_factory=list)

    def open(self, path: Path) -> float:
        """Open a report; return the seconds until everything is drawn."""
        started = time.monotonic()
        self.page.goto(path.as_uri(), wait_until="commit")
        self.page.evaluate(DRAWN)
        return time.monotonic() - started

    def traces(self, plot: str) -> list[dict[str, object]]:
        script = """(id) => document.getElementById(id).data
            .map((t) => ({name: t.name, visible: t.visible ?? true, opacity: t.opacity}))"""
        found: list[dict[str, object]] = self.page.evaluate(script, plot)
        return found


@pytest.fixture
def reader(browser: Browser) -> Iterator[Reader]:
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    reader = Reader(page)
    page.on("console", lambda m: reader.troubles.append(f"console: {m.text}"))
    page.on("pageerror", lambda e: reader.troubles.append(f"error: {e}"))
    page.on("dialog", lambda d: (reader.troubles.append(d.message), d.dismiss()))
    page.context.on("request", lambda r: _note(reader, r.url))
    yield reader
    page.close()
    assert not reader.troubles


def _note(reader: Reader, url: str) -> None:
    if not url.startswith(("file://", "data:", "blob:")):
        reader.troubles.append(f"request: {url}")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report([made_up_chapter()], path)
    return path


def test_every_figure_is_drawn_and_hovering_tells_who_it_is(reader: Reader, report: Path) -> None:
    reader.open(report)
    assert reader.page.locator(".plot .main-svg").count() >= 10
    x, y = reader.page.evaluate(
        """() => {
          const plot = document.getElementById("run-0-value");
          plot.scrollIntoView();
          const {xaxis, yaxis} = plot._fullLayout, trace = plot._fullData[2], k = 12;
          const box = plot.getBoundingClientRect();
          return [box.x + xaxis._offset + xaxis.l2p(trace.x[k]),
                  box.y + yaxis._offset + yaxis.l2p(trace.y[k])];
        }"""
    )
    reader.page.mouse.move(x, y)
    label = reader.page.locator("#run-0-value .hovertext")
    label.wait_for()
    assert "agent-" in (label.first.text_content() or "")


def test_an_agent_is_hidden_and_highlighted_in_all_figures(reader: Reader, report: Path) -> None:
    reader.open(report)
    page = reader.page
    page.locator(".controls li", has_text="agent-01").click()
    page.evaluate(DRAWN_AGAIN)
    for plot in ("run-0-value", "run-0-payoff", "run-0-loss"):
        seen = {t["name"]: t["visible"] for t in reader.traces(plot)}
        assert seen["agent-01"] is False, plot
        assert seen["agent-02"] is True, plot
    assert page.locator("#shown").text_content() == "4"
    page.select_option("#focus", "agent-02")
    page.evaluate(DRAWN_AGAIN)
    shade = {t["name"]: t["opacity"] for t in reader.traces("run-0-payoff")}
    assert shade["agent-02"] == 1
    assert shade["agent-00"] == 0.15
    script = "() => document.getElementById('run-0-received').layout.shapes.length"
    assert page.evaluate(script) == 1, "its row in a map is framed"


NAMES = """(id) => [...document.querySelectorAll(`#${id} .annotation`)].map((name) => {
  const {top, bottom, right} = name.querySelector(".annotation-text-g").getBoundingClientRect();
  return {text: name.textContent, top, bottom, right};
}).filter((name) => name.text.startsWith("agent-"))"""


def test_names_stand_at_the_ends_of_curves_and_on_a_phone_in_the_legend(
    reader: Reader, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    write_report([made_up_chapter(made_up_source(12))], path)
    reader.open(path)
    page = reader.page
    for plot in ("run-0-value", "run-0-payoff"):
        names = sorted(page.evaluate(NAMES, plot), key=lambda name: name["top"])
        assert len(names) == 12, plot
        for above, below in pairwise(names):
            assert above["bottom"] <= below["top"] + 2, (plot, above, below)
        box = page.locator(f"#{plot}").bounding_box()
        assert box is not None
        assert max(name["right"] for name in names) <= box["x"] + box["width"]
    assert not page.locator("figure:has(#run-0-accuracy) .legend").is_visible()
    page.locator(".controls li", has_text="agent-01").click()
    page.evaluate(DRAWN_AGAIN)
    assert "agent-01" not in {name["text"] for name in page.evaluate(NAMES, "run-0-value")}
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_function(f"(id) => ({NAMES})(id).length === 0", arg="run-0-value")
    assert page.locator("figure:has(#run-0-accuracy) .legend").is_visible()


def test_the_keyboard_reaches_and_works_every_control(reader: Reader, report: Path) -> None:
    reader.open(report)
    page = reader.page
    reached = []
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("() => document.activeElement.id || document.activeElement.tagName")
        )
    assert {"focus", "SUMMARY", "all", "none", "INPUT"} <= set(reached)
    page.locator("#none").focus()
    page.keyboard.press("Space")
    assert page.locator("#shown").text_content() == "0"
    page.locator(".controls input").first.focus()
    page.keyboard.press("Space")
    assert page.locator("#shown").text_content() == "1"


def test_dark_screens_and_paper_have_their_own_colours(reader: Reader, report: Path) -> None:
    page = reader.page
    page.emulate_media(color_scheme="dark")
    reader.open(report)
    colour = "() => document.getElementById('run-0-loss').data[0].line.color.toUpperCase()"
    assert page.evaluate(colour) == "#4AA3E0"
    page.emulate_media(color_scheme="dark", media="print")
    page.evaluate(DRAWN_AGAIN)
    assert page.evaluate(colour) == "#0072B2"
    assert (
        page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )


def test_paper_shows_all_figures_of_all_runs(reader: Reader, tmp_path: Path) -> None:
    sections = [made_up_chapter(made_up_source(3 + k), f"run {k}") for k in range(3)]
    write_report(sections, tmp_path / "report.html")
    reader.open(tmp_path / "report.html")
    page = reader.page
    drawn = "() => document.querySelectorAll('.plot[data-drawn]').length"
    assert page.evaluate(drawn) == 11, "the comparison and the first run"
    page.emulate_media(media="print")
    page.evaluate(DRAWN_AGAIN)
    assert page.evaluate(drawn) == page.locator(".plot").count() == 31
    for plot in page.locator(".plot .main-svg:first-child").all():
        assert plot.is_visible()
        box = plot.bounding_box()
        assert box is not None
        assert box["width"] <= 681
    assert page.locator(".controls").is_hidden()
    page.emulate_media(media="screen")
    page.evaluate(DRAWN_AGAIN)
    assert page.locator("details.run[open]").count() == 1
    page.locator("details.run > summary").nth(2).click()
    assert page.evaluate(DRAWN) == 21


def test_no_button_of_any_figure_sends_anything_away(reader: Reader, report: Path) -> None:
    reader.open(report)
    page, downloads, pages = reader.page, [], []
    page.on("download", lambda download: downloads.append(download.suggested_filename))
    page.context.on("page", lambda opened: pages.append(opened.url))
    found = page.evaluate(BUTTONS_OF_ALL)
    assert len(found) == 10
    assert all(buttons == BUTTONS for buttons in found.values()), found
    assert page.evaluate(CLOUD_OF_ALL) == [[False, ""]] * len(found)
    for button in page.locator(".modebar-btn").all():
        button.evaluate("(button) => button.click()")
    page.wait_for_timeout(500)
    assert pages == []
    assert len(downloads) == len(found)
    assert page.locator("[class*=cloud]").count() == 0


def test_agents_come_first_with_bars_and_can_be_sorted(reader: Reader, report: Path) -> None:
    reader.open(report)
    page = reader.page
    table = page.locator(".sortable table").first
    above = "(table) => table.compareDocumentPosition(document.querySelector('.plot'))"
    assert table.evaluate(above) == 4, "figures follow it"
    paid = page.locator("th", has_text="paid in all")
    column = paid.evaluate("(head) => head.cellIndex")

    def cells() -> list[float]:
        words = table.locator(f"tbody tr > :nth-child({column + 1})").all_text_contents()
        return [float(word) for word in words]

    for pressed in ("descending", "ascending"):
        paid.locator("button").click()
        assert paid.get_attribute("aria-sort") == pressed
        assert cells() == sorted(cells(), reverse=pressed == "descending")
    bars = "(cells) => cells.map((cell) => parseFloat(cell.style.getPropertyValue('--bar')))"
    drawn = table.locator(f"tbody tr > :nth-child({column + 1})").evaluate_all(bars)
    most = max(map(abs, cells()))
    assert drawn == pytest.approx([100 * abs(value) / most for value in cells()], abs=0.01)
    assert page.locator(".sortable td.minus").count() > 0


def test_the_numbers_can_be_downloaded(reader: Reader, tmp_path: Path) -> None:
    source = made_up_source(["=1+1", "é"], splits=2)
    assert source.result is not None
    sections = [made_up_chapter(source, "a/b"), made_up_chapter(source, "other")]
    write_report(sections, tmp_path / "report.html")
    reader.open(tmp_path / "report.html")
    frames = {}
    for name in ("comparison.csv", "a-b-agents.csv", "a-b-rounds.csv", "a-b-options.json"):
        with reader.page.expect_download() as waiting:
            reader.page.get_by_role("button", name=f"Download {name}").click()
        assert waiting.value.suggested_filename == name
        waiting.value.save_as(tmp_path / name)
        if name.endswith("csv"):
            frames[name] = pd.read_csv(tmp_path / name)
    assert set(frames["comparison.csv"]["method"]) == {"a/b", "other"}
    pd.testing.assert_frame_equal(frames["a-b-agents.csv"], source.result.to_frame())
    rounds = frames["a-b-rounds.csv"]
    assert len(rounds) == 2 * 30
    value = source.result.splits[0].history.columns["value"]
    assert rounds["value"].to_numpy() == pytest.approx(value.ravel(), rel=1e-5)
    assert make_config(read_settings(tmp_path / "a-b-options.json")) == source.config


def test_axe_finds_no_violation(browser: Browser, tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    # The page's own policy forbids what is not in it: also the script that examines it.
    page = browser.new_context(bypass_csp=True).new_page()
    report = tmp_path / "report.html"
    write_report([made_up_chapter(), made_up_chapter(label="other")], report)
    page.goto(report.as_uri())
    page.evaluate(DRAWN)
    assert axe.Axe().run(page).violations_count == 0


def test_nothing_is_wider_than_a_phone(reader: Reader, report: Path) -> None:
    reader.page.set_viewport_size({"width": 390, "height": 800})
    reader.open(report)
    assert reader.page.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_hostile_names_are_only_names(reader: Reader, tmp_path: Path) -> None:
    source = made_up_source([HOSTILE, "{{ 7 * 7 }}", "var(--ink)"], dataset=f"a{HOSTILE}")
    motifs = {HOSTILE: (f"ring {HOSTILE}", "bond 0 1"), "b": ("bond 0 1",)}
    source = replace(source, name=HOSTILE, motifs=motifs)
    write_report([made_up_chapter(source, HOSTILE), made_up_chapter()], tmp_path / "report.html")
    reader.open(tmp_path / "report.html")
    assert reader.page.locator("img").count() == 0
    assert HOSTILE in (reader.page.locator("h2").all_text_contents())
    reader.page.select_option("#focus", HOSTILE)
    reader.page.evaluate(DRAWN_AGAIN)
    assert reader.page.locator("img").count() == 0
    assert reader.traces("run-0-value")[2]["name"] == "var(--ink)"


def test_fifty_agents_and_a_thousand_rounds_are_light_and_quick(
    reader: Reader, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    write_report([made_up_chapter(made_up_source(50, 1000))], path)
    assert path.stat().st_size < 12e6
    # What the page's thread works, not what the clock says: the machine is busy with other tests.
    inspector = reader.page.context.new_cdp_session(reader.page)
    inspector.send("Performance.enable", {"timeDomain": "threadTicks"})
    reader.open(path)
    found = {m["name"]: m["value"] for m in inspector.send("Performance.getMetrics")["metrics"]}
    assert 0.1 < found["TaskDuration"] < 3.0


def test_the_same_run_gives_the_same_page() -> None:
    assert html_page([made_up_chapter()]) == html_page([made_up_chapter()])
