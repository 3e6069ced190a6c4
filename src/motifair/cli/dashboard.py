"""`motifair dashboard`: the web dashboard of a federation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from motifair.errors import MotifairError


def dashboard(
    ledger: Annotated[
        str | None, typer.Option(help="SQLite file, or PostgreSQL URL, of a federation.")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="Folder of simulations and comparisons, such as runs."),
    ] = None,
    runs: Annotated[
        Path | None, typer.Option(help="The operator's folder, for the live status of agents.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free one.")] = 8080,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the operator's token; or set MOTIFAIR_TOKEN.")
    ] = None,
    agent_tokens: Annotated[
        Path | None, typer.Option(help='TOML file with a line agent = "token" for each agent.')
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Host name that a proxy uses for this server; repeatable."),
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option(
            envvar="MOTIFAIR_WEBHOOK",
            help="Address to post alerts to: late, rejected, fined, not verified.",
        ),
    ] = None,
) -> None:
    """Serve a read-only, live web page of a federation's ledger, of simulations, or of both."""
    from motifair.consortium.dashboard.access import (
        Access,
        check_access,
        read_agent_tokens,
        read_token,
    )
    from motifair.consortium.dashboard.alerts import Webhook
    from motifair.consortium.dashboard.serve import serve
    from motifair.consortium.dashboard.watcher import Watcher

    if ledger is None and results is None:
        raise MotifairError(
            "There is nothing to show; give --ledger of a federation, --results of simulations "
            "(such as runs), or both."
        )
    if results is not None and not results.is_dir():
        raise MotifairError(
            f"There is no folder {results}; name one of simulations with --results."
        )
    if runs is not None and not runs.is_dir():
        raise MotifairError(f"There is no folder {runs}; name the operator's folder with --runs.")
    token = read_token(token_file) if token_file else os.environ.get("MOTIFAIR_TOKEN") or None
    access = Access(token, read_agent_tokens(agent_tokens) if agent_tokens else None)
    names = allow_host or []
    check_access(access, host, names)

    def ready(address: str) -> None:
        typer.echo(f"The dashboard is at {address}; Ctrl-C stops it.")

    notify = Webhook(webhook) if webhook else None
    watcher = Watcher(ledger, runs, notify)
    where: dict[str, Any] = {"host": host, "port": port, "names": names}
    serve(watcher, access, **where, results=results, ready=ready)
