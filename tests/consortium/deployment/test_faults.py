"""A real federation loses its server, workers, sites, driver and database at random moments: no
settled round is lost, none is paid twice, and it ends as it would have ended without.

The long version kills as often as MOTIFAIR_FAULTS says:

    MOTIFAIR_FAULTS=60 pytest tests/consortium/deployment/test_faults.py -k long -s
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("nvflare")

from consortium import Consortium
from killer import KINDS, Kill, Killer
from postgres_server import Postgres

pytestmark = pytest.mark.federation
FAULTS = int(os.environ.get("MOTIFAIR_FAULTS", "0"))


@contextmanager
def federation(folder: Path, rounds: int) -> Iterator[tuple[Consortium, Postgres]]:
    """Three members, a server, and a ledger in PostgreSQL."""
    postgres = Postgres()
    try:
        with Consortium(folder) as world:
            world.prepare(3, rounds, ledger=f'"{postgres.create()}"')
            world.start_all()
            yield world, postgres
    finally:
        postgres.stop()


def check(world: Consortium, run: str, rounds: int) -> int:
    """Check the files of a run; return the number of absences."""
    entries = world.entries(run)
    assert [e.number for e in entries] == list(range(rounds + 1))
    assert [e.round for e in entries] == list(range(rounds + 1))
    assert [e.kind for e in entries] == ["terms"] + ["round"] * rounds
    world.check_books(run)
    absent = sum(line.status != "present" for e in entries for line in e.lines)
    if not absent:
        without_faults = world.alone(run)
        assert [e.hash for e in entries] == [e.hash for e in without_faults]
        models = world.models(run, world.folder / "states")
        assert len(models) == 3
        assert models == world.models(run, world.folder / "alone" / run)
    return absent


def test_one_kill_of_each_kind_changes_nothing(tmp_path: Path) -> None:
    rounds, kinds = 30, list(KINDS)
    random = Random(0)
    random.shuffle(kinds)
    with federation(tmp_path / "operator", rounds) as (world, postgres):
        killer = Killer(world, postgres, "run-1", random, calm=1.0)
        assert killer(kinds, rounds) == len(KINDS)
        killer.finish()
        absent = check(world, "run-1", rounds)
        report([killer], [absent])
        assert absent == 0
        assert killer.surprises == []


@pytest.mark.skipif(not FAULTS, reason="set MOTIFAIR_FAULTS to the number of kills")
def test_long_many_kills_of_all_kinds_change_nothing(tmp_path: Path) -> None:
    rounds, random = 120, Random(FAULTS)
    kinds = [KINDS[k % len(KINDS)] for k in range(FAULTS)]
    random.shuffle(kinds)
    killers: list[Killer] = []
    absent: list[int] = []
    with federation(tmp_path / "operator", rounds) as (world, postgres):
        while kinds:
            killer = Killer(world, postgres, f"run-{len(killers) + 1}", random)
            killers.append(killer)
            del kinds[: killer(kinds, rounds)]
            killer.finish()
            absent.append(check(world, killer.run, rounds))
            print(f"{killer.run}: {len(killer.kills)} kills, {absent[-1]} absences", flush=True)
    report(killers, absent)


def report(killers: list[Killer], absent: list[int]) -> None:
    """Print a table of kills and recoveries."""
    kills = [kill for killer in killers for kill in killer.kills]
    print("\n| killed | times | processes | back to work after (median, longest) |")
    print("|---|---|---|---|")
    for kind in KINDS:
        print(_row(kind, [k for k in kills if k.kind == kind]))
    print(_row("all", kills))
    print("\n| run | kills | lines that say absent | ledger and models as without faults |")
    print("|---|---|---|---|")
    for killer, times in zip(killers, absent, strict=True):
        same = "no: somebody was absent" if times else "yes"
        print(f"| {killer.run} | {len(killer.kills)} | {times} | {same} |")
    for killer in killers:
        for surprise in killer.surprises:
            print(f"{killer.run}: {surprise}")


def _row(name: str, kills: list[Kill]) -> str:
    seconds = sorted(k.seconds for k in kills if k.healed)
    if not seconds:
        return f"| {name} | {len(kills)} | | |"
    times = f"{seconds[len(seconds) // 2]:.1f} s, {seconds[-1]:.1f} s"
    return f"| {name} | {len(kills)} | {sum(k.processes for k in kills)} | {times} |"
