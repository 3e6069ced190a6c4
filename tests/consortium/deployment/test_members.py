"""Members join, leave and renew certificates between the segments of one private run."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("nvflare")

from consortium import Consortium, motifair_here, refused_here
from deployed import opened

from motifair.consortium.operate import run_federation
from motifair.consortium.operator_folder import SERVER
from motifair.statements.entry import AgreedTerms, Entry

pytestmark = pytest.mark.federation
RUN, FOUNDERS, NEW = "run-1", ("agent-00", "agent-01", "agent-02"), "agent-03"
LEAVING, RENEWED = FOUNDERS[:2]


def named(*names: str) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    """Three members start; one joins after round 2; one leaves and one renews after round 4."""
    with Consortium(tmp_path_factory.mktemp("members") / "operator") as made:
        made.prepare(4, 6, private=True)
        made.set("members", named(*FOUNDERS))
        # The fourth member is unknown so far.
        shutil.rmtree(made.folder / "kits" / NEW)
        (made.folder / "members" / f"{NEW}.crt").unlink()
        made.start_parts(SERVER, *FOUNDERS)
        made.run_until(RUN, 2)

        made.set("members", named(*FOUNDERS, NEW))
        motifair_here("federation", "add", NEW, "--folder", made.folder)
        made.start_parts(NEW)
        made.run_until(RUN, 4)

        made.set("members", named(*FOUNDERS[1:], NEW))
        motifair_here("federation", "remove", LEAVING, "--folder", made.folder)
        made.parts.pop(RENEWED).stop()
        motifair_here("federation", "renew", RENEWED, "--folder", made.folder)
        made.start_parts(RENEWED)
        run_federation(made.operator, RUN)
        yield made


def terms(entries: list[Entry]) -> list[tuple[int, AgreedTerms]]:
    return [(e.round, AgreedTerms.from_json(e.terms)) for e in entries if e.kind == "terms"]


def test_every_change_of_members_is_an_entry_of_the_ledger(world: Consortium) -> None:
    members = {round: sorted(t.members) for round, t in terms(world.entries(RUN))}
    assert members == {
        0: list(FOUNDERS),
        2: [*FOUNDERS, NEW],
        4: [*FOUNDERS[1:], NEW],
    }


def test_a_renewed_certificate_is_of_the_same_key(world: Consortium) -> None:
    now = world.operator.keys()[RENEWED]
    assert {t.members[RENEWED] for _, t in terms(world.entries(RUN))} == {now}


def test_all_rounds_were_settled_with_everybody_there(world: Consortium) -> None:
    rounds = [e for e in world.entries(RUN) if e.kind == "round"]
    assert [e.round for e in rounds] == list(range(1, 7))
    assert all(e.settled for e in rounds)
    assert all(line.status == "present" for e in rounds for line in e.lines)


def test_noise_is_each_members_own_and_stays_with_it(world: Consortium) -> None:
    keys = [world.state(name) / RUN / "noise.key" for name in (*FOUNDERS, NEW)]
    assert sorted(world.folder.rglob("noise.key")) == sorted(keys)
    assert len({key.read_bytes() for key in keys}) == len(keys)
    kept = sorted((world.folder / "runs" / RUN / "uploads").glob("00000[1-6]/*.bin"))
    assert len(kept) == 2 * 3 + 2 * 4 + 2 * 3
    for path in kept:
        update = opened(path.read_bytes()).update
        assert update is not None
        # Steps are shorter than .1 in total; the rest is the noise in every component.
        assert abs(np.std(update) / 0.1 - 1) < 6 / math.sqrt(2 * update.size)


def test_the_books_fit_through_all_changes(world: Consortium) -> None:
    world.check_books(RUN)


def test_who_was_removed_is_not_let_in_again(world: Consortium) -> None:
    world.parts.pop(LEAVING).stop()
    words = ("--kit", world.operator.kit(LEAVING), "--graphs", world.graphs(LEAVING), "--detach")
    said = refused_here("federation", "agent", "start", *words)
    assert f"{LEAVING} was removed. Ask the operator to let it in again" in said
    assert f"motifair federation readmit {LEAVING}" in said
    said = refused_here("federation", "readmit", LEAVING, "--folder", world.folder)
    assert f"does not name '{LEAVING}'; add it to the members" in said
