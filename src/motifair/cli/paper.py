"""`motifair paper`: reproduce the paper's tables and figures."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from motifair.cli import complete
from motifair.cli.interrupt import AGAIN, stoppable
from motifair.cli.shared import DataDir, Device, Quiet, Threads
from motifair.errors import MotifairError
from motifair.studies.registry import ALL, MODULES, choose_studies, load_study

if TYPE_CHECKING:
    from motifair.experiments.plan import Plan
    from motifair.experiments.progress import RunProgress
    from motifair.studies.study import Settings, Study, StudyResult


def paper(
    name: Annotated[
        str,
        typer.Argument(help=f"{', '.join(MODULES)}, or {ALL}.", autocompletion=complete.study),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for the results; the same again continues.")
    ] = Path("results"),
    splits: Annotated[
        int | None, typer.Option(min=1, help="Data splits; default as many as the study says.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Communication rounds.")] = 200,
    datasets: Annotated[
        str, typer.Option(help="Names joined by commas; default those of the study.")
    ] = "",
    device: Device = "auto",
    threads: Threads = None,
    processes: Annotated[
        int,
        typer.Option(min=1, help="Processes side by side, for studies that have pieces."),
    ] = 1,
    truth: Annotated[
        Path | None,
        typer.Option(
            help="Folder with results of `values`: read the truth from there and measure pay alone."
        ),
    ] = None,
    memory: Annotated[
        float | None, typer.Option(help="GiB of the GPU; default 80 % of what is free.")
    ] = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
) -> None:
    """Reproduce a table or figure of the paper, on splits that were not used to choose anything.

    Results are written to OUT/NAME, their runs to OUT/runs, which studies share.
    """
    from motifair.studies.study import Settings, no_pieces, no_progress

    names = choose_studies(name)
    studies = [load_study(one) for one in names]
    if processes > 1 and not any(study.in_pieces for study in studies):
        raise MotifairError(
            f"The study {name} has no pieces for several processes; leave --processes out."
        )
    if truth and not any(study.takes_truth for study in studies):
        raise MotifairError(f"The study {name} measures no truth; leave --truth out.")
    if out.exists() and not out.is_dir():
        raise MotifairError(f"--out {out} is a file; name a folder.")
    errors = Console(stderr=True)
    with ExitStack() as stack:
        stop = stack.enter_context(stoppable(errors, AGAIN))
        progress = None if quiet else stack.enter_context(StudyProgress(errors))
        settings = Settings(
            out=out,
            splits=splits,
            rounds=rounds,
            datasets=tuple(w.strip() for w in datasets.split(",") if w.strip()),
            device=device,
            threads=threads,
            processes=processes,
            truth=truth,
            memory=memory,
            data_dir=data_dir,
            progress=progress or no_progress,
            pieces=no_pieces if progress is None else progress.pieces,
            stop=stop,
        )
        results = {}
        for study in studies:
            if len(names) > 1 and not quiet:
                errors.print(f"{study.name}: {study.summary}", highlight=False)
            results[study.name] = _make(study, settings)
    _print(results, out, as_json)


class StudyProgress:
    """Show the runs of a study one after another, each with a bar that disappears at its end."""

    def __init__(self, console: Console) -> None:
        self.console, self.shown = console, ExitStack()
        self.bar: Progress | None = None

    def __enter__(self) -> StudyProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.shown.close()

    def pieces(self, done: int, of: int) -> None:
        """Show how many pieces of a study are done, which several processes compute."""
        if self.bar is None:
            self.shown.close()
            self.bar = self.shown.enter_context(Progress(console=self.console, transient=True))
            self.task = self.bar.add_task("trained", total=of)
        self.bar.update(self.task, completed=done, total=of)
        if done == of:
            self.bar = None

    def __call__(self, plan: Plan) -> RunProgress:
        """Show the progress of a run that begins; return it."""
        from motifair.experiments.progress import RunProgress

        self.shown.close()
        return self.shown.enter_context(
            RunProgress({plan.config.method: plan}, self.console, transient=True)
        )


def _make(study: Study, settings: Settings) -> StudyResult:
    """Run a study and write its result before the next one starts; return it."""
    result = study.run(settings)
    result.write(settings.out / study.name)
    return result


def _print(results: dict[str, StudyResult], out: Path, as_json: bool) -> None:
    if as_json:
        content = {name: result.to_json() for name, result in results.items()}
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
        return
    console = Console()
    for name, result in results.items():
        console.print(result.title, style="bold", highlight=False)
        for note in result.notes:
            console.print(note, highlight=False)
        console.print(f"Results in {out / name}", highlight=False, soft_wrap=True)
