"""A whole federation on one machine: real processes, mutual TLS, a ledger; then the same agents in
this process, to compare.
"""

from __future__ import annotations

import json
import socket
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from motifair.consortium import closing
from motifair.consortium.agent_process import HANDLER, make_handler, own_key, settings_of, state_of
from motifair.consortium.checkpoint import load_checkpoint
from motifair.consortium.coordinator import Coordinator
from motifair.consortium.keys import signer, write_request
from motifair.consortium.operate import progress, run_federation
from motifair.consortium.operator_folder import OPERATOR, SERVER, OperatorFolder
from motifair.consortium.rounds import RunDriver
from motifair.consortium.store.ledger import open_ledger
from motifair.consortium.transports.inprocess import InProcess
from motifair.errors import MotifairError
from motifair.extras import require
from motifair.files import write_atomic, write_json
from motifair.graphs.dataset import EMBEDDED, agent_names, load_dataset
from motifair.graphs.schema import Schema
from motifair.graphs.split import make_split
from motifair.graphs.tu import write_tu
from motifair.statements.entry import Entry
from motifair.statements.signatures import public_text
from motifair.statements.verification import Verdict, verify

RUN = "demo"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class DemoTimes:
    """Median seconds of a round, of the slowest agent in a round, and of an empty round of the
    engine, if measured.
    """

    round: float
    slowest: float
    empty: float | None

    @property
    def ratio(self) -> float | None:
        """Time of a round divided by that of an empty round plus the slowest agent."""
        return None if self.empty is None else self.round / (self.empty + self.slowest)


@dataclass(frozen=True)
class DemoResult:
    """Result of the demo: the ledger, its verdict, whether the same agents in one process give the
    same ledger, and times.
    """

    operator: OperatorFolder
    entries: tuple[Entry, ...]
    verdict: Verdict
    same_in_one_process: bool
    times: DemoTimes


def demo(
    folder: Path,
    *,
    agents: int,
    rounds: int,
    measure: bool = False,
    tell: Tell = lambda text: None,
) -> DemoResult:
    """Provision, start, run, verify and compare a federation of agents with embedded graphs.

    `measure` also runs as many empty rounds of the engine.
    """
    require("federation", "A federation between machines")
    if folder.exists() and any(folder.iterdir()):
        raise MotifairError(f"{folder} is not empty; use another folder.")
    operator = OperatorFolder(folder)
    tell("writing the members' graphs and the terms")
    prepare(operator, agents, rounds)
    tell("provisioning: a startup kit for the server, the operator and each member")
    operator.provision()
    with running(operator, HANDLER, tell):
        tell("all members are connected; training")
        run_federation(operator, RUN, watch=progress(operator, RUN, tell))
    empty = empty_round(operator, rounds, tell) if measure else None
    audit_claims(operator, tell)
    with open_ledger(operator.ledger, write=False) as ledger:
        entries = tuple(ledger.entries(RUN))
    tell("the same agents once more, in this process")
    alone = in_one_process(operator)
    return DemoResult(
        operator,
        entries,
        verify(entries),
        [e.hash for e in entries if e.kind != "audit"] == [e.hash for e in alone],
        DemoTimes(_median_round(operator), _slowest(operator), empty),
    )


def prepare(operator: OperatorFolder, agents: int, rounds: int) -> None:
    """Write the graphs of each member, some of them harmful or late, and the terms."""
    data = load_dataset(EMBEDDED, agents=agents, seed=0)
    options = {"partition": "domains", "test_fraction": 0.1, "skew": 0.5, "perturbation": "none"}
    split = make_split(data, agents=agents, seed=0, **options)  # type: ignore[arg-type]
    shares = split.partition
    for k, name in enumerate(agent_names(agents)):
        own = np.sort(np.concatenate([shares.train[k], shares.test[k]]))
        write_tu(split.graphs.select(own), graphs_of(operator, name))
        _, request = write_request(operator.folder / "kits", name)  # as a member does
        (operator.folder / "requests").mkdir(exist_ok=True)
        request.rename(operator.folder / "requests" / request.name)
    path = operator.write_terms("demo", agent_names(agents), Schema.of(split.graphs, "auto"))
    # Several local epochs, so that the model learns in few rounds.
    training = f"rounds = {rounds}\nlocal_epochs = 5"
    text = path.read_text().replace("rounds = 200", training)
    write_atomic(path, text.replace("port = 8002", f"port = {_free_port()}"))


def graphs_of(operator: OperatorFolder, name: str) -> Path:
    """Return the folder of a member's graphs in the demo."""
    return operator.folder / "graphs" / name


@contextmanager
def running(operator: OperatorFolder, handler: str, tell: Tell) -> Iterator[None]:
    """Start the server and all agents as processes; stop them at the end."""
    from motifair.consortium.transports.nvflare.processes import start_server, start_site
    from motifair.consortium.transports.nvflare.stopping import end_engine, keeping

    with keeping(operator.kit(OPERATOR)), ExitStack() as stack:
        tell("starting the server")
        place = str(operator.folder.resolve())
        stack.callback(end_engine, operator.kit(SERVER))
        start_server(operator.kit(SERVER), {"office": place, "folder": place})
        for name in operator.terms.members:
            tell(f"starting {name}")
            kit = operator.kit(name)
            settings = settings_of(kit, graphs_of(operator, name), None)
            stack.callback(end_engine, kit)
            start_site(kit, handler, settings, wait=120)
        yield


def audit_claims(operator: OperatorFolder, tell: Tell) -> None:
    """Let members that were drawn show graphs that they claimed, and close the ledger."""
    answers = []
    for question in closing.ask(operator, RUN):
        kit = operator.kit(question.member)
        shown = closing.show(question, kit, graphs_of(operator, question.member))
        path = operator.folder / f"answer-{question.member}.json"
        write_json(path, shown.signed(signer(own_key(kit))).to_json())
        answers.append(path)
    for line in closing.settle(operator, RUN, answers):
        tell(f"audit of claims: {line}")


def in_one_process(operator: OperatorFolder) -> list[Entry]:
    """Run the same agents in this process, with their keys and seeds and a separate ledger."""
    scratch = operator.folder / "in-one-process"
    scratch.mkdir()
    handlers = {}
    for name in operator.terms.members:
        kit = operator.kit(name)
        state = scratch / name
        state.mkdir()
        write_atomic(state / "seed", (state_of(kit) / "seed").read_text())
        handlers[name] = make_handler(name, settings_of(kit, graphs_of(operator, name), state))
    key = operator.signing_key()
    coordinator = Coordinator(RUN, operator.terms, operator.keys(), public_text(key))
    with open_ledger(scratch / "ledger.sqlite", write=True) as ledger:
        RunDriver(InProcess(handlers), coordinator, ledger, scratch / "run", sign=signer(key))()
        return list(ledger.entries(RUN))


def empty_round(operator: OperatorFolder, rounds: int, tell: Tell) -> float:
    """Return the median seconds of a round in which agents only echo their tasks."""
    from motifair.consortium.transports.nvflare.segments import run_segment

    checkpoint = load_checkpoint(operator.run(RUN))
    assert checkpoint is not None
    size = max(len(task) for task in checkpoint.tasks.values())
    with running(operator, "motifair.consortium.transports.echo:make_echo", tell):
        tell("empty rounds of the engine")
        run_segment(
            operator.kit(OPERATOR),
            members=operator.terms.members,
            driver="motifair.consortium.transports.echo:drive",
            segment={"rounds": rounds, "bytes": size, "deadline": 60},
            min_sites=len(operator.terms.members),
            timeout=600,
        )
    lines = (operator.folder / "trial.jsonl").read_text().splitlines()
    return statistics.median(float(json.loads(line)["seconds"]) for line in lines[1:])


def _median_round(operator: OperatorFolder) -> float:
    """Return the median seconds between two rounds."""
    lines = (operator.run(RUN) / "times.txt").read_text().splitlines()
    times = [float(line.split()[1]) for line in lines]
    return statistics.median(np.diff(times).tolist() or [0.0])


def _slowest(operator: OperatorFolder) -> float:
    """Return the median over rounds of the slowest agent's seconds."""
    slowest: dict[int, float] = {}
    for name in operator.terms.members:
        for line in (state_of(operator.kit(name)) / "times.txt").read_text().splitlines():
            round, seconds = int(line.split()[0]), float(line.split()[1])
            if 0 < round <= operator.terms.config.rounds:
                slowest[round] = max(seconds, slowest.get(round, 0.0))
    return statistics.median(slowest.values())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port: int = probe.getsockname()[1]
        return port
