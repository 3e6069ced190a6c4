"""Mistakes are refused with a sentence that names the fix, and nothing is lost.

Unknown certificates, certificates with another name and pushed code are in `tests/transports`.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nvflare")

from consortium import Consortium
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from nvflare.lighter.utils import Identity, generate_cert, serialize_cert

from motifair.cli import main
from motifair.consortium.agent_process import settings_of
from motifair.consortium.operate import run_federation
from motifair.consortium.operator_folder import OPERATOR, SERVER
from motifair.consortium.terms import read_terms
from motifair.consortium.transports.nvflare.kits import certificate
from motifair.errors import MotifairError
from motifair.graphs.read import read_graphs
from motifair.graphs.tu import write_tu

FIRST, SECOND, THIRD = "agent-00", "agent-01", "agent-02"
ROUNDS = 15


def call(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """Run the command in this process and return its exit code."""
    monkeypatch.setattr("sys.argv", ["motifair", *map(str, words)])
    with pytest.raises(SystemExit) as stopped:
        main()
    code = stopped.value.code
    return code if isinstance(code, int) else 0


def sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line that was printed."""
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.strip().splitlines()
    return line


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    """A federation that is not started."""
    made = Consortium(tmp_path_factory.mktemp("kits") / "operator")
    made.prepare(3, ROUNDS, deadline="1.0")
    return made


class TestBeforeAnythingIsStarted:
    @pytest.fixture
    def start(self, kits: Consortium, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
        """Start an agent with other graphs or another kit; check that no process was started."""
        used: list[Path] = []

        def start(graphs: Path, kit: Path | None = None) -> int:
            used.append(kit or kits.operator.kit(FIRST))
            words = ("--kit", used[0], "--graphs", graphs, "--detach")
            return call(monkeypatch, "federation", "agent", "start", *words)

        yield start
        assert not (used[0] / "engine.log").exists()
        assert not (used[0] / "keeper.json").exists()

    def test_graphs_with_an_unknown_label(self, start, kits, tmp_path, capsys) -> None:
        graphs = tmp_path / "mine"
        shutil.copytree(kits.graphs(FIRST), graphs)
        labels = graphs / f"{FIRST}_node_labels.txt"
        labels.write_text("77\n" + labels.read_text().split("\n", 1)[1])
        for file in graphs.iterdir():
            file.rename(file.with_name(file.name.replace(FIRST, "mine")))
        assert start(graphs) == 2
        said = sentence(capsys)
        assert "has a node with label 77, but" in said
        assert "ask the operator for terms whose [schema] is made from a sample with every" in said

    def test_attributes_of_another_width(self, start, kits, tmp_path, capsys) -> None:
        graphs, kit = tmp_path / "mine", tmp_path / FIRST
        shutil.copytree(kits.graphs(FIRST), graphs)
        for file in graphs.iterdir():
            file.rename(file.with_name(file.name.replace(FIRST, "mine")))
        nodes = (graphs / "mine_graph_indicator.txt").read_text().split()
        (graphs / "mine_node_labels.txt").unlink()
        (graphs / "mine_node_attributes.txt").write_text("0.5, 1.5\n" * len(nodes))
        shutil.copytree(kits.operator.kit(FIRST), kit)
        terms = kit / "local" / "federation.toml"
        text = terms.read_text().replace('features = "label"', 'features = "attributes"')
        text = text.replace("columns = [0, 1, 2, 3, 4]", "columns = []")
        terms.write_text(
            text.replace("width = 5", "width = 3\nmean = [0, 0, 0]\nscale = [1, 1, 1]")
        )
        assert start(graphs, kit) == 2
        assert "has 2 attributes at each node, but there must be 3" in sentence(capsys)

    def test_sums_of_members_are_in_the_terms(self, kits, tmp_path, monkeypatch, capsys) -> None:
        graphs, sums = tmp_path / "mine", tmp_path / "sums.json"
        made = read_graphs(kits.graphs(FIRST))
        attribute = np.arange(len(made.degree), dtype=float)[:, None]
        write_tu(replace(made, target=made.target * 0, attribute=attribute), graphs)
        assert call(monkeypatch, "federation", "sums", "--graphs", graphs, "--out", sums) == 0
        words = ("--like", graphs, "--members", "a,b,c", "--folder", tmp_path / "operator")
        assert call(monkeypatch, "federation", "init", *words, "--sums", tmp_path / "none") == 2
        assert "has no sums of attributes; write it with" in capsys.readouterr().err
        assert call(monkeypatch, "federation", "init", *words, "--sums", sums) == 0
        schema = read_terms(tmp_path / "operator" / "federation.toml").schema
        assert (schema.mean, schema.scale) == ((attribute.mean(),), (attribute.std(),))

    def test_no_graphs_at_all(self, start, tmp_path, capsys) -> None:
        assert start(tmp_path / "nowhere") == 2
        assert "There is no file or folder at" in sentence(capsys)

    def test_a_certificate_that_expired(self, start, kits, tmp_path, capsys) -> None:
        kit = tmp_path / FIRST
        shutil.copytree(kits.operator.kit(FIRST), kit)
        day = expire(kits, kit, FIRST)
        assert start(kits.graphs(FIRST), kit) == 2
        assert f"expired on {day}. Ask the operator for a renewed kit" in sentence(capsys)

    def test_what_is_used_of_graphs_that_fit_is_said(
        self, kits, tmp_path, monkeypatch, capsys
    ) -> None:
        said: list[str] = []
        settings_of(kits.operator.kit(FIRST), kits.graphs(FIRST), tmp_path / "state", said.append)
        assert said[1:] == ["Using node labels (5), 2 classes (0, 1)."]
        words = ("--like", kits.graphs(FIRST), "--members", "a,b,c", "--folder", tmp_path)
        assert call(monkeypatch, "federation", "init", *words) == 0
        assert capsys.readouterr().out.splitlines()[0].startswith("Using node labels (")

    def test_two_members_with_one_name(self, tmp_path, monkeypatch, capsys) -> None:
        world = Consortium(tmp_path / "operator")
        world.prepare(3, ROUNDS)
        shutil.rmtree(world.folder / "kits")
        shutil.rmtree(world.folder / "authority")
        world.set("members", f'["{FIRST}", "{SECOND}", "{FIRST}"]')
        assert call(monkeypatch, "federation", "provision", "--folder", world.folder) == 2
        assert f"Two members are called '{FIRST}'" in sentence(capsys)
        assert not (world.folder / "kits").exists()
        assert not (world.folder / "authority").exists()

    @pytest.mark.slow
    def test_a_server_that_is_not_there(self, kits: Consortium) -> None:
        with pytest.raises(MotifairError, match="cannot be reached") as refused:
            run_federation(kits.operator, "run-1", patience=1)
        assert "check that the server" in str(refused.value)

    def test_an_operator_whose_certificate_expired(self, tmp_path: Path) -> None:
        world = Consortium(tmp_path / "operator")
        world.prepare(3, ROUNDS, deadline="1.0")
        day = expire(world, world.operator.kit(OPERATOR), OPERATOR)
        with pytest.raises(MotifairError, match=f"expired on {day}"):
            run_federation(world.operator, "run-1", patience=1)

    def test_a_ledger_that_is_not_there(self, tmp_path: Path) -> None:
        world = Consortium(tmp_path / "operator")
        world.prepare(3, ROUNDS, ledger='"postgresql://nobody@localhost:1/none"')
        with pytest.raises(MotifairError, match=r"ledger .* cannot be reached"):
            run_federation(world.operator, "run-1", patience=1)


def expire(world: Consortium, kit: Path, name: str) -> str:
    """Replace the certificate of a kit by an expired one; return its last day."""
    authority = load_pem_private_key((world.folder / "authority" / "root.key").read_bytes(), None)
    yesterday = datetime.now(UTC) - timedelta(days=1)
    expired = generate_cert(
        Identity(name, "motifair"), Identity("demo"), authority, certificate(kit).public_key(),
        not_valid_before=yesterday - timedelta(days=1), not_valid_after=yesterday,
    )  # fmt: skip
    (kit / "startup" / "client.crt").write_bytes(serialize_cert(expired))
    return f"{yesterday:%Y-%m-%d}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    """A server and two of three members; the disk of the server's runs is small, if it can be."""
    folder = tmp_path_factory.mktemp("refused") / "operator"
    with Consortium(folder) as made:
        made.prepare(3, ROUNDS, deadline="30.0")  # to start its worker takes a while
        runs = folder / "runs"
        runs.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(runs)]
        small = shutil.which("mount") and not subprocess.run(mount, capture_output=True).returncode
        try:
            made.start_parts(SERVER, FIRST, SECOND)
            yield made
        finally:
            made.__exit__()
            if small:
                subprocess.run(["umount", "-l", str(runs)], check=True)


@pytest.mark.federation
def test_who_never_joins_is_named(world: Consortium) -> None:
    with pytest.raises(MotifairError) as refused:
        run_federation(world.operator, "run-1")
    assert str(refused.value) == (
        f"'{THIRD}' did not join (did not reply within 30 s); start its agent, "
        "or remove it from the federation."
    )
    assert world.round("run-1") == -1


@pytest.mark.federation
def test_a_kit_of_another_federation_is_not_let_in(world: Consortium, tmp_path: Path) -> None:
    port = f"{world.operator.terms.port}"
    with Consortium(tmp_path / "operator") as other:
        other.prepare(3, ROUNDS, port=port)
        with pytest.raises(MotifairError, match="do not accept each other's certificates"):
            other.start_parts(THIRD)


@pytest.mark.federation
def test_who_agreed_to_other_terms_does_not_take_part(world: Consortium) -> None:
    terms = world.operator.kit(THIRD) / "local" / "federation.toml"
    agreed = terms.read_text()
    terms.write_text(agreed.replace('max_penalty = "100.00"', 'max_penalty = "1.00"'))
    world.start_parts(THIRD)
    with pytest.raises(MotifairError) as refused:
        run_federation(world.operator, "run-1")
    assert f"'{THIRD}' did not join (the server's terms are not those" in str(refused.value)
    assert world.round("run-1") == -1
    world.parts.pop(THIRD).stop()
    terms.write_text(agreed)
    world.start_parts(THIRD)


@pytest.mark.federation
def test_a_full_disk_stops_the_run_and_loses_nothing(world: Consortium) -> None:
    runs = world.folder / "runs"
    if not runs.is_mount():
        pytest.skip("needs a small disk of its own, which only root can mount")
    if THIRD not in world.parts:
        world.start_parts(THIRD)
    with pytest.raises(MotifairError, match=r"disk .* is full; free some space"):
        run_federation(world.operator, "run-1", watch=lambda: fill_after_a_round(world, runs))
    assert 1 <= world.round("run-1") < ROUNDS
    world.check_books("run-1")
    (runs / "filler").unlink()
    run_federation(world.operator, "run-1")
    assert [e.round for e in world.entries("run-1")] == list(range(ROUNDS + 1))
    world.check_books("run-1")


def fill_after_a_round(world: Consortium, disk: Path) -> None:
    """After the first settled round, fill the disk."""
    if world.round("run-1") < 1 or (disk / "filler").exists():
        return
    with (disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))
