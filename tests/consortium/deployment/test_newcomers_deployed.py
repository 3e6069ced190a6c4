"""On the engine: a newcomer is judged, removed, let in again, and judged again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("nvflare")

from consortium import Consortium, motifair_here
from deployed import opened

from motifair.consortium.checkpoint import load_checkpoint
from motifair.consortium.operate import run_federation
from motifair.consortium.operator_folder import SERVER
from motifair.statements.entry import AgreedTerms

pytestmark = pytest.mark.federation
RUN, FOUNDERS, NEW = "run-1", ("agent-00", "agent-01"), "agent-02"


def named(*names: str) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    """Two members start; one joins after round 1, is removed after 2, and readmitted after 3."""
    with Consortium(tmp_path_factory.mktemp("newcomers") / "operator") as made:
        made.prepare(3, 4)
        made.set("members", named(*FOUNDERS))
        made.start_parts(SERVER, *FOUNDERS)
        made.run_until(RUN, 1)
        made.set("members", named(*FOUNDERS, NEW))
        made.start_parts(NEW)
        made.run_until(RUN, 2)
        made.set("members", named(*FOUNDERS))
        motifair_here("federation", "remove", NEW, "--folder", made.folder)
        made.parts.pop(NEW).stop()
        made.run_until(RUN, 3)
        made.set("members", named(*FOUNDERS, NEW))
        motifair_here("federation", "readmit", NEW, "--folder", made.folder)
        made.start_parts(NEW)
        run_federation(made.operator, RUN)
        yield made


def test_a_newcomer_is_judged_each_time_before_its_first_round(world: Consortium) -> None:
    terms = [e for e in world.entries(RUN) if e.kind == "terms"]
    assert [(e.round, NEW in AgreedTerms.from_json(e.terms).members) for e in terms] == [
        (0, False), (1, True), (2, False), (3, True),
    ]  # fmt: skip
    for entry in (terms[1], terms[3]):
        folder = world.folder / "runs" / RUN / "uploads" / f"{entry.round:06}"
        files = sorted(folder.glob(f"*.judgement-{entry.number - 1}.bin"))
        assert [f.name.split(".")[0] for f in files] == [*FOUNDERS, NEW]
        for file in files:
            upload = opened(file.read_bytes())
            assert upload.judgement is not None
            assert upload.head == entry.previous
            assert len(upload.judgement) == (2 if upload.agent == NEW else 1)


def test_what_was_said_is_in_the_servers_position(world: Consortium) -> None:
    checkpoint = load_checkpoint(world.folder / "runs" / RUN)
    assert checkpoint is not None
    assert checkpoint.said is not None
    assert checkpoint.said[0].isnan().sum() == 3
    assert all(j.trial is not None for j in checkpoint.roster)


def test_all_were_there_in_every_round_and_the_books_fit(world: Consortium) -> None:
    rounds = [e for e in world.entries(RUN) if e.kind == "round"]
    assert [len(e.lines) for e in rounds] == [2, 3, 2, 3]
    assert all(line.status == "present" for e in rounds for line in e.lines)
    world.check_books(RUN)
