"""A member's state is outside its kit, where no server can delete it and no renewal replaces it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from consortium import Consortium, motifair_here

from motifair.consortium.agent_process import settings_of, state_of
from motifair.consortium.keys import new_key, write_key
from motifair.consortium.transports.nvflare.stopping import SITE, engine
from motifair.errors import MotifairError

NAME = "agent-00"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    world = Consortium(tmp_path_factory.mktemp("state") / "operator")
    world.prepare(2, 3)
    return world


@pytest.fixture
def kit(made: Consortium, tmp_path: Path) -> Path:
    """A kit as a member gets it, in a folder with another name."""
    return Path(shutil.copytree(made.operator.kit(NAME), tmp_path / "kit"))


def start(made: Consortium, kit: Path, state: Path | None = None) -> tuple[Path, list[str]]:
    """Prepare as `agent start` does; return the folder of the state and the messages."""
    said: list[str] = []
    return Path(settings_of(kit, made.graphs(NAME), state, said.append)["state"]), said


def old_state(kit: Path) -> None:
    """A state as 0.1 kept it."""
    (kit / "state" / "first").mkdir(parents=True)
    (kit / "state" / "heads.jsonl").write_text("evidence")
    (kit / "state" / "seed").write_text("7")


def test_the_state_is_next_to_the_kit(made: Consortium, kit: Path) -> None:
    before = sorted(kit.rglob("*"))
    state, said = start(made, kit)
    assert state == state_of(kit) == kit.parent / f"{NAME}.state"
    assert said[0] == f"Its state is in {state}."
    assert sorted(kit.rglob("*")) == before


@pytest.mark.parametrize("inside", [".", "state", "state/deeper", "../kit/mine"])
def test_a_state_in_the_kit_is_refused(made: Consortium, kit: Path, inside: str) -> None:
    before = sorted(kit.rglob("*"))
    with pytest.raises(MotifairError, match="is in the startup kit, where the engine deletes"):
        start(made, kit, kit / inside)
    assert sorted(kit.rglob("*")) == before


def test_a_state_of_an_older_version_is_moved_out_once(made: Consortium, kit: Path) -> None:
    old_state(kit)
    state, said = start(made, kit)
    assert said[0] == f"Moved its state from {kit / 'state'} to {state}."
    assert not (kit / "state").exists()
    assert (state / "heads.jsonl").read_text() == "evidence"
    assert (state / "seed").read_text() == "7"
    assert (state / "first").is_dir()
    assert start(made, kit)[1][0] == f"Its state is in {state}."


def test_of_two_states_none_is_overwritten(made: Consortium, kit: Path) -> None:
    old_state(kit)
    state_of(kit).mkdir()
    with pytest.raises(MotifairError, match=r"There is a state in both .* and .*; keep the one"):
        start(made, kit)
    assert (kit / "state" / "heads.jsonl").exists()
    assert not list(state_of(kit).iterdir())


def test_the_state_of_a_running_agent_is_not_moved(made: Consortium, kit: Path) -> None:
    old_state(kit)
    sleep = "import time; time.sleep(60)"
    agent = subprocess.Popen([sys.executable, "-c", sleep, SITE, str(kit)])
    try:
        while not engine(kit):
            pass
        with pytest.raises(MotifairError, match=f"is in use by process {agent.pid}"):
            start(made, kit)
    finally:
        agent.kill()
        agent.wait()
    assert (kit / "state" / "heads.jsonl").exists()


def test_the_servers_kit_is_no_members_and_is_left_alone(made: Consortium) -> None:
    kit = made.operator.kit("server")
    (kit / "state" / "jobs").mkdir(parents=True)
    with pytest.raises(MotifairError):
        start(made, kit)
    assert (kit / "state" / "jobs").is_dir()


def test_a_renewed_kit_finds_the_state_again(tmp_path: Path) -> None:
    world = Consortium(tmp_path / "operator")
    world.prepare(2, 3)
    state, _ = start(world, world.operator.kit(NAME))
    seed = (state / "seed").read_text()
    world.operator.renew(NAME)
    assert start(world, world.operator.kit(NAME))[0] == state
    moved = shutil.move(world.operator.kit(NAME), state.parent / "renewed")
    assert start(world, Path(moved))[0] == state
    assert (state / "seed").read_text() == seed


def test_a_state_of_another_federation_is_refused(made: Consortium, tmp_path: Path) -> None:
    kits = [tmp_path / "one", tmp_path / "two"]
    other = Consortium(tmp_path / "operator")
    other.prepare(2, 3)
    for kit, world in zip(kits, (made, other), strict=True):
        shutil.copytree(world.operator.kit(NAME), kit)
    start(made, kits[0])
    with pytest.raises(MotifairError, match="is the state of another federation; name another"):
        start(other, kits[1])
    start(other, kits[1], tmp_path / "elsewhere")


def test_a_state_next_to_the_kits_is_not_taken_for_one(made: Consortium) -> None:
    state, _ = start(made, made.operator.kit(NAME))
    assert state.parent == made.folder.resolve() / "kits"
    said = motifair_here("federation", "stop", "--folder", made.folder)
    assert f"{NAME} was not running." in said
    assert ".state" not in said


def test_a_kit_needs_the_members_own_key(tmp_path: Path) -> None:
    world = Consortium(tmp_path / "operator")
    world.prepare(2, 3)
    kit, key = world.operator.kit(NAME), tmp_path / "operator" / "kits" / f"{NAME}.key"
    secret = key.read_bytes()
    key.unlink()
    (kit / "startup" / "client.key").unlink()
    with pytest.raises(MotifairError, match=r"has no key yet; put .* next to the kit"):
        start(world, kit)
    write_key(key, new_key())
    with pytest.raises(MotifairError, match="is not the key of the kit's certificate"):
        start(world, kit)
    (kit / "startup" / "client.key").unlink()
    key.write_bytes(secret)
    start(world, kit)
    assert (kit / "startup" / "client.key").stat().st_mode & 0o077 == 0
