#!/usr/bin/env python3
"""Make the pictures of docs/images from the demo and a small federation: needs a Chromium.

    make pictures                                # or: scripts/pictures.py [FOLDER]

What was run is kept in FOLDER (default runs/pictures), and not run again while it is there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MOTIFAIR = Path(sys.executable).with_name("motifair")
HARMFUL, MEMBER = "agent-02", "agent-00"
PHONE = (390, 844)
DRAWN = """() => document.querySelectorAll(".plot").length
  && [...document.querySelectorAll(".plot")].every((plot) => plot.dataset.drawn)"""


def motifair(*words: str | Path) -> None:
    """Run a command and refuse to go on if it fails."""
    subprocess.run([MOTIFAIR, *words], check=True)


def simulate(folder: Path) -> Path:
    """Run the demo as `make demo` does, with its report and the statement of its harmful agent."""
    run = folder / "demo"
    if not (run / "summary.json").exists():
        motifair("run", "--set", "test_fraction=0.85", "--out", run)
    motifair("report", run, "--out", run / "report.html")
    motifair("statement", "--run", run, "--agent", HARMFUL, "--out", run / "statement.html")
    return run


def federate(folder: Path) -> Path:
    """Run a federation of six members as processes of their own."""
    place = folder / "federation"
    if not (place / "ledger.sqlite").exists():
        motifair("federation", "demo", "--agents", "6", "--rounds", "12", "--out", place)
    return place


@contextmanager
def dashboard(place: Path) -> Iterator[str]:
    """Serve the dashboard of a federation, and yield its address."""
    words = ["dashboard", "--ledger", place / "ledger.sqlite", "--runs", place, "--port", "0"]
    server = subprocess.Popen([MOTIFAIR, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield next(
            word.rstrip("/;") for line in server.stdout for word in line.split() if "://" in word
        )
    finally:
        server.terminate()
        server.wait()


@contextmanager
def opened(browser: Browser, address: str, size: tuple[int, int]) -> Iterator[Page]:
    """Open a page in a window of a size, in light colours."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme="light")
    page.goto(address, timeout=120_000)
    yield page
    page.close()


def main() -> None:
    """Run what is missing, and write all pictures."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/pictures")
    run, place = simulate(folder), federate(folder)
    shutil.copyfile(run / "overview.png", IMAGES / "demo.png")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright, dashboard(place) as address:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        report = (run / "report.html").resolve().as_uri()
        with opened(browser, report, (1200, 1100)) as page:
            page.screenshot(path=IMAGES / "report.png")
            page.wait_for_function(DRAWN)
            page.locator(".controls").evaluate("(node) => node.remove()")
            page.locator("#run-0-accuracy-title").evaluate("(node) => node.scrollIntoView()")
            page.evaluate("() => window.scrollBy(0, 145)")
            page.screenshot(path=IMAGES / "report-figures.png")
        with opened(browser, report, PHONE) as page:
            page.screenshot(path=IMAGES / "report-phone.png")
        statement = (run / "statement.html").resolve().as_uri()
        with opened(browser, statement, (1000, 900)) as page:
            page.screenshot(path=IMAGES / "statement.png")
        for name, path, size in (
            ("dashboard", "runs/demo", (1200, 1150)),
            ("dashboard-phone", "runs/demo", PHONE),
            ("member", f"runs/demo/agents/{MEMBER}", (1200, 1150)),
        ):
            with opened(browser, f"{address}/{path}", size) as page:
                page.wait_for_timeout(2000)  # curves
                page.screenshot(path=IMAGES / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
