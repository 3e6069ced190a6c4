"""The commands: parse arguments, call the library, print."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from motifair.cli import complete, data, federation
from motifair.cli.check import check
from motifair.cli.config_options import config_options
from motifair.cli.dashboard import dashboard
from motifair.cli.doctor import doctor
from motifair.cli.interrupt import AGAIN, stoppable
from motifair.cli.ledger import ledger_app
from motifair.cli.options import list_options
from motifair.cli.paper import paper
from motifair.cli.predict import export, predict
from motifair.cli.report import report
from motifair.cli.runs import list_runs
from motifair.cli.shared import WHERE, DataDir, Device, Quiet, Summary, Threads, print_json
from motifair.cli.statement import statement
from motifair.options import parse_assignments, read_settings

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Fair graph federated learning. A mistake ends in one sentence and exit code 2; "
    "add --debug anywhere to see where it was raised.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from motifair.version import __version__

        typer.echo(f"motifair {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Take options that precede a command."""


# Panels of the help.
EXPERIMENTS, RESULTS = "Experiments", "Results"
BETWEEN, KNOWING = "Between machines", "Look up and check"
STUDIES = "Studies"

Memory = Annotated[
    float | None,
    typer.Option(
        help="GiB of the GPU for splits trained together.",
        show_default="80 % of what is free",
        rich_help_panel=WHERE,
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any option, as key=value; repeatable.",
        autocompletion=complete.assignment,
    ),
]
Log = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        help="tensorboard (to OUT/tensorboard) or mlflow (to MLFLOW_TRACKING_URI, else "
        "OUT/mlflow.db); repeatable.",
        autocompletion=complete.logger,
    ),
]


@app.command(rich_help_panel=EXPERIMENTS)
@config_options(
    "dataset", "smiles", "targets", "method", "agents", "rounds", "splits", "seed", "fixed_split",
    "partition", "scenario", "profile", "eval_every", "task", "metric", "model",
)  # fmt: skip
def run(
    *,
    device: Device = "auto",
    threads: Threads = None,
    memory: Memory = None,
    data_dir: DataDir = None,
    set_: Assignments = None,
    config: Annotated[Path | None, typer.Option(help="TOML or JSON file with options.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results.")] = None,
    log: Log = None,
    quiet: Quiet = False,
    as_json: Summary = False,
    **settings: Any,
) -> None:
    """Run a method; without --dataset, ten agents on the embedded dataset."""
    from motifair.experiments.plan import make_plan

    given: dict[str, Any] = {} if config is None else read_settings(config)
    given |= _named(settings, set_)
    chosen = given.pop("dataset", "planted")
    where: dict[str, Any] = {
        "data_dir": data_dir,
        "device": device,
        "threads": threads,
        "memory": memory,
    }
    plan = make_plan(chosen, given, **where)
    if out is None:
        c = plan.config
        out = Path("runs") / f"{Path(plan.data.name).name}-{c.method}-{c.digest()}"
    _execute(plan, out, log, quiet, as_json)


@app.command(rich_help_panel=EXPERIMENTS)
@config_options(
    "dataset", "smiles", "targets", "agents", "rounds", "splits", "seed", "partition", "scenario",
    "profile", "task", "metric", "model", splits=5,
)  # fmt: skip
def compare(
    *,
    methods: Annotated[
        str,
        typer.Option(help="all, or names joined by commas.", autocompletion=complete.methods),
    ] = "all",
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Method the others are compared with; default fedavg.",
            autocompletion=complete.method,
        ),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    memory: Memory = None,
    data_dir: DataDir = None,
    set_: Assignments = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; the same again continues.")
    ] = None,
    log: Log = None,
    quiet: Quiet = False,
    as_json: Summary = False,
    **settings: Any,
) -> None:
    """Run several methods on the same splits and compare them."""
    from motifair.experiments.compare import choose_methods, make_plans

    given = _named(settings, set_)
    where = {"data_dir": data_dir, "device": device, "threads": threads, "memory": memory}
    names = choose_methods(methods)
    dataset = given.pop("dataset", "planted")
    plans = make_plans(dataset, {n: {} for n in names}, given, **where)
    folder = out or Path("runs") / f"compare-{Path(plans[names[0]].data.name).name}"
    _execute_all(plans, baseline, folder, log, quiet, as_json)


@app.command("methods", rich_help_panel=KNOWING)
def list_methods(as_json: Summary = False) -> None:
    """List the methods: what each one shares and which options of the mechanism it reads."""
    import pandas as pd

    from motifair.config import make_config
    from motifair.methods import all_methods

    rows = [
        {
            "method": m.name,
            "shares": m().bind(make_config({"method": m.name})).share,
            "global model": "yes" if m.global_model else "no",
            "what it is": m.summary,
        }
        for m in all_methods().values()
    ]
    data.print_frame(pd.DataFrame(rows).set_index("method"), "Methods", as_json)


@app.command(rich_help_panel=EXPERIMENTS)
def resume(
    folder: Annotated[Path, typer.Argument(help="The out folder of a run or comparison.")],
    rounds: Annotated[
        int | None,
        typer.Option(help="Extend it, also where it is finished, to so many rounds in all."),
    ] = None,
    log: Log = None,
    quiet: Quiet = False,
    as_json: Summary = False,
) -> None:
    """Continue an interrupted run, or extend a finished run or comparison, to the same result as in
    one go.
    """
    from motifair.experiments.comparison import is_comparison
    from motifair.experiments.extend import extend, extend_comparison
    from motifair.experiments.plan import read_plan

    if is_comparison(folder):
        _execute_all(*extend_comparison(folder, rounds), folder, log, quiet, as_json)
        return
    plan = read_plan(folder) if rounds is None else extend(folder, rounds)
    _execute(plan, folder, log, quiet, as_json)


@app.command(rich_help_panel=RESULTS)
def show(
    folder: Annotated[Path, typer.Argument(help="The out folder of a finished run or comparison.")],
    as_json: Summary = False,
) -> None:
    """Show a finished run or comparison again."""
    from motifair.experiments.comparison import is_comparison, load_comparison
    from motifair.experiments.result import load_result
    from motifair.report.terminal import show_comparison

    if not is_comparison(folder):
        _print(load_result(folder), as_json)
    elif as_json:
        print_json(load_comparison(folder).to_json())
    else:
        show_comparison(load_comparison(folder), Console())


@app.command(rich_help_panel=STUDIES)
def bench(
    device: Device = "auto",
    dataset: Annotated[
        str | None,
        typer.Option(
            help="As for run; default PROTEINS where it is, else planted.",
            autocompletion=complete.dataset,
        ),
    ] = None,
    splits: Annotated[
        int | None, typer.Option(help="Federations in a stack, on a GPU; default 20.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Rounds of each variant, taken in turn.")] = 12,
    out: Annotated[Path, typer.Option(help="File for the result.")] = Path("bench.json"),
    scale: Annotated[
        bool, typer.Option("--scale", help="Also 10 to 1000 agents, with a plot next to --out.")
    ] = False,
    data_dir: DataDir = None,
    as_json: Summary = False,
) -> None:
    """Time a round, a naive loop and the machine's bound, in turn."""
    from motifair.studies.bench.run import run_benchmark, show_benchmark

    timings = run_benchmark(
        out,
        dataset=dataset,
        device=device,
        splits=splits,
        repeats=repeats,
        scale=scale,
        data_dir=data_dir,
    )
    if as_json:
        print_json(timings)
    else:
        show_benchmark(timings, Console())


def _execute(plan: Any, out: Path, log: list[str] | None, quiet: bool, as_json: bool) -> None:
    from motifair.cli.loggers import make_loggers
    from motifair.experiments.progress import RunProgress
    from motifair.experiments.run import execute
    from motifair.report.overview import save_overview

    errors = Console(stderr=True)
    loggers = make_loggers(log or [], out, _printer(errors), out.name)
    with ExitStack() as stack:
        stop = stack.enter_context(stoppable(errors, f"Continue with: motifair resume {out}"))
        progress = None
        if not quiet:
            _print_inputs({plan.config.method: plan}, errors)
            progress = stack.enter_context(RunProgress({plan.config.method: plan}, errors))
        result = execute(plan, out, progress=progress, stop=stop, callbacks=loggers)
    if not (out / "overview.png").exists():
        save_overview(result, out / "overview.png")
    _print(result, as_json)
    if not as_json:
        _print_next(out)


def _execute_all(
    plans: Mapping[str, Any],
    baseline: str | None,
    out: Path,
    log: list[str] | None,
    quiet: bool,
    as_json: bool,
) -> None:
    from motifair.cli.loggers import make_loggers
    from motifair.experiments.compare import execute_all
    from motifair.experiments.progress import RunProgress
    from motifair.report.terminal import show_comparison

    errors = Console(stderr=True)
    loggers = make_loggers(log or [], out, _printer(errors))
    with ExitStack() as stack:
        hooks: dict[str, Any] = {"stop": stack.enter_context(stoppable(errors, AGAIN))}
        if not quiet:
            _print_inputs(plans, errors)
            hooks["progress"] = stack.enter_context(RunProgress(plans, errors)).begin
        comparison = execute_all(plans, out, baseline=baseline, callbacks=loggers, **hooks)
    if as_json:
        print_json(comparison.to_json())
    else:
        show_comparison(comparison, Console())
        _print_next(out)


def _named(settings: Mapping[str, Any], assignments: list[str] | None) -> dict[str, Any]:
    """Return the options that were set, by name or with --set, which takes precedence."""
    given = {name: value for name, value in settings.items() if value is not None}
    return given | parse_assignments(assignments or [])


def _print_inputs(plans: Mapping[str, Any], errors: Console) -> None:
    """Print which parts of the graphs are used and ignored, once if all methods agree."""
    methods: dict[str, list[str]] = {}
    for method, plan in plans.items():
        methods.setdefault(str(plan.inputs), []).append(method)
    for words, names in methods.items():
        line = words if len(methods) == 1 else f"{', '.join(names)}: {words}"
        errors.print(line, highlight=False, markup=False, soft_wrap=True)


def _printer(errors: Console) -> Callable[[str], None]:
    return lambda words: errors.print(words, highlight=False, markup=False)


def _print(result: Any, as_json: bool) -> None:
    from motifair.report.terminal import show_result
    from motifair.report.verdicts import verdict_on_run

    if as_json:
        agents = result.to_frame().to_dict("records")
        print_json({"verdict": verdict_on_run(result), **result.to_json(), "agents": agents})
    else:
        show_result(result, Console())


def _print_next(folder: Path) -> None:
    words = f"Results in {folder}\nNext: motifair report {shlex.quote(str(folder))}"
    Console().print(words, highlight=False, markup=False, soft_wrap=True)


# Panels of the help stand in the order of their first commands.
app.add_typer(data.app, name="data", rich_help_panel=KNOWING)
app.add_typer(federation.app, name="federation", rich_help_panel=BETWEEN)
ledger_app.command()(federation.audit)
app.add_typer(ledger_app, name="ledger", rich_help_panel=BETWEEN)
OTHERS: Mapping[str, Mapping[str, Callable[..., None]]] = {
    RESULTS: {
        "runs": list_runs,
        "report": report,
        "statement": statement,
        "predict": predict,
        "export": export,
    },
    BETWEEN: {"check": check, "dashboard": dashboard},
    KNOWING: {"options": list_options, "doctor": doctor},
    STUDIES: {"paper": paper},
}
for panel, commands in OTHERS.items():
    for name, function in commands.items():
        app.command(name, rich_help_panel=panel)(function)
