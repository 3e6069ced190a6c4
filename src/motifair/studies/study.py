"""`Study`: runs on splits chosen in advance, and the tables and figures made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure

from motifair.experiments.compare import execute_all
from motifair.experiments.comparison import Comparison
from motifair.experiments.jobs import Progress
from motifair.experiments.plan import Plan, make_plan
from motifair.files import finite, write_atomic
from motifair.report.static import picture
from motifair.studies.markdown import markdown

# Fixed in docs/results/seeds.toml before any option was chosen.
CONFIRMATION = 20_000
PAYOFF_CONFIRMATION = 60_000
DATASETS = ("PROTEINS", "IMDB-BINARY", "DD")


def no_progress(plan: Plan) -> Progress | None:
    """Show nothing."""
    return None


def no_pieces(done: int, of: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Settings:
    """Settings of a study.

    Attributes:
        out: Folder of results and runs.
        splits: Number of splits; None uses those of the study.
        rounds: Number of rounds.
        datasets: Names of datasets; empty uses those of the study.
        device: `auto`, `cpu` or `cuda`.
        threads: Number of threads on a CPU.
        processes: Number of processes for studies whose pieces can be computed side by side.
        truth: Folder with results of an earlier run, whose truth is not trained again.
        memory: GPU memory in GB that stacks of federations may use.
        data_dir: Folder with TU datasets.
        options: Other options of `Config`, for runs that are smaller than the study.
        progress: Returns the progress display of a plan.
        pieces: Is told how many pieces, of how many, are done, where several processes work.
        stop: Whether to stop after the current round.
    """

    out: Path
    splits: int | None = None
    rounds: int = 200
    datasets: tuple[str, ...] = ()
    device: str = "auto"
    threads: int | None = None
    processes: int = 1
    truth: Path | None = None
    memory: float | None = None
    data_dir: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[Plan], Progress | None] = no_progress
    pieces: Callable[[int, int], None] = no_pieces
    stop: Callable[[], bool] = lambda: False

    def plan(self, dataset: str, *, seed: int, splits: int, **options: Any) -> Plan:
        """Plan a run on `splits` splits from `seed` on, or on `self.splits` if given.

        All methods and profiles read a dataset as the published figures do, unless an option says
        otherwise: node labels, else attributes, else degrees, and no edge labels.
        """
        given = {
            "features": "first",
            "edges": "ignore",
            "rounds": self.rounds,
            "eval_every": min(self.rounds, 50),
            **self.options,
            **options,
            "seed": seed,
            "splits": splits if self.splits is None else self.splits,
        }
        # Unused GPU memory cached by earlier runs must not count as used.
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
        """Run plans on the same splits in `out/runs/folder`; finished runs are read."""
        return execute_all(
            plans,
            self.out / "runs" / folder,
            baseline=baseline or next(iter(plans)),
            progress=self.progress,
            stop=self.stop,
        )

    def compare(
        self,
        datasets: Sequence[str],
        methods: Sequence[str],
        baseline: str,
        splits: Callable[[str], int],
        **options: Any,
    ) -> list[Comparison]:
        """Run methods on each dataset; all plans are checked before the first run starts."""
        planned = [
            {m: self.plan(d, splits=splits(d), method=m, **options) for m in methods}
            for d in datasets
        ]
        return [self.execute(runs_folder(p[baseline]), p, baseline) for p in planned]


@dataclass(frozen=True)
class StudyResult:
    """The result of a study.

    Attributes:
        title: Its title.
        tables: Tables by name.
        figures: Figures by name.
        notes: Sentences about them.
        raw: Tables with a row for each split, from which the tables can be computed.
        across: For some tables, a column whose values become columns in Markdown.
    """

    title: str
    tables: Mapping[str, pd.DataFrame]
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: Sequence[str] = ()
    raw: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    across: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return title, notes and tables for JSON (NaN as None)."""
        tables = {name: finite(t.to_dict("records")) for name, t in self.tables.items()}
        return {"title": self.title, "notes": list(self.notes), "tables": tables}

    def write(self, folder: Path) -> list[Path]:
        """Write tables as CSV, figures as PNG and SVG, and a README.md with all of them.

        Raw tables are written as CSV only, with six digits. Returns the files.
        """
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        parts = [f"# {self.title}", *self.notes]
        for name, table in self.tables.items():
            files.append(folder / f"{name}.csv")
            write_atomic(files[-1], table.to_csv(index=False))
            parts.append(f"## {name}\n\n{markdown(table, self.across.get(name))}")
        for name, figure in self.figures.items():
            for kind in ("png", "svg"):
                files.append(folder / f"{name}.{kind}")
                write_atomic(files[-1], picture(figure, kind))
            parts.append(f"![{name}]({name}.png)")
        for name, table in self.raw.items():
            files.append(folder / f"{name}.csv")
            write_atomic(files[-1], table.to_csv(index=False, float_format="%.6g"))
            parts.append(f"Split by split: [{name}.csv]({name}.csv).")
        files.append(folder / "README.md")
        write_atomic(files[-1], "\n\n".join(parts) + "\n")
        return files


@dataclass(frozen=True)
class Study:
    """A study: its name, a summary for the command line, the function that runs it, and whether it
    has pieces for several processes, or can take the truth from an earlier run.
    """

    name: str
    summary: str
    run: Callable[[Settings], StudyResult]
    in_pieces: bool = False
    takes_truth: bool = False


def runs_folder(plan: Plan) -> str:
    """Return the name of the folder of runs on these splits, which studies share."""
    c = plan.config
    differ = c.perturbation if c.scenario == "none" else c.scenario
    damage = "" if differ == "none" else f"-{differ}"
    return f"{Path(plan.data.name).name}{damage}-seed{c.seed}-{c.splits}x{c.rounds}"
