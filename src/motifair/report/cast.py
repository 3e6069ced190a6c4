"""How the agents of a run look in all of its figures, and which of them are named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from motifair.report.charts import (
    Curve,
    Style,
    curve,
)
from motifair.report.colours import CURVES, DASHES, MARKERS, ROLES
from motifair.report.timeline import Timeline

NAMED = 12  # agents that can each have a style of their own


ENDS = 3  # beyond that, how many of the best and of the worst paid are named


CROWD = Style("faint", width=0.8, opacity=0.45, marker="circle")


MEDIAN = Style("ink", "dash", width=2.2)


@dataclass(frozen=True)
class Cast:
    """The style of each agent in all figures of a run, and which agents are named."""

    timeline: Timeline
    styles: Mapping[str, Style]
    named: frozenset[str]

    @classmethod
    def of(cls, timeline: Timeline) -> Cast:
        """Give up to twelve agents a style each; of more, only the best and the worst paid."""
        if len(timeline.agents) <= NAMED:
            chosen = list(timeline.agents)
        else:
            order = timeline.ranking()
            chosen = [timeline.agents[k] for k in (*order[:ENDS], *order[-ENDS:])]
        roles = dict(zip(timeline.agents, timeline.roles, strict=False))
        looks = {n: coloured(look(k), roles.get(n, "")) for k, n in enumerate(chosen)}
        styles = {name: looks.get(name, CROWD) for name in timeline.agents}
        return cls(timeline, styles, frozenset(chosen))

    @property
    def crowded(self) -> bool:
        """Whether some agents are drawn without a name."""
        return len(self.named) < len(self.timeline.agents)

    def curves(self, table: np.ndarray) -> list[Curve]:
        """Draw a table `(rounds, agents)`: unnamed agents, then named ones, then the median."""
        labels, drawn = self.timeline.labels, []
        for k, name in enumerate(self.timeline.agents):
            if not np.isnan(table[:, k]).all():
                named = name in self.named
                drawn.append(
                    curve(
                        labels[name],
                        self.timeline.rounds,
                        table[:, k],
                        self.styles[name],
                        agent=name,
                        legend=named,
                        curves=len(self.timeline.agents),
                    )
                )
        drawn.sort(key=lambda c: c.legend)
        if self.crowded and drawn:
            known = ~np.isnan(table).all(axis=1)
            median = np.full(len(table), np.nan)
            median[known] = np.nanmedian(table[known], axis=1)
            drawn.append(curve("median of all agents", self.timeline.rounds, median, MEDIAN))
        return drawn

    def reading(self, how: str) -> str:
        """Add which agents are named, where not all are."""
        if not self.crowded:
            return how
        return (
            f"{how} Named are the {ENDS} best and the {ENDS} worst paid of "
            f"{len(self.timeline.agents)} agents; the others are thin lines."
        )


def look(k: int) -> Style:
    """Return the k-th style: neighbours differ in colour, dash and marker."""
    dashes, markers = list(DASHES), list(MARKERS)
    return Style(
        CURVES[k % len(CURVES)], dashes[k % len(dashes)], markers[(k + k // 7) % len(markers)]
    )


def coloured(style: Style, role: str) -> Style:
    """Give agents of a known role its colour; dash and marker still tell them apart."""
    return replace(style, colour=ROLES.get(role, style.colour))
