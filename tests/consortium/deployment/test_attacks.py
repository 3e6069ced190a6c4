"""Attacks that once succeeded, on the real engine with a ledger in PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

pytest.importorskip("nvflare")

from consortium import Consortium, motifair_here
from postgres_server import Postgres
from typer.testing import CliRunner

from motifair.cli.app import app
from motifair.consortium.agent_process import settings_of
from motifair.consortium.operate import run_federation
from motifair.consortium.operator_folder import SERVER
from motifair.consortium.store.ledger import ENTRIES, LINES, _entry_row, _line_rows
from motifair.consortium.transports.nvflare.processes import start_site
from motifair.errors import MotifairError
from motifair.statements.accounts import Accounts
from motifair.statements.entry import AgreedTerms

pytestmark = [pytest.mark.federation, pytest.mark.postgres]
RUN, HONEST, CHEAT = "run-1", ("agent-00", "agent-01"), "agent-02"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Consortium]:
    """Three members, one of which cheats in round 2; three of six rounds are over."""
    with (
        Consortium(tmp_path_factory.mktemp("attacks") / "operator") as made,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        made.prepare(3, 6, ledger=f'"{postgres.create()}"', deadline="20.0")
        made.start_parts(SERVER, *HONEST)
        kit = made.operator.kit(CHEAT)
        settings = settings_of(kit, made.graphs(CHEAT), made.state(CHEAT))
        made.parts[CHEAT] = start_site(kit, "hostile_agent:make", settings, wait=90)
        made.run_until(RUN, 3)
        yield made


def test_one_upload_far_too_long_is_rejected_and_harms_nobody(world: Consortium) -> None:
    rounds = [e for e in world.entries(RUN) if e.kind == "round"][:3]
    assert all(entry.settled for entry in rounds)
    lines = {(e.round, x.agent): x for e in rounds for x in e.lines}
    wrong = lines.pop((2, CHEAT))
    assert wrong.status == "rejected"
    assert wrong.payoff <= 0
    assert wrong.reason.startswith("an update of length 999, where ")
    assert {x.status for x in lines.values()} == {"present"}


def test_terms_that_members_did_not_get_are_signed_by_nobody(world: Consortium) -> None:
    """Then members get other terms, sign them, and the run goes on."""
    before = world.entries(RUN)
    world.set("budget", '"999999.00"')
    with pytest.raises(MotifairError, match="did not sign the changed terms"):
        run_federation(world.operator, RUN)
    assert world.entries(RUN) == before
    world.set("budget", '"1000.00"')
    world.set("max_norm", "500.0")
    text = motifair_here("federation", "terms", "--folder", world.folder)
    for name in (*HONEST, CHEAT):
        (world.operator.kit(name) / "local" / "federation.toml").write_text(text)
        world.parts.pop(name).stop()
    world.start_parts(*HONEST, CHEAT)
    world.run_until(RUN, 4)
    terms, last = world.entries(RUN)[-2:]
    agreed = AgreedTerms.from_json(terms.terms)
    assert agreed.conditions["max_norm"] == 500
    assert sorted(agreed.signatures) == [*HONEST, CHEAT]
    assert (last.round, last.settled) == (4, True)
    world.check_books(RUN)


def test_with_a_members_kit_and_the_right_to_insert_nobody_pays_itself(world: Consortium) -> None:
    place = world.operator.ledger
    kit = world.operator.kit(CHEAT)
    for path in (p for p in kit.rglob("*") if p.is_file()):
        assert place.encode() not in path.read_bytes()
    books = Accounts.of(RUN, world.entries(RUN))
    rich = replace(books.agreed, budget=99_999_999_900, quorum=1, signatures={})
    forged = [books.agree(rich)]
    books.add(forged[0])
    lines = world.entries(RUN)[-1].lines
    forged.append(books.settle(replace(x, status="absent", signature="") for x in lines))
    engine = sa.create_engine(place.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for entry in forged:
            connection.execute(ENTRIES.insert(), _entry_row(entry))
        connection.execute(LINES.insert(), _line_rows(forged[1]))
    engine.dispose()
    key = kit / "local" / "operator.pub"
    for more in ((), ("--operator-key", key), ("--heads", world.state(CHEAT) / "heads.jsonl")):
        words = ["ledger", "verify", "--ledger", place, *map(str, more)]
        said = CliRunner().invoke(app, words)
        assert said.exit_code == 1
        assert f"entry {forged[0].number}, round 4: it is not signed by the operator" in said.stdout
    with pytest.raises(MotifairError, match="not signed by the operator"):
        motifair_here("ledger", "balance", "--ledger", place)
    with pytest.raises(MotifairError, match=r"ledger|histories"):
        run_federation(world.operator, RUN)
