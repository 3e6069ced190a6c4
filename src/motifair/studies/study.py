"""What a study is: runs on splits set down beforehand, tables with intervals, figures."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure

from motifair.experiments.compare import Comparison, execute_all
from motifair.experiments.jobs import Progress
from motifair.experiments.plan import Plan, make_plan
from motifair.files import finite, write_atomic
from motifair.studies.markdown import markdown

# Set down in docs/results/seeds.toml before anything was chosen.
CONFIRMATION = 20_000
PAYOFF_CONFIRMATION = 60_000
DATASETS = ("PROTEINS", "IMDB-BINARY", "DD")


@dataclass(frozen=True)
class Settings:
    """How a study is run: how many splits (None: as many as the study says), how many rounds, on
    which datasets (empty: those of the study), where, and who hears of it.

    `options` are any others of `Config`, for trials that are smaller than a study.
    """

    out: Path
    splits: int | None = None
    rounds: int = 200
    datasets: tuple[str, ...] = ()
    device: str = "auto"
    threads: int | None = None
    memory: float | None = None
    data_dir: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[Plan], Progress | None] = lambda plan: None
    stop: Callable[[], bool] = lambda: False

    def plan(self, dataset: str, *, seed: int, splits: int, **options: Any) -> Plan:
        """Check a run on the first `splits` splits from `seed` on; a user may ask for fewer."""
        given = {
            "rounds": self.rounds,
            "eval_every": min(self.rounds, 50),
            **self.options,
            **options,
            "seed": seed,
            "splits": splits if self.splits is None else self.splits,
        }
        # What earlier runs hold of a GPU without using it must not count as taken.
        torch.cuda.empty_cache()
        return make_plan(
            dataset,
            given,
            data_dir=self.data_dir,
            device=self.device,
            threads=self.threads,
            memory=self.memory,
        )

    def execute(
        self, folder: str, plans: Mapping[str, Plan], baseline: str | None = None
    ) -> Comparison:
        """Run plans on the same splits, side by side in `out/runs/folder`, or what is left."""
        return execute_all(
            plans,
            self.out / "runs" / folder,
            baseline=baseline or next(iter(plans)),
            progress=self.progress,
            stop=self.stop,
        )


@dataclass(frozen=True)
class Finding:
    """What a study found: tables by name, figures by name, and sentences about them.

    `raw` are numbers split by split, from which others can make the tables again; `across` names
    for some tables a column whose values stand side by side where people read them.
    """

    title: str
    tables: Mapping[str, pd.DataFrame]
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: Sequence[str] = ()
    raw: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    across: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return title, notes and tables as plain values (NaN as null)."""
        tables = {name: finite(t.to_dict("records")) for name, t in self.tables.items()}
        return {"title": self.title, "notes": list(self.notes), "tables": tables}

    def write(self, folder: Path) -> list[Path]:
        """Write each table as CSV, each figure as PNG and SVG, and all of it as Markdown.

        Raw numbers are CSV alone, with six digits, which is more than splits differ by.
        """
        folder.mkdir(parents=True, exist_ok=True)
        made = []
        parts = [f"# {self.title}", *self.notes]
        for name, table in self.tables.items():
            made.append(folder / f"{name}.csv")
            write_atomic(made[-1], table.to_csv(index=False))
            parts.append(f"## {name}\n\n{markdown(table, self.across.get(name))}")
        for name, figure in self.figures.items():
            for kind in ("png", "svg"):
                made.append(folder / f"{name}.{kind}")
                write_atomic(made[-1], _picture(figure, kind))
            parts.append(f"![{name}]({name}.png)")
        for name, table in self.raw.items():
            made.append(folder / f"{name}.csv")
            write_atomic(made[-1], table.to_csv(index=False, float_format="%.6g"))
            parts.append(f"Split by split: [{name}.csv]({name}.csv).")
        made.append(folder / "README.md")
        write_atomic(made[-1], "\n\n".join(parts) + "\n")
        return made


def _picture(figure: Figure, kind: str) -> bytes:
    """Draw a figure; the same numbers give the same bytes, so no date and no random names."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "motifair"}):
        figure.savefig(buffer, format=kind, metadata={"Date": None} if kind == "svg" else {})
    return buffer.getvalue()


@dataclass(frozen=True)
class Study:
    """A study by name: what it shows in a sentence, and what runs it."""

    name: str
    summary: str
    run: Callable[[Settings], Finding]


def runs_folder(plan: Plan) -> str:
    """Name the folder for runs on these splits: the same in every study that uses them."""
    c = plan.config
    damage = "" if c.perturbation == "none" else f"-{c.perturbation}"
    return f"{Path(plan.data.name).name}{damage}-seed{c.seed}-{c.splits}x{c.rounds}"
