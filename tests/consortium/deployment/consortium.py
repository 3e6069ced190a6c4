"""A whole federation on this machine for the tests: its operator's folder, and all its processes,
each started by the command that a person would type.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from motifair.cli.app import app
from motifair.consortium.agent_process import HANDLER, make_handler, own_key, settings_of
from motifair.consortium.coordinator import Coordinator
from motifair.consortium.demo import graphs_of, prepare
from motifair.consortium.keys import signer
from motifair.consortium.operate import run_federation, status
from motifair.consortium.operator_folder import SERVER, OperatorFolder
from motifair.consortium.rounds import RunDriver
from motifair.consortium.store.ledger import open_ledger
from motifair.consortium.transports.inprocess import InProcess
from motifair.consortium.transports.nvflare.processes import (
    EngineProcess,
    running,
    start_server,
    start_site,
)
from motifair.consortium.transports.nvflare.stopping import end_engine
from motifair.errors import MotifairError
from motifair.statements.accounts import Accounts
from motifair.statements.entry import Entry
from motifair.statements.signatures import public_text

MOTIFAIR = (sys.executable, "-m", "motifair")
PATIENCE = 300.0  # seconds for what takes a few on an idle machine
PRIVACY = """
[privacy]
clip_update = 0.1
noise_update = 1.0
clip_prototype = 50.0
noise_prototype = 0.5
delta = 1e-5
"""


def motifair(*words: object, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*MOTIFAIR, *map(str, words)], capture_output=True, text=True, timeout=timeout, check=False
    )


def motifair_here(*words: object) -> str:
    """Run a command in this process, which must succeed; return its output."""
    ended = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(ended.exception, MotifairError):
        raise ended.exception
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def refused_here(*words: object) -> str:
    """Run a command in this process, which must refuse; return its sentence.

    As a process of its own it prints that and ends with code 2: see `call` in test_refused.py.
    """
    with pytest.raises(MotifairError) as refused:
        motifair_here(*words)
    return str(refused.value)


def wait_until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds:g} s"
        time.sleep(0.1)


class Enough(Exception):  # noqa: N818 - nothing went wrong
    """Raised to end a run as Ctrl-C of the operator does."""


@dataclass
class Consortium:
    """An operator's folder and the processes started from it; `with` stops them."""

    folder: Path
    started: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    parts: dict[str, EngineProcess] = field(default_factory=dict)

    def __enter__(self) -> Consortium:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill everything: to end it gently takes seconds each, and has tests of its own."""
        for process in self.started.values():
            process.kill()
            process.wait()
        for kit in (self.folder / "kits").glob("*"):
            end_engine(kit, grace=0)

    @property
    def operator(self) -> OperatorFolder:
        """The operator's folder, read again."""
        return OperatorFolder(self.folder)

    def prepare(
        self, agents: int, rounds: int, *, private: bool = False, trial: int = 1, **settings: str
    ) -> None:
        """Write graphs and terms, and make the kits; `settings` replace lines of the terms.

        Members train alone for `trial` rounds before judgement: a hundred would be most of it.
        """
        prepare(self.operator, agents, rounds)
        for name, value in settings.items():
            self.set(name, value)
        path = self.folder / "federation.toml"
        more = (
            'alignment_against = "all"\nsize = "claimed"' if private else f"trial_rounds = {trial}"
        )
        text = path.read_text().replace("\nrounds = ", f"\n{more}\nrounds = ")
        if private:  # there are no fingerprints that could be audited
            text = text[: text.index("[audit]")] + text[text.index("[training]") :]
        path.write_text(text + PRIVACY * private)
        self.operator.provision()
        for name in self.operator.terms.members:
            own_key(self.operator.kit(name))

    def set(self, name: str, value: str) -> None:
        """Change one line of federation.toml."""
        path = self.folder / "federation.toml"
        lines = path.read_text().splitlines()
        (at,) = [k for k, line in enumerate(lines) if line.startswith(f"{name} = ")]
        lines[at] = f"{name} = {value}"
        path.write_text("\n".join(lines) + "\n")

    def graphs(self, name: str) -> Path:
        return graphs_of(self.operator, name)

    def state(self, name: str) -> Path:
        """Folder of an agent's state, outside the kit, which may be renewed."""
        return self.folder / "states" / name

    def start(self, name: str, *words: object) -> subprocess.Popen[str]:
        """Start a command in the background; its output is in `folder/NAME.log`."""
        with (self.folder / f"{name}.log").open("a") as log:
            self.started[name] = subprocess.Popen(
                [*MOTIFAIR, *map(str, words)], stdout=log, stderr=subprocess.STDOUT, text=True
            )
        return self.started[name]

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def start_server(self) -> None:
        self.start(SERVER, "federation", "server", "start", "--folder", self.folder)

    def start_agent(self, name: str) -> None:
        where = ("--kit", self.operator.kit(name), "--graphs", self.graphs(name))
        self.start(name, "federation", "agent", "start", *where, "--state", self.state(name))

    def start_all(self) -> None:
        self.start_server()
        wait_until(lambda: self.part(SERVER), "the server starts")
        for name in self.operator.terms.members:
            self.start_agent(name)
        for name in self.operator.terms.members:
            self.wait_for(name)

    def start_parts(self, *names: str) -> None:
        """Start server and sites without the commands that keep them alive: that is quicker."""
        if SERVER in names:
            where = {"office": str(self.folder.resolve())}
            self.parts[SERVER] = start_server(self.operator.kit(SERVER), where)
        sites = [name for name in names if name != SERVER]
        with ThreadPoolExecutor() as pool:
            self.parts |= zip(sites, pool.map(self._start_site, sites), strict=True)

    def _start_site(self, name: str) -> EngineProcess:
        kit = self.operator.kit(name)
        settings = settings_of(kit, self.graphs(name), self.state(name))
        return start_site(kit, HANDLER, settings, wait=90)

    def wait_for(self, name: str) -> None:
        """Wait until the command prints that its process is running."""
        wait_until(lambda: f"{name} is running" in self.said(name), f"{name} starts")

    def part(self, name: str) -> EngineProcess | None:
        return running(self.folder / "kits" / name)

    def run_until(self, run: str, round: int) -> None:
        """Continue a run with the current members until after this round."""

        def watch() -> None:
            if self.round(run) >= round:
                raise Enough

        rounds = round - max(self.round(run), 0)
        with contextlib.suppress(Enough):
            run_federation(self.operator, run, rounds=rounds, watch=watch)

    def round(self, run: str) -> int:
        return status(self.operator, run).round

    def entries(self, run: str) -> list[Entry]:
        with open_ledger(self.operator.ledger, write=False) as ledger:
            return list(ledger.entries(run))

    def check_books(self, run: str) -> None:
        """Let the commands verify the ledger and audit the run; what was paid is all that was due,
        but for what is carried over to a round that has not come yet.
        """
        ledger = self.operator.ledger
        motifair_here("ledger", "verify", "--ledger", ledger)
        motifair_here("ledger", "audit", "--run", run, "--folder", self.folder)
        for name in self.operator.terms.members:
            heads = self.state(name) / "heads.jsonl"
            motifair_here("ledger", "verify", "--ledger", ledger, "--heads", heads)
        balance = json.loads(motifair_here("ledger", "balance", "--ledger", ledger, "--json"))
        paid = sum(Decimal(row["balance"]) for row in balance if row["run"] == run)
        books = Accounts.of(run, self.entries(run))
        due = books.agreed.budget * books.round - books.carried
        assert paid == Decimal(due).scaleb(-books.agreed.digits)

    def alone(self, run: str, members: Sequence[str] = ()) -> list[Entry]:
        """Run the same agents, or some of them, without faults: in this process, with a separate
        ledger.

        What they end with is in `folder/alone/RUN`, each agent's model in `NAME/RUN/model`.
        """
        operator, scratch, handlers = self.operator, self.folder / "alone" / run, {}
        terms = operator.terms.with_members(members or operator.terms.members)
        for name in terms.members:
            state = scratch / name
            state.mkdir(parents=True)
            (state / "seed").write_text((self.state(name) / "seed").read_text())
            settings = settings_of(operator.kit(name), self.graphs(name), state)
            handlers[name] = make_handler(name, settings)
        key = operator.signing_key()
        coordinator = Coordinator(run, terms, operator.keys(), public_text(key))
        with open_ledger(scratch / "ledger.sqlite", write=True) as ledger:
            RunDriver(InProcess(handlers), coordinator, ledger, scratch / "run", sign=signer(key))()
            return list(ledger.entries(run))

    def models(self, run: str, root: Path) -> dict[str, bytes]:
        """Return the agents' final models, for agents with their state in `root`."""
        models = {}
        for name in self.operator.terms.members:
            path = root / name / run / "model" / "model.safetensors"
            if path.exists():
                models[name] = path.read_bytes()
        return models
