"""Kills processes of a federation at random times, and records what it killed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import psutil
from consortium import Consortium
from postgres_server import Postgres

from motifair.consortium.operator_folder import SERVER

KINDS = ("server", "worker", "site", "driver", "postgres")


@dataclass(frozen=True)
class Kill:
    """What was killed, of whom, after which round, and how long until the next round was done,
    unless the next kill came before that.
    """

    kind: str
    whom: str
    round: int
    processes: int
    seconds: float
    healed: bool


@dataclass
class Killer:
    """Drives one run to its end with `federation run` as a process of its own, and kills."""

    world: Consortium
    postgres: Postgres
    run: str
    random: Random
    calm: float = 2.0  # seconds at most between a recovery and the next kill
    patience: float = 300.0
    kills: list[Kill] = field(default_factory=list)
    surprises: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Start or restart the operator's command."""
        words = ("federation", "run", "--run", self.run, "--folder", self.world.folder)
        self.world.start(self.driver, *words, "--json")

    @property
    def driver(self) -> str:
        return f"driver-{self.run}"

    def __call__(self, kinds: Sequence[str], rounds: int) -> int:
        """Kill one process after another; return how many, fewer if the run ends first."""
        last = rounds - 2
        self.begin()
        for done, kind in enumerate(kinds):
            self._wait_for_round(0)
            self._pause(last)
            now = self.world.round(self.run)
            if now >= last:
                return done
            whom, processes = self.kill(kind)
            began = time.monotonic()
            healed = self.random.random() < 0.75
            if healed:
                self._wait_until_healed(kind, now)
            took = time.monotonic() - began
            self.kills.append(Kill(kind, whom, now, processes, took, healed))
            then = f"at work after {took:.1f} s" if healed else "the next one at once"
            print(f"{self.run}, round {now}: {kind} ({whom}), {then}", flush=True)
        return len(kinds)

    def finish(self) -> None:
        """Wait for the end of the run."""
        end = time.monotonic() + self.patience
        before = -1
        while not (self.world.operator.run(self.run) / "result.json").exists():
            if (now := self.world.round(self.run)) > before:
                before, end = now, time.monotonic() + self.patience
            assert time.monotonic() < end, f"{self.run} stands at round {before}"
            self.attend()
            time.sleep(0.2)
        process = self.world.started[self.driver]
        assert process.wait(60) == 0, self.world.said(self.driver)

    def attend(self) -> None:
        """Restart the operator's command if it ended by itself."""
        for name, process in list(self.world.started.items()):
            if process.poll() in (None, 0):
                continue
            words = self.world.said(name).strip().splitlines()[-1:]
            self.surprises.append(f"{name} ended with {process.returncode}: {' '.join(words)}")
            if name == self.driver:
                self.begin()
            elif name == SERVER:
                self.world.start_server()
            elif name in self.world.operator.terms.members:
                self.world.start_agent(name)

    def kill(self, kind: str) -> tuple[str, int]:
        """Kill -9 a process of this kind; return whose it was, and how many processes."""
        if kind == "postgres":
            return "postgres", self._kill_postgres()
        if kind == "driver":
            process = self.world.started[self.driver]
            process.kill()
            process.wait()
            self.begin()
            return "operator", 1
        return self._kill_part(workers_only=kind == "worker", server=kind == "server")

    def _kill_part(self, *, workers_only: bool, server: bool) -> tuple[str, int]:
        """Kill the server or a site, or only its workers of the current segment."""
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            whom = SERVER if server else self.random.choice(self.world.operator.terms.members)
            process = self.world.part(whom)
            workers = process.workers() if process else []
            if process and (workers or not workers_only):
                # The parent first: it must not see its workers die.
                killed = workers if workers_only else [process.process, *workers]
                return whom, _kill_all(killed)
            self.attend()
            time.sleep(0.05)
        raise AssertionError("there is nothing to kill")

    def _kill_postgres(self) -> int:
        killed = self.postgres.kill()
        time.sleep(self.random.uniform(0, 3))
        self.postgres.start()
        return killed

    def _pause(self, last: int) -> None:
        """Wait a random time, unless the run ends first."""
        end = time.monotonic() + self.random.uniform(0, self.calm)
        while time.monotonic() < end and self.world.round(self.run) < last:
            time.sleep(0.02)

    def _wait_until_healed(self, kind: str, round: int) -> None:
        """Wait until rounds are done again, and until the operator's command prints them."""
        before = len(self.world.said(self.driver))
        self._wait_for(lambda: kind != "driver" or len(self.world.said(self.driver)) > before)
        self._wait_for_round(round + 2)  # messages in flight may still have arrived

    def _wait_for_round(self, round: int) -> None:
        self._wait_for(lambda: self.world.round(self.run) >= round)

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + self.patience
        while not condition():
            assert time.monotonic() < end, f"{self.run} stands at {self.world.round(self.run)}"
            self.attend()
            time.sleep(0.02)


def _kill_all(processes: Sequence[psutil.Process]) -> int:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    # They are not our children, so poll instead of waiting.
    psutil.wait_procs([p for p in processes if not _is_zombie(p)], timeout=10)
    return len(processes)


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
