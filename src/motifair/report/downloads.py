"""The numbers of a report as files inside the page, for its download buttons."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass

import numpy as np
import pandas as pd

from motifair.experiments.comparison import Comparison
from motifair.report.run_section import RunSection
from motifair.report.timeline import STATUS, Timeline

DIGITS = "%.6g"  # of the rounds, of which there are many; the files of a run have all digits


@dataclass(frozen=True)
class Download:
    """A file in the page: its name, what is in it, and its content."""

    name: str
    what: str
    content: str

    @property
    def packed(self) -> str:
        """The content, compressed and as text; the same for the same content."""
        return base64.b64encode(gzip.compress(self.content.encode(), mtime=0)).decode()


def downloads_of(section: RunSection) -> list[Download]:
    """Return the files of one run: agents, rounds and options."""
    result, timeline = section.source.result, section.timeline
    agents = section.agents
    if result is None:
        frame, splits = pd.DataFrame(agents.rows, columns=list(agents.head)), ""
    else:
        frame = result.to_frame()
        splits = f", of split {section.source.split}" if len(result.splits) > 1 else ""
    options = json.dumps(section.source.config.to_json(), indent=1) + "\n"
    return [
        Download("agents.csv", "a row for each agent", frame.to_csv(index=False)),
        Download("rounds.csv", f"a row for each round and agent{splits}", _rounds(timeline)),
        Download("options.json", "for motifair run --config", options),
    ]


def download_of_comparison(comparison: Comparison) -> Download:
    """Return the table of means, differences and p-values as a file."""
    return Download(
        "comparison.csv",
        "a row for each metric and run",
        comparison.to_frame().to_csv(index=False),
    )


def _rounds(timeline: Timeline) -> str:
    rounds, agents = timeline.status.shape
    words = {number: word for word, number in STATUS.items()}
    frame = pd.DataFrame(
        {
            "round": np.repeat(timeline.rounds, agents),
            "agent": np.tile(np.array(timeline.agents, dtype=object), rounds),
            "status": [words.get(int(s), "") for s in timeline.status.ravel()],
            **{name: column.ravel() for name, column in timeline.columns.items()},
        }
    )
    return frame.to_csv(index=False, float_format=DIGITS)
