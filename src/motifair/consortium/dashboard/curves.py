"""Choose and thin the curves of a run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from motifair.consortium.dashboard.run_index import RunIndex, Series
from motifair.consortium.dashboard.views import Curve, Curves
from motifair.report.cast import look
from motifair.report.charts import thin
from motifair.report.colours import DARK, LIGHT

ALL = 12  # agents that can be told apart in one picture
MOST = 60  # curves in one picture


def curves_of(index: RunIndex, points: int, agent: str | None = None) -> Curves:
    """Return the curves of all agents, or of one.

    Up to twelve agents are all marked; of more, the six best and the six least paid are, and as
    many of the others as fit are drawn behind them.
    """
    terms = index.verification.books.terms
    currency, agents = (terms.currency, len(terms.members)) if terms else ("", 0)
    return Curves(
        run=index.run,
        currency=currency,
        agents=agents,
        curves=choose_curves(index.series.copy(), points, agent),
    )


def choose_curves(
    series: Mapping[str, Series], points: int, agent: str | None = None
) -> list[Curve]:
    """Choose agents, or take one, and thin their curves."""
    known = {name: s for name, s in series.items() if len(s.rounds)}
    names = sorted(known, key=lambda name: (-known[name].paid[-1], name))
    if agent is not None:
        names = [name for name in names if name == agent]
    marked = set(names if len(names) <= ALL else names[: ALL // 2] + names[-ALL // 2 :])
    others = [name for name in names if name not in marked]
    shown = sorted(marked) + others[: MOST - len(marked)]
    return [_curve(k, name, known[name], name in marked, points) for k, name in enumerate(shown)]


def _curve(k: int, name: str, series: Series, marked: bool, points: int) -> Curve:
    style = look(k)
    at = thin(np.array(series.values[: len(series.rounds)]), points).tolist()
    return Curve(
        agent=name,
        marked=marked,
        light=LIGHT[style.colour],
        dark=DARK[style.colour],
        dash=style.dash if marked else "solid",
        rounds=[series.rounds[k] for k in at],
        value=[round(series.values[k], 6) for k in at],
        paid=[round(series.paid[k], 6) for k in at],
    )
