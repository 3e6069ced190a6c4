"""`motifair federation`: run motifair between the machines of a consortium."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from motifair.cli import complete
from motifair.errors import MotifairError
from motifair.extras import require

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

Folder = Annotated[Path, typer.Option("--folder", help="The operator's folder.")]
Kit = Annotated[Path, typer.Option(help="The member's startup kit.")]
Member = Annotated[str, typer.Argument(help="A member that federation.toml names.")]
RunName = Annotated[str, typer.Option("--run", help="Name of the run.")]
Detach = Annotated[bool, typer.Option("--detach", help="Return once it is started.")]
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
HERE = Path()


@app.command()
def init(
    like: Annotated[Path, typer.Option(help="Graphs of the kind members have: the schema.")],
    members: Annotated[str, typer.Option(help="Names of the members, with commas.")],
    name: Annotated[str, typer.Option(help="Name of the federation.")] = "federation",
    features: Annotated[
        str,
        typer.Option(help="auto, label, degree or attributes.", autocompletion=complete.features),
    ] = "auto",
    folder: Folder = HERE,
) -> None:
    """Write a commented federation.toml, to be edited."""
    from motifair.graphs.dataset import Dataset
    from motifair.graphs.inputs import describe_inputs
    from motifair.graphs.read import Schema, read_graphs

    operator = _operator(folder)
    sample = read_graphs(like)
    schema = Schema.of(sample, features)
    names = [m.strip() for m in members.split(",")]
    path = operator.write_terms(name, names, schema)
    typer.echo(describe_inputs(Dataset(sample), schema.features, motifs=True))
    typer.echo(f"Wrote {path}. Edit it, then: motifair federation provision --folder {folder}")


@app.command()
def provision(folder: Folder = HERE) -> None:
    """Make one startup kit for the server, the operator and each member."""
    operator = _operator(folder)
    for kit in operator.provision():
        typer.echo(str(kit))
    typer.echo("Hand each member its kit over a safe way, and delete it here.")


@app.command()
def terms(folder: Folder = HERE) -> None:
    """Print the federation.toml that members get: the terms, without where the ledger is."""
    typer.echo(_operator(folder).members_terms(), nl=False)


@app.command()
def add(member: Member, folder: Folder = HERE) -> None:
    """Make the startup kit of a member who joins; name it in federation.toml first."""
    typer.echo(str(_operator(folder).add(member)))


@app.command()
def renew(member: Member, folder: Folder = HERE) -> None:
    """Make a new kit, with a new key and certificate, for a member, `server`, or the operator."""
    typer.echo(str(_operator(folder).renew(member)))


@app.command()
def remove(member: Member, folder: Folder = HERE) -> None:
    """Lock a member's certificate out; take it out of federation.toml, too."""
    _operator(folder).remove(member)
    typer.echo(f"{member} is locked out.")


@server.command("start")
def start_server(folder: Folder = HERE, detach: Detach = False) -> None:
    """Start the server, and start it again should it die."""
    operator = _operator(folder)
    from motifair.consortium.operator_folder import SERVER
    from motifair.consortium.transports.nvflare import processes

    # Read them now, so that an error in them is raised before the server starts.
    _ = operator.terms, operator.keys(), operator.signing_key()
    settings = {"office": str(folder.resolve())}
    kit = operator.kit(SERVER)
    _keep(kit, lambda: processes.start_server(kit, settings), detach)


@agent.command("start")
def start_agent(
    kit: Kit,
    graphs: Annotated[Path, typer.Option(help="TU folder or zip, PyG or NetworkX files.")],
    state: Annotated[
        Path | None,
        typer.Option(help="Where its state is kept, outside the kit; MEMBER.state next to it."),
    ] = None,
    detach: Detach = False,
) -> None:
    """Check a member's graphs against the terms, and start its agent."""
    _check_extra()
    from motifair.consortium.agent_process import HANDLER, settings_of
    from motifair.consortium.transports.nvflare import processes

    notes: list[str] = []
    settings = settings_of(kit, graphs, state, notes.append)
    _keep(kit, lambda: processes.start_site(kit, HANDLER, settings), detach, notes)


@app.command()
def stop(
    kit: Annotated[Path | None, typer.Option(help="Only what was started from this kit.")] = None,
    folder: Folder = HERE,
) -> None:
    """Stop what was started here from the kits of a folder, or from one kit, for good."""
    _check_extra()
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
def run(run: RunName = "run-1", folder: Folder = HERE, as_json: Json = False) -> None:
    """Train until all rounds are done; after an interruption the same command goes on."""
    operator = _operator(folder)
    from motifair.consortium.operate import run_federation, status
    from motifair.consortium.operator_folder import OPERATOR
    from motifair.consortium.transports.nvflare.stopping import keeping

    console = Console(stderr=True)
    told = [-1]

    def watch() -> None:
        now = status(operator, run)
        if now.round > told[0]:
            told[0] = now.round
            console.print(f"round {now.round} of {operator.terms.config.rounds}")

    with keeping(operator.kit(OPERATOR)):
        run_federation(operator, run, watch=watch)
    _show(operator, run, as_json)


@app.command()
def status(run: RunName = "run-1", folder: Folder = HERE, as_json: Json = False) -> None:
    """Say how far a run is, who was there in its last round, and what runs here."""
    operator = _operator(folder)
    from motifair.consortium.operate import status as look
    from motifair.consortium.transports.nvflare.stopping import engine, keeper

    now = look(operator, run)
    lines = now.entry.lines if now.entry else ()
    about: dict[str, Any] = {
        "run": run,
        "round": max(now.round, 0),
        "rounds": operator.terms.config.rounds,
        "finished": now.finished,
        "members": {x.agent: x.status + (f": {x.reason}" if x.reason else "") for x in lines},
        "running here": [k.name for k in _kits(folder) if keeper(k) or engine(k)],
    }
    if as_json:
        typer.echo(json.dumps(about))
        return
    for key, value in about.items():
        typer.echo(f"{key}: {value}")


@app.command()
def privacy(folder: Folder = HERE, as_json: Json = False) -> None:
    """Say what the terms promise of what a member's uploads give away."""
    operator = _operator(folder)
    from motifair.consortium.privacy import statement
    from motifair.files import finite

    terms = operator.terms
    said = finite(statement(terms.privacy, terms.config.rounds))
    if as_json:
        typer.echo(json.dumps(said))
        return
    for key, value in said.items():
        typer.echo(f"{key}: {', '.join(value) if isinstance(value, list) else value}")


def audit(run: RunName = "run-1", folder: Folder = HERE, as_json: Json = False) -> None:
    """Compute every value and payoff again from the retained uploads; exit code 1 names the first
    row that comes out otherwise.
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
    out: Annotated[Path, typer.Option(help="Folder for all of it.")] = Path("runs/federation"),
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure empty rounds of the engine as well.")
    ] = False,
    as_json: Json = False,
) -> None:
    """All of it on one machine: real processes, mutual TLS, a ledger, verified and compared."""
    _check_extra()
    from motifair.consortium import demo as play

    began, console = time.monotonic(), Console(stderr=True)

    def tell(words: str) -> None:
        console.print(f"{time.monotonic() - began:6.1f} s  {words}", highlight=False)

    shown = play.demo(out, agents=agents, rounds=rounds, measure=measure, tell=tell)
    found = {
        "ledger fits": shown.verdict.fits,
        "same in one process": shown.same_in_one_process,
        "head": shown.verdict.head,
        "median round, seconds": round(shown.times.round, 3),
        "slowest agent, seconds": round(shown.times.slowest, 3),
    }
    if shown.times.empty is not None and shown.times.ratio is not None:
        found["empty engine round, seconds"] = round(shown.times.empty, 3)
        found["round / (empty + slowest)"] = round(shown.times.ratio, 2)
    _show(shown.operator, play.RUN, as_json, found)
    if not (shown.verdict.fits and shown.same_in_one_process):
        raise typer.Exit(1)


def _check_extra() -> None:
    """Name the extra before anything is read or written; the modules below would name others."""
    require("federation", "A federation between machines")


def _operator(folder: Path) -> OperatorFolder:
    _check_extra()
    from motifair.consortium.operator_folder import OperatorFolder

    return OperatorFolder(folder)


def _kits(folder: Path) -> list[Path]:
    """Return the kits of a folder; members' states may be next to them."""
    return sorted(p for p in (folder / "kits").glob("*") if (p / "startup").is_dir())


def _keep(
    kit: Path, start: Callable[[], EngineProcess], detach: bool, notes: Sequence[str] = ()
) -> None:
    """Start a process and print notes; unless detached, start it again whenever it dies, until it
    is stopped.
    """
    from motifair.consortium.transports.nvflare.stopping import keeping

    def begin() -> EngineProcess:
        found = start()
        for line in (f"{found.kit.name} is running; its log is {found.log}.", *notes):
            typer.echo(line)
        return found

    if detach:
        begin()
        return
    with keeping(kit):
        found = begin()
        while True:
            time.sleep(1)
            if not found.alive():
                typer.echo(f"{found.kit.name} died; starting it again.", err=True)
                try:
                    found = start()
                except MotifairError as error:  # others may be down, too: try until they are back
                    typer.echo(str(error), err=True)


def _show(
    operator: OperatorFolder, run: str, as_json: bool, found: dict[str, Any] | None = None
) -> None:
    """Print what each member was paid in all, and how accurate its model became."""
    from motifair.consortium.rounds import RESULT
    from motifair.consortium.store.export import balance
    from motifair.consortium.store.ledger import open_ledger
    from motifair.files import read_json

    with open_ledger(operator.ledger, write=False) as ledger:
        paid = balance(ledger, [run])
    result = read_json(operator.run(run) / RESULT)
    rows = [{**row, "accuracy": result["accuracy"].get(row["agent"])} for row in paid]
    if as_json:
        typer.echo(json.dumps({"members": rows, **(found or {})}))
        return
    table = Table(title=f"Run {run}, {result['rounds']} rounds")
    for column in rows[0]:
        table.add_column(column, justify="left" if column == "agent" else "right")
    for row in rows:
        table.add_row(*(f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values()))
    Console().print(table)
    for key, value in (found or {}).items():
        typer.echo(f"{key}: {value}")
