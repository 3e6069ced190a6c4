"""One federation between real processes with a cheat of each family in it: none of them pays.

Three members are honest. `CLAIMS` says that it has ten times the graphs, and runs down all others'
models. `UPLOADS` sends another wrong update in each round. `NAME` is a second name of `CLAIMS` with
the same graphs, is away in every other round, and gives no answer to the audit. What a certificate
of another authority or of another name meets is in ../transports/test_federation.py.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare")

from consortium import Consortium, motifair_here
from typer.testing import CliRunner

from motifair.cli.app import app
from motifair.consortium.agent_process import settings_of
from motifair.consortium.operate import run_federation
from motifair.consortium.operator_folder import SERVER
from motifair.consortium.rounds import RESULT
from motifair.consortium.store.export import RESERVE
from motifair.consortium.store.export import to_json as entries_json
from motifair.consortium.transports.nvflare.processes import start_site
from motifair.statements.entry import Entry, Line

pytestmark = pytest.mark.federation
RUN, ROUNDS, TRIAL = "run-1", 10, 10  # models trained for a round tell next to nothing
HONEST = ("agent-00", "agent-01", "agent-02")
CLAIMS, UPLOADS, NAME = "agent-03", "agent-04", "agent-05"
SCRIPT = Path(__file__).parents[3] / "scripts" / "verify_ledger.py"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    """The federation after its last round and its audit."""
    with (
        Consortium(tmp_path_factory.mktemp("cheats") / "operator") as made,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        made.prepare(6, ROUNDS, trial=TRIAL, share="1.0", fine="2", quorum="3")
        made.start_parts(SERVER, *HONEST)
        for name, cheat in ((CLAIMS, "claiming"), (UPLOADS, "uploading"), (NAME, "absent")):
            kit = made.operator.kit(name)
            settings = settings_of(kit, graphs_of(made, name), made.state(name))
            made.parts[name] = start_site(kit, f"hostile_agent:{cheat}", settings, wait=90)
        run_federation(made.operator, RUN)
        audit(made)
        yield made


def graphs_of(world: Consortium, name: str) -> Path:
    return world.graphs(CLAIMS if name == NAME else name)


def audit(world: Consortium) -> None:
    """All but `NAME` show their graphs, as far as they have them; then the days pass."""
    desk, answers = world.folder / "desk", []
    where = ("--folder", world.folder, "--run", RUN)
    assert "agent-05 is to show 20 of" in motifair_here("federation", "ask", "--out", desk, *where)
    for name in (*HONEST, CLAIMS, UPLOADS):
        answers.append(desk / f"answer-{name}.json")
        words = ["federation", "answer", desk / f"question-{name}.json", "--kit",
                 world.operator.kit(name), "--graphs", graphs_of(world, name),
                 "--out", answers[-1]]  # fmt: skip
        ended = CliRunner().invoke(app, [str(word) for word in words])
        assert ended.exit_code == (name == CLAIMS), ended.output
    os.utime(world.operator.run(RUN) / RESULT, (0, 0))
    motifair_here("federation", "settle", *answers, *where)


@pytest.fixture(scope="module")
def lines(world: Consortium) -> Mapping[tuple[int, str], Line]:
    rounds = [e for e in world.entries(RUN) if e.kind == "round"]
    assert [e.settled for e in rounds] == [True] * ROUNDS
    return {(e.round, x.agent): x for e in rounds for x in e.lines}


@pytest.fixture(scope="module")
def honest(world: Consortium) -> Mapping[str, int]:
    """What members are paid if nobody cheats, and nobody has a second name."""
    return paid(world.alone(RUN, (*HONEST, CLAIMS, UPLOADS)))


@pytest.fixture(scope="module")
def cheating(world: Consortium) -> Mapping[str, int]:
    return paid(world.entries(RUN))


def paid(entries: Sequence[Entry]) -> Mapping[str, int]:
    total: dict[str, int] = defaultdict(int)
    for line in (x for e in entries for x in e.lines):
        total[line.agent] += line.payoff
    return total


@pytest.mark.parametrize(
    ("round", "reason"),
    [
        (2, "10 times that the most"),
        (3, "the same update as in an earlier round"),
        (6, "a tenth of the median the least"),
    ],
)
def test_an_update_too_long_replayed_or_of_zeros_is_refused(
    lines: Mapping[tuple[int, str], Line], round: int, reason: str
) -> None:
    line = lines[round, UPLOADS]
    assert line.status == "rejected"
    assert reason in line.reason
    assert line.payoff <= 0


def test_a_reversed_update_and_noise_bring_less_than_an_honest_one(
    lines: Mapping[tuple[int, str], Line],
) -> None:
    assert lines[1, UPLOADS].payoff > 0
    assert lines[4, UPLOADS].value < lines[1, UPLOADS].value
    assert lines[5, UPLOADS].value < lines[1, UPLOADS].value


def test_who_is_away_is_not_paid_and_the_reserve_gets_its_share(
    world: Consortium, lines: Mapping[tuple[int, str], Line]
) -> None:
    words = ("--run", world.folder, "--name", RUN, "--agent", NAME, "--format", "json")
    statement = json.loads(motifair_here("statement", *words))
    for row in (r for r in statement["rounds"] if r["kind"] == "round"):
        away = row["round"] in (2, 4, 6)
        assert (lines[row["round"], NAME].status == "absent") == away
        assert (Decimal(row["payoff"]) == 0) == away
        assert ("went to the reserve" in row["note"]) == away
    assert any("went to the reserve, which the operator holds" in s for s in statement["sentences"])


def test_a_second_name_counts_the_same_graphs_once_and_claims_are_capped(world: Consortium) -> None:
    said = {}
    for name in (CLAIMS, NAME):
        words = ("--run", world.folder, "--name", RUN, "--agent", name, "--format", "json")
        said[name] = " ".join(json.loads(motifair_here("statement", *words))["sentences"])
    assert all("count in weights and values" in text for text in said.values())


def test_lies_about_their_models_do_not_harm_honest_members(
    honest: Mapping[str, int], cheating: Mapping[str, int]
) -> None:
    # Kits have random seeds: of 46 drawn the honest together kept .73 of their pay and more, where
    # six names share it instead of five. One of them alone may keep less than half.
    before, after = (sum(pay[name] for name in HONEST) for pay in (honest, cheating))
    assert after > 0.5 * before, (honest, cheating)


def test_no_cheat_leaves_its_owner_with_more_than_honesty(
    honest: Mapping[str, int], cheating: Mapping[str, int]
) -> None:
    assert cheating[UPLOADS] < honest[UPLOADS]
    assert cheating[CLAIMS] + cheating[NAME] < honest[CLAIMS]
    assert cheating[CLAIMS] < 0  # it pays twice what it was paid
    assert cheating[NAME] < 0


def test_the_audit_is_in_the_ledger_which_both_verifiers_and_the_uploads_confirm(
    world: Consortium,
) -> None:
    entries = world.entries(RUN)
    found = {x.agent: (x.status, x.payoff < 0) for x in entries[-1].lines}
    clear = ("present", False)
    assert found == dict.fromkeys((*HONEST, UPLOADS), clear) | {
        CLAIMS: ("rejected", True), NAME: ("absent", True),
    }  # fmt: skip
    world.check_books(RUN)
    key = (world.folder / "operator.pub").read_text()
    assert second().verify(entries_json(entries), {}, key) == ""
    balance = motifair_here("ledger", "balance", "--ledger", world.operator.ledger, "--json")
    rows = {row["agent"]: row for row in json.loads(balance)}
    fines = sum(Decimal(rows[name]["fine"]) for name in (CLAIMS, NAME))
    assert Decimal(rows[RESERVE]["balance"]) > fines > 0


def second() -> Any:
    """The verifier that imports nothing of ours."""
    spec = importlib.util.spec_from_file_location("verify_ledger", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
