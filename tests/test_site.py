"""The documentation as pages: links lead somewhere, nothing is loaded from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
from bare import ONE_CORE
from filelock import FileLock

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Request

ROOT = Path(__file__).parent.parent


class Page(HTMLParser):
    """Anchors of a page, its links, and what a browser would load for it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag in ("a", "link") and "href" in given:
            (self.links if tag == "a" else self.loaded).add(given["href"])
        self.loaded |= {given[name] for name in ("src", "data", "poster") if name in given}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built pages, notebooks run; one process of the tests builds them for all."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "site"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            _build(folder)
    return folder


def _build(folder: Path) -> None:
    unfinished = folder.with_suffix(".unfinished")
    # Notebooks use one core, as all other tests: to start workers takes longer than a few rounds.
    settings = folder.with_suffix(".ipython")
    startup = settings / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "one_core.py").write_text(ONE_CORE)
    environment = os.environ | {
        "NO_MKDOCS_2_WARNING": "1",
        "PYTHONPATH": str(ROOT / "src"),
        "IPYTHONDIR": str(settings),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(unfinished)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr
    unfinished.rename(folder)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


@pytest.mark.slow
def test_every_link_leads_to_a_page_and_a_place_on_it(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for link in page.links | page.loaded:
            parts = urlsplit(link)
            if parts.scheme or path.name == "404.html":  # whose links depend on where it is shown
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{path.relative_to(site)}: {link}"
            if parts.fragment and target in pages:
                named = unquote(parts.fragment) in pages[target].anchors
                assert named or parts.fragment.startswith("__"), f"{path.relative_to(site)}: {link}"


@pytest.mark.slow
def test_pages_and_styles_name_no_other_host_to_load_from(
    site: Path, pages: dict[Path, Page]
) -> None:
    for path, page in pages.items():
        named = {link for link in page.loaded if urlsplit(link).scheme not in ("", "data")}
        assert not named, f"{path.relative_to(site)}: {named}"
    for path in [*site.rglob("*.css"), *pages]:
        found = re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", path.read_text())
        assert not found, path.relative_to(site)


@pytest.mark.slow
def test_notebooks_show_what_they_computed(site: Path) -> None:
    worth = (site / "notebooks" / "worth.html").read_text()
    assert "Statement for agent-02" in worth
    assert "data:image/png" in worth
    assert "must return values that add up to 1" in (site / "notebooks" / "method.html").read_text()


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_a_browser_asks_no_other_host_and_finds_words(browser: Browser, address: str) -> None:
    page = browser.new_page()
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    for name in ("notebooks/worth", "api/mechanism", "notation", "index"):
        page.goto(f"{address}/{name}.html", wait_until="networkidle")
    page.keyboard.press("/")
    page.keyboard.type("dirichlet")
    page.locator(".md-search-result__link").first.wait_for()
    assert asked
    for url in asked:
        assert url.startswith((address, "data:", "blob:")), url
    page.close()


def test_readme_fits_two_screens() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


def test_the_picture_of_the_house_names_every_package() -> None:
    drawn = (ROOT / "docs" / "images" / "house.svg").read_text()
    packages = [path.parent for path in (ROOT / "src" / "motifair").glob("*/__init__.py")]
    for package in packages:
        assert f">{package.name}<" in drawn or package.name == "kernels", package.name
