"""`motifair federation`: run a federation between the machines of a consortium."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from motifair.cli import claims
from motifair.cli import federation_setup as setup
from motifair.cli.federation_setup import HERE, Folder, check_extra, operator_folder
from motifair.cli.member import me, members_key
from motifair.cli.shared import Json
from motifair.errors import MotifairError
from motifair.extras import require
from motifair.table import NONE, Table, number

if TYPE_CHECKING:
    from motifair.consortium.operator_folder import OperatorFolder
    from motifair.consortium.transports.nvflare.processes import EngineProcess

app = typer.Typer(
    no_args_is_help=True,
    help="Run a federation between machines.",
)
server = typer.Typer(no_args_is_help=True, help="The server of a federation.")
agent = typer.Typer(no_args_is_help=True, help="A member's agent.")
app.add_typer(server, name="server")
app.add_typer(agent, name="agent")
app.command()(me)
app.command()(claims.ask)
app.command()(claims.answer)
app.command()(claims.settle)
app.command("members-key")(members_key)
app.command()(setup.init)
app.command("sums")(setup.write_sums)
app.command()(setup.request)
app.command()(setup.provision)
app.command()(setup.terms)
app.command()(setup.add)
app.command()(setup.renew)
app.command()(setup.remove)
app.command()(setup.readmit)

Kit = Annotated[Path, typer.Option(help="The member's startup kit.")]
RunName = Annotated[str, typer.Option("--run", help="Name of the run.")]
JsonLog = Annotated[
    bool, typer.Option("--json-log", help="Write each message as one line of JSON, with its time.")
]
Detach = Annotated[bool, typer.Option("--detach", help="Return as soon as it has started.")]
LOOK = 10  # seconds between two looks into the log of the engine


@server.command("start")
def start_server(folder: Folder = HERE, detach: Detach = False, json_log: JsonLog = False) -> None:
    """Start the server, and restart it if it dies."""
    operator = operator_folder(folder)
    from motifair.consortium.operator_folder import SERVER
    from motifair.consortium.transports.nvflare import processes

    # Read them now, so that an error in them is raised before the server starts.
    _ = operator.terms, operator.keys(), operator.signing_key()
    settings = {"office": str(folder.resolve())}
    kit = operator.kit(SERVER)
    _keep(kit, lambda: processes.start_server(kit, settings), detach, _teller(json_log, SERVER))


@agent.command("start")
def start_agent(
    kit: Kit,
    graphs: Annotated[Path, typer.Option(help="TU folder or zip, PyG or NetworkX files.")],
    state: Annotated[
        Path | None,
        typer.Option(
            help="Folder for its state, outside the kit; default: MEMBER.state next to it."
        ),
    ] = None,
    detach: Detach = False,
    json_log: JsonLog = False,
) -> None:
    """Check a member's graphs against the terms, start its agent, and restart it if it dies."""
    check_extra()
    from motifair.consortium.agent_process import HANDLER, settings_of
    from motifair.consortium.transports.nvflare import processes

    notes: list[str] = []
    settings = settings_of(kit, graphs, state, notes.append)
    tell = _teller(json_log, kit.name)
    _keep(kit, lambda: processes.start_site(kit, HANDLER, settings), detach, tell, notes)


@app.command()
def stop(
    kit: Annotated[
        Path | None, typer.Option(help="Stop only what was started from this kit.")
    ] = None,
    folder: Folder = HERE,
) -> None:
    """Stop all processes on this machine started from the kits of a folder, or from one kit."""
    check_extra()
    from motifair.consortium.transports.nvflare import stopping

    kits = [kit] if kit else _kits(folder)
    if not kits or not all(k.is_dir() for k in kits):
        raise MotifairError(
            f"There is no startup kit at {kit or folder / 'kits'}; name one with --kit, or the "
            "operator's folder with --folder."
        )
    for k in kits:
        stopped = stopping.stop(k)
        typer.echo(f"{k.name} is stopped." if stopped else f"{k.name} was not running.")


@app.command()
def run(
    run: RunName = "run-1", folder: Folder = HERE, as_json: Json = False, json_log: JsonLog = False
) -> None:
    """Train until all rounds are done; after an interruption, run it again to continue."""
    operator = operator_folder(folder)
    from motifair.consortium.operate import progress, run_federation
    from motifair.consortium.operator_folder import OPERATOR
    from motifair.consortium.transports.nvflare.stopping import keeping

    with keeping(operator.kit(OPERATOR)):
        watch = progress(operator, run, _teller(json_log, run, err=True))
        run_federation(operator, run, watch=watch)
    _show(operator, run, as_json)


@app.command()
def status(
    run: RunName = "run-1",
    folder: Folder = HERE,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if there are problems: a health check.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the progress of a run, the members of its last round, what runs here, and problems."""
    operator = operator_folder(folder)
    from motifair.consortium.lateness import ANSWERS, usual_seconds
    from motifair.consortium.operate import problems
    from motifair.consortium.operate import status as run_status
    from motifair.consortium.transports.nvflare.stopping import engine, keeper

    now = run_status(operator, run)
    lines = now.entry.lines if now.entry else ()
    about: dict[str, Any] = {
        "run": run,
        "round": max(now.round, 0),
        "rounds": operator.terms.config.rounds,
        "finished": now.finished,
        "members": {x.agent: x.status + (f": {x.reason}" if x.reason else "") for x in lines},
        "median seconds to answer": usual_seconds(operator.run(run) / ANSWERS),
        "running here": [k.name for k in _kits(folder) if keeper(k) or engine(k)],
        "problems": problems(operator, run),
    }
    if as_json:
        typer.echo(json.dumps(about))
    else:
        for key, value in about.items():
            typer.echo(f"{key}: {value}")
    if check and about["problems"]:
        raise typer.Exit(1)


@app.command()
def backup(
    out: Annotated[Path, typer.Option(help="The archive, .tar.gz; it holds private keys.")],
    folder: Folder = HERE,
) -> None:
    """Write the operator's folder to one archive, also while a run goes on."""
    operator = operator_folder(folder)
    from motifair.consortium.backup import backup as write

    inside = write(operator, out)
    typer.echo(f"Written to {out}.")
    if not inside:
        typer.echo("The ledger is not in this folder: back up its database, too.")


@app.command()
def restore(
    archive: Annotated[Path, typer.Argument(help="An archive that `backup` wrote.")],
    folder: Folder,
) -> None:
    """Unpack a backup into a new folder, with every file checked."""
    check_extra()
    from motifair.consortium.backup import restore as unpack

    unpack(archive, folder)
    typer.echo(
        f"Restored to {folder}. Stop the old server, then: "
        f"motifair federation server start --folder {folder}"
    )


@app.command()
def privacy(folder: Folder = HERE, as_json: Json = False) -> None:
    """Show the privacy guarantee of the terms for a member's uploads."""
    operator = operator_folder(folder)
    from motifair.consortium.privacy import guarantee as privacy_guarantee
    from motifair.files import finite

    terms = operator.terms
    guarantee = finite(privacy_guarantee(terms.privacy, terms.config.rounds))
    if as_json:
        typer.echo(json.dumps(guarantee))
        return
    for key, value in guarantee.items():
        typer.echo(f"{key}: {', '.join(value) if isinstance(value, list) else value}")


def audit(run: RunName = "run-1", folder: Folder = HERE, as_json: Json = False) -> None:
    """Recompute every value and payoff from the retained uploads; exit code 1 names the first row
    that differs.
    """
    require("ledger", "An audit")
    from motifair.consortium.audit import audit as recompute
    from motifair.consortium.operator_folder import OperatorFolder
    from motifair.consortium.store.ledger import open_ledger

    operator = OperatorFolder(folder)
    with open_ledger(operator.ledger, write=False) as ledger:
        verdict = recompute(operator.terms, operator.run(run), list(ledger.entries(run)))
    typer.echo(json.dumps(verdict.to_json()) if as_json else str(verdict))
    if not verdict.fits:
        raise typer.Exit(1)


@app.command()
def demo(
    agents: Annotated[int, typer.Option(min=2, max=50, help="Number of members.")] = 10,
    rounds: Annotated[int, typer.Option(min=1, help="Communication rounds.")] = 20,
    out: Annotated[Path, typer.Option(help="Folder for everything it writes.")] = Path(
        "runs/federation"
    ),
    measure: Annotated[
        bool, typer.Option("--measure", help="Also measure empty rounds of the engine.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a whole federation on one machine: real processes, mutual TLS, a verified ledger."""
    check_extra()
    from motifair.consortium import demo as demo_module

    began, console = time.monotonic(), Console(stderr=True)

    def tell(text: str) -> None:
        console.print(f"{time.monotonic() - began:6.1f} s  {text}", highlight=False)

    result = demo_module.demo(out, agents=agents, rounds=rounds, measure=measure, tell=tell)
    about = {
        "ledger fits": result.verdict.fits,
        "same in one process": result.same_in_one_process,
        "head": result.verdict.head,
        "median round, seconds": round(result.times.round, 3),
        "slowest agent, seconds": round(result.times.slowest, 3),
    }
    if result.times.empty is not None and result.times.ratio is not None:
        about["empty engine round, seconds"] = round(result.times.empty, 3)
        about["round / (empty + slowest)"] = round(result.times.ratio, 2)
    _show(result.operator, demo_module.RUN, as_json, about)
    if not (result.verdict.fits and result.same_in_one_process):
        raise typer.Exit(1)


def _kits(folder: Path) -> list[Path]:
    """Return the kits of a folder, without members' state folders next to them."""
    return sorted(p for p in (folder / "kits").glob("*") if (p / "startup").is_dir())


def _teller(json_log: bool, part: str, *, err: bool = False) -> Callable[[str], None]:
    """Return a function that writes messages of a part to the terminal or, for a log, as JSON."""

    def tell(text: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        line = json.dumps({"time": now, "part": part, "message": text}) if json_log else text
        typer.echo(line, err=err)

    return tell


def _keep(
    kit: Path,
    start: Callable[[], EngineProcess],
    detach: bool,
    tell: Callable[[str], None],
    notes: Sequence[str] = (),
) -> None:
    """Start a process and tell notes; unless detached, restart it whenever it dies, and tell what
    its log shows, until it is stopped.
    """
    from motifair.consortium.transports.nvflare.processes import trouble
    from motifair.consortium.transports.nvflare.stopping import keeping

    until = "" if detach else " Ctrl-C ends it; with --detach the command returns."

    def begin() -> EngineProcess:
        process = start()
        for line in (f"{process.kit.name} is running; its log is {process.log}.{until}", *notes):
            tell(line)
        return process

    if detach:
        begin()
        return
    with keeping(kit):
        process, known, seconds = begin(), None, 0
        while True:
            time.sleep(1)
            seconds += 1
            if not process.alive():
                tell(f"{process.kit.name} died; restarting it.")
                try:
                    process = start()
                except MotifairError as error:  # the server may be down, too: retry
                    tell(str(error))
            if seconds % LOOK == 0 and (found := trouble(process.kit)) != known:
                known = found
                tell(found or "That is over.")


def _show(
    operator: OperatorFolder, run: str, as_json: bool, about: dict[str, Any] | None = None
) -> None:
    """Print balance and final accuracy of each member."""
    from motifair.consortium.rounds import RESULT
    from motifair.consortium.store.export import balance
    from motifair.consortium.store.ledger import open_ledger
    from motifair.evaluation.metrics import find_metric
    from motifair.files import read_json

    with open_ledger(operator.ledger, write=False) as ledger:
        paid = balance(ledger, [run])
        last = next(ledger.entries(run, ledger.head(run)[0] - 1))
    result = read_json(operator.run(run) / RESULT)
    rows = [{**row, "accuracy": result["accuracy"].get(row["agent"])} for row in paid]
    if as_json:
        typer.echo(json.dumps({"members": rows, **(about or {})}))
        return
    metric = find_metric(result.get("metric", "accuracy"))
    for row in rows:
        del row["run"]  # which the title names
        reached = row.pop("accuracy")
        row[metric.words] = None if reached is None else metric.sign * reached
    cells = [[_cell(v) for v in row.values()] for row in rows]
    title = f"Run {run}, {result['rounds']} rounds"
    Console().print(Table([*rows[0]], cells, title, range(1, len(rows[0]))).to_rich())
    if (kept := result.get("model_of_round", result["rounds"])) < result["rounds"]:
        typer.echo(
            f"The server's model is that of round {kept}: to the median member a later one is "
            "worse on its graphs, and was not handed out."
        )
    for key, value in (about or {}).items():
        typer.echo(f"{key}: {value}")
    if operator.terms.audit is not None and last.kind != "audit":
        typer.echo("Due after the audit of claims: motifair federation ask --out QUESTIONS")


def _cell(value: str | float | None) -> str:
    """Return a cell of the table; the reserve has no accuracy, and neither has who was absent."""
    if value is None:
        return NONE
    return number(value) if isinstance(value, float) else value
