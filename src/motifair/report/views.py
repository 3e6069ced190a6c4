"""A result as page, statement and figure: what the methods of `Result` call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from motifair.errors import MotifairError, nearest
from motifair.files import check_target, choose_format, write_atomic
from motifair.report.overview import overview
from motifair.report.page import write_report
from motifair.report.run_section import RunSection
from motifair.report.source import source_of
from motifair.report.statement import SUFFIXES, as_format
from motifair.report.static import matplotlib_figure
from motifair.statements.statement import Statement, make_statement

if TYPE_CHECKING:
    from motifair.experiments.result import Result


def write_page(result: Result, path: Path, figures: Path | None, split: int) -> Path:
    """Write a result as one HTML page and, if a folder for them is named, its figures."""
    check_target(path)
    write_report([_section(result, split)], path, figures)
    return path


def state(
    result: Result, agent: str, split: int, round_: int | None, path: Path | None
) -> Statement:
    """Return an agent's statement of a split, and write it to a file if one is named."""
    format_ = None
    if path is not None:
        format_ = choose_format(None, path, SUFFIXES, "statement")
        check_target(path)
    source = source_of(result, split=split)
    folder = result.origin.folder
    made = make_statement(
        source.entries,
        agent,
        graphs=source.graphs,
        motifs=source.motifs,
        folder=None if folder is None else str(folder),
        split=split,
        accuracy=source.accuracy,
    )
    made = made if round_ is None else made.only(round_)
    if path is not None and format_ is not None:
        write_atomic(path, as_format(made, format_))
    return made


def draw(result: Result, figure: str | None, split: int) -> Figure:
    """Draw a figure of the report by its key, or an overview."""
    result.get_split(split)
    if figure is None:
        return overview(result, split)
    charts = {chart.key: chart for chart in _section(result, split).charts}
    if figure not in charts:
        raise MotifairError(f"There is no figure '{figure}'. {nearest(figure, charts)}")
    return matplotlib_figure(charts[figure])


def _section(result: Result, split: int) -> RunSection:
    source = source_of(result, split=split, books=False)
    return RunSection(result.config.method, result.origin.folder, source)
