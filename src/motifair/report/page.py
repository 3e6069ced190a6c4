"""The report: one HTML file that needs nothing else, and the same figures for a paper."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from motifair.experiments.comparison import Comparison, paired_runs, unlike
from motifair.experiments.result import Result
from motifair.experiments.tables import differences_table
from motifair.files import write_atomic
from motifair.report.charts import Chart, Style
from motifair.report.colours import DARK, LIGHT
from motifair.report.downloads import Download, download_of_comparison, downloads_of
from motifair.report.figures import tradeoff
from motifair.report.interactive import plotly_figure
from motifair.report.run_section import RunSection, metrics_table
from motifair.report.static import gallery_figure, matplotlib_figure, save_figure
from motifair.report.templates import asset, render
from motifair.report.verdicts import verdict_on_comparison

Say = Callable[[str], None]
# What stands in a legend, in a box of 34 by 12.
DASH_ARRAYS = {"solid": "", "dash": "8 5", "dashdot": "8 4 2 4", "dot": "2 4"}
SYMBOLS = {
    "circle": "M12 6a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "square": "M12 1h10v10h-10z",
    "triangle-up": "M17 1l6 10h-12z",
    "diamond": "M17 0l6 6l-6 6l-6-6z",
    "triangle-down": "M17 11l6-10h-12z",
    "cross": "M15 1h4v3h3v4h-3v3h-4v-3h-3v-4h3z",
    "x": "M13 1l4 3l4-3l2 2l-4 3l4 3l-2 2l-4-3l-4 3l-2-2l4-3l-4-3z",
}


def write_report(
    sections: Sequence[RunSection],
    path: str | Path,
    figures: str | Path | None = None,
    say: Say = lambda _: None,
) -> list[Path]:
    """Write the page and, if a folder for them is named, the figures; return what was written."""
    path, figures = Path(path), None if figures is None else Path(figures)
    written = []
    if figures is not None:
        for label, chart in _all_charts(sections):
            name = f"{label}-{chart.key}" if label else chart.key
            say(f"figure {name}")
            written += save_figure(matplotlib_figure(chart), figures, name)
        for section in sections:
            cards = [c for group in section.motifs for c in group.cards]
            if cards:
                name = f"{_file_name(section.label)}-motifs" if len(sections) > 1 else "motifs"
                written += save_figure(gallery_figure(cards), figures, name)
    say(f"page {path}")
    write_atomic(path, html_page(sections))
    return [path, *written]


def html_page(sections: Sequence[RunSection]) -> str:
    """Return the page as text."""
    results = _results(sections)
    compared = tradeoff(results) if len(results) > 1 else None
    paired = paired_runs(results)
    drawn = {"compare-tradeoff": compared} if compared else {}
    for number, section in enumerate(sections):
        drawn |= {figure_id(number, chart): chart for chart in section.charts}
    files = _files(sections, paired)
    plain = {name: _plain(chart) for name, chart in drawn.items()}
    return render(
        "report.html",
        title=_title(sections),
        sections=sections,
        compared=compared,
        metrics=metrics_table(results) if compared else None,
        differences=differences_table(paired) if paired else None,
        verdict=verdict_on_comparison(paired) if paired else (),
        unlike=unlike(results),
        agents=_agents(sections),
        figure_id=figure_id,
        kind=lambda series: type(series).__name__,
        dash_arrays=DASH_ARRAYS,
        symbols=SYMBOLS,
        light=LIGHT,
        dark=DARK,
        theme=asset("theme.css"),
        style=asset("report.css"),
        script=asset("report.js"),
        plotly=Markup(get_plotlyjs()),
        heights={name: figure["layout"]["height"] for name, figure in plain.items()},
        data=Markup(embedded(plain)),
        files=files,
        packed=Markup(embedded({f.name: f.packed for kept in files.values() for f in kept})),
    )


def figure_id(number: int, chart: Chart) -> str:
    """Return the name of a figure's place in the page."""
    return f"run-{number}-{chart.key}"


def _files(sections: Sequence[RunSection], paired: Comparison | None) -> dict[str, list[Download]]:
    """Return the files to download by the part of the page, under names that tell runs apart."""
    files = {"compare": [download_of_comparison(paired)]} if paired else {}
    for number, section in enumerate(sections):
        many = f"{_file_name(section.label)}-" if len(sections) > 1 else ""
        made = downloads_of(section)
        files[f"run-{number}"] = [replace(file, name=many + file.name) for file in made]
    return files


def embedded(content: Any) -> str:
    """Write JSON that can stand in a script element: no name in it can close the element.

    >>> embedded({"a": "</script><!--"})
    '{"a":"\\\\u003c/script>\\\\u003c!--"}'
    """
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _plain(chart: Chart) -> dict[str, Any]:
    """Return a figure as plain values, its numbers packed as Plotly packs them."""
    figure: dict[str, Any] = json.loads(plotly_figure(chart).to_json())
    return figure


def _all_charts(sections: Sequence[RunSection]) -> list[tuple[str, Chart]]:
    """Return every chart with the name of its run, '' where there is only one."""
    results = _results(sections)
    shared = [("", tradeoff(results))] if len(results) > 1 else []
    many = len(sections) > 1
    return shared + [
        (_file_name(c.label) if many else "", chart) for c in sections for chart in c.charts
    ]


def _results(sections: Sequence[RunSection]) -> dict[str, Result]:
    return {c.label: c.source.result for c in sections if c.source.result is not None}


def _title(sections: Sequence[RunSection]) -> str:
    if len(sections) == 1:
        return sections[0].source.name
    return f"{len(sections)} runs: {', '.join(c.label for c in sections[:4])}" + (
        " …" if len(sections) > 4 else ""
    )


def _agents(sections: Sequence[RunSection]) -> list[tuple[str, str, Style]]:
    """Return every agent once: its name, what it is called, and how it looks."""
    agents: dict[str, tuple[str, str, Style]] = {}
    for section in sections:
        for name, label in section.timeline.labels.items():
            agents.setdefault(name, (name, label, section.cast.styles[name]))
    return list(agents.values())


def _file_name(label: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in label)
