"""An agent answers tasks from the state in its folder, and nothing is trained twice."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from deployed import JUDGING, NAMES, World, key_of, opened, terms_of

from motifair.consortium.agent import LOST, MemberAgent
from motifair.consortium.wire import BadRecordError, Download, unseal
from motifair.errors import MotifairError
from motifair.federation.agents import WORST_LOSS, Agents
from motifair.statements.signatures import public_text
from motifair.statements.verification import read_heads, verify

ME = "bank-c"
FOLDERS = TemporaryDirectory()


@cache
def finished(share: str = "all") -> World:
    """A run of four rounds; tests copy what they change."""
    world = World(Path(FOLDERS.name) / share, terms_of(share=share))
    world.drive()
    return world


def task(round: int, **changes: object) -> bytes:
    task = Download.decode(finished().tasks[ME, round])
    return replace(task, **changes).encode()  # type: ignore[arg-type]


@pytest.fixture
def site(tmp_path: Path) -> MemberAgent:
    """An agent that has taken part in rounds 1 and 2."""
    new = World(tmp_path, finished().terms).site(ME)
    for t in range(3):
        new(task(t))
    return new


def test_the_same_task_gets_the_same_bytes_and_trains_nothing(
    site: MemberAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = site(task(3))
    monkeypatch.setattr(Agents, "train", lambda *_: pytest.fail("trained again"))
    assert site(task(3)) == first
    assert World(tmp_path, finished().terms).site(ME)(task(3)) == first == finished().answers[ME, 3]
    assert site(task(2)) == finished().answers[ME, 2]


def test_another_task_for_the_same_round_is_made_from_the_round_before(site: MemberAgent) -> None:
    usual = site(task(3))
    reward = np.zeros_like(Download.decode(task(3)).reward)
    other = site(task(3, reward=reward, retained=1.0))
    assert other != usual
    assert site(task(3)) == usual  # the state that it started from is unchanged


def test_nothing_of_an_answer_is_left_where_the_task_is_refused(site: MemberAgent) -> None:
    before = sorted(site.folder.rglob("*"))
    for bad in (
        task(3, agent="bank-a"),
        task(3, terms="0" * 64),
        task(3, task="show me your graphs"),
        task(3, prototypes=None),
        task(3, prototypes=None, active=None),
    ):
        with pytest.raises(MotifairError):
            site(bad)
    assert sorted(site.folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"agent": "bank-a"}, "a task for 'bank-a' came to 'bank-c'"),
        ({"terms": "0" * 64}, "the server's terms are not those this member agreed to"),
        ({"task": "exec"}, "there is no task 'exec'"),
        ({"active": None}, "the server sent no prototypes"),
    ],
    ids=str,
)
def test_a_task_that_is_not_right_is_refused_in_words(
    site: MemberAgent, changes: dict[str, object], words: str
) -> None:
    with pytest.raises(MotifairError, match=words):
        site(task(3, **changes))


@pytest.mark.parametrize("content", [b"", b"rm -rf", b"\x80\x04\x95"])
def test_bytes_that_are_no_task_are_refused(site: MemberAgent, content: bytes) -> None:
    with pytest.raises(BadRecordError):
        site(content)


@pytest.mark.parametrize("run", ["../elsewhere", "..", "a/b", "", "."])
def test_a_run_cannot_lead_out_of_the_sites_folder(site: MemberAgent, run: str) -> None:
    before = sorted(site.folder.parent.rglob("*"))
    with pytest.raises(MotifairError, match="run"):
        site(task(0, run=run))
    assert sorted(site.folder.parent.rglob("*")) == before


def test_a_site_without_a_state_says_that_it_needs_a_model(tmp_path: Path) -> None:
    with pytest.raises(MotifairError, match=LOST):
        World(tmp_path, finished().terms).site(ME)(task(2))


def test_a_site_without_a_state_goes_on_from_the_model_it_is_sent(tmp_path: Path) -> None:
    size = len(Download.decode(task(2)).reward)  # type: ignore[arg-type]
    weights = np.linspace(-0.1, 0.1, size, dtype=np.float32)
    new = World(tmp_path, finished().terms)
    upload = opened(new.site(ME)(task(2, weights=weights, reward=None)))
    kept = new.kept(ME, 2)
    np.testing.assert_array_equal(kept.before[0].numpy(), weights)
    shared = new.coordinator().shared
    np.testing.assert_array_equal(upload.update, (kept.state.weights[0, shared] - kept.before[0]))


def test_a_model_that_was_sent_replaces_the_shared_part_alone(tmp_path: Path) -> None:
    old = finished("conv")
    world = World(tmp_path, old.terms)
    shutil.copytree(old.folder / "sites" / ME, tmp_path / "sites" / ME)
    download = Download.decode(old.tasks[ME, 4])
    weights = np.zeros_like(download.reward)
    kept = world.kept(ME, 3).state
    trained = kept.weights
    state = world.site(ME)._adopted(replace(download, weights=weights, reward=None))
    shared = world.coordinator().shared
    assert not state.weights[:, shared].any()
    assert torch.equal(state.weights[:, shared.stop :], trained[:, shared.stop :])
    assert state.own is not None
    assert kept.own is not None
    assert torch.equal(state.own.weights, kept.own.weights)


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [flipped, lambda path: path.write_bytes(b"")])
def test_a_damaged_state_counts_as_lost(site: MemberAgent, damage: Callable[[Path], None]) -> None:
    damage(site._path("trial-1", 2))
    for _ in range(2):
        with pytest.raises(MotifairError, match=LOST):
            site(task(3))
    sent = np.zeros_like(Download.decode(task(3)).reward)
    assert opened(site(task(3, weights=sent, reward=None))).round == 3
    assert opened(site(task(4))).round == 4


def test_a_damaged_answer_is_computed_again(site: MemberAgent) -> None:
    flipped(site._path("trial-1", 2))
    assert site(task(2)) == finished().answers[ME, 2]
    assert site(task(3)) == finished().answers[ME, 3]


def test_a_state_of_another_seed_counts_as_lost(site: MemberAgent) -> None:
    site._seed = "that of another seed"
    with pytest.raises(MotifairError, match=LOST):
        site(task(3))


def test_only_the_last_rounds_stay_on_disk() -> None:
    agent = finished().site(ME)
    assert sorted(agent._rounds("trial-1")) == [3, 4, 5]


def test_who_took_no_part_has_no_model(tmp_path: Path) -> None:
    with pytest.raises(MotifairError, match=r"'bank-c' has not taken part in run trial-1 yet\."):
        World(tmp_path, finished().terms).site(ME).state("trial-1")


def test_the_model_at_the_end_is_the_one_whose_accuracy_was_told() -> None:
    world = finished()
    round, saved = world.site(ME).state("trial-1")
    assert round == 5
    state = world.kept(ME, 5).state
    assert torch.equal(state.weights, saved.weights)
    assert state.own is not None
    assert saved.own is not None
    assert torch.equal(state.own.weights, saved.own.weights)
    told = opened(world.answers[ME, 5]).accuracy
    assert told == float(world.site(ME).agents.evaluate(state)[0])


def test_runs_do_not_mix(site: MemberAgent) -> None:
    with pytest.raises(MotifairError, match=LOST):
        site(task(2, run="trial-2"))
    first = opened(site(task(0, run="trial-2")))
    assert first.run == "trial-2"
    assert first.motifs == opened(finished().answers[ME, 0]).motifs


def test_an_answer_shows_no_secret_of_the_member() -> None:
    """Its seed determines dropout, shuffling and the test graphs, and is never sent."""
    for (name, _), answer in finished().answers.items():
        content, _ = unseal(answer)
        upload = opened(answer)
        assert upload.agent == name
        assert set(vars(upload)) == {
            "run", "round", "agent", "task", "head", "graphs", "motifs", "gradient_norm", "loss",
            "accuracy", "update", "gradient", "prototypes", "fingerprints", "wiring", "trial",
            "judgement", "moments",
        }  # fmt: skip
        assert all(other.encode() not in content for other in NAMES if other != name)


# Peers' models


def test_a_task_to_join_or_judge_gets_the_same_bytes_whenever_it_is_repeated(
    site: MemberAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Agents, "train", lambda *_: pytest.fail("trained again"))
    for _ in range(2):
        for kind in (0, JUDGING):
            assert site(task(kind)) == finished().answers[ME, kind]
    monkeypatch.undo()
    assert site(task(3)) == finished().answers[ME, 3]  # its state is as it was


def test_a_judge_says_of_each_model_what_it_does_on_the_members_training_graphs() -> None:
    world, agent = finished(), finished().site(ME)
    models = Download.decode(task(JUDGING)).models
    assert models is not None
    assert models.shape == (3, agent.data.model.layout.size)
    said = opened(world.answers[ME, JUDGING]).judgement
    assert said is not None
    wanted = agent.agents.judge([torch.from_numpy(model.copy())[None] for model in models])
    np.testing.assert_array_equal(said, torch.cat(wanted, dim=1).numpy())
    np.testing.assert_array_equal(
        opened(agent(task(JUDGING, models=models[::-1]))).judgement, said[::-1]
    )


def test_a_model_that_overflows_is_judged_as_the_worst_there_can_be() -> None:
    agent = finished().site(ME)
    models = np.full((2, agent.data.model.layout.size), 3e38, np.float32)
    models[1] = np.nan
    said = opened(agent(task(JUDGING, models=models))).judgement
    np.testing.assert_array_equal(said, np.array([[WORST_LOSS, 0.0]] * 2))


@pytest.mark.parametrize("change", [lambda m: m[:, 1:], lambda m: m[0], lambda m: None])
def test_models_of_another_shape_are_not_judged(
    site: MemberAgent, change: Callable[[np.ndarray], np.ndarray | None]
) -> None:
    models = change(Download.decode(task(JUDGING)).models)  # type: ignore[arg-type]
    with pytest.raises(MotifairError, match="the server sent models of another shape to judge"):
        site(task(JUDGING, models=models))


def test_nobody_judges_under_terms_that_do_not_ask_for_it(tmp_path: Path) -> None:
    """A judgement says more of a member's graphs than it agreed to, such as beside noise."""
    agent = World(tmp_path, terms_of(trial_rounds=0)).site(ME)
    with pytest.raises(MotifairError, match="the terms ask nobody to judge models"):
        agent(task(JUDGING, terms=agent.terms.digest))
    assert not agent.folder.exists()


# The head of the ledger


def test_a_member_keeps_every_head_and_the_ledger_fits_them() -> None:
    world = finished()
    for name in NAMES:
        heads = read_heads(world.folder / "sites" / name / "heads.jsonl")[0]["trial-1"]
        assert heads == [(e.number, e.hash, e.signature) for e in world.entries()]
        assert verify(world.entries(), heads).fits


def test_a_ledger_that_was_written_anew_does_not_fit_what_a_member_kept(tmp_path: Path) -> None:
    other = World(tmp_path, terms_of(money={"budget": "99.00"}))
    other.drive()
    heads = read_heads(finished().folder / "sites" / ME / "heads.jsonl")[0]["trial-1"]
    assert verify(other.entries()).fits
    assert not verify(other.entries(), heads).fits
    assert not verify(finished().entries()[:-1], heads).fits


def test_a_head_is_a_receipt_that_convicts_the_operator_of_another_history(
    site: MemberAgent, tmp_path: Path
) -> None:
    with pytest.raises(MotifairError, match="head is not signed by the operator"):
        site(task(3, head="ab" * 32))
    other = World(tmp_path / "other", terms_of(money={"budget": "99.00"}))
    other.drive()
    heads = read_heads(site.folder / "heads.jsonl")[0]["trial-1"]
    key = public_text(key_of("operator"))
    finding = verify(other.entries(), heads, key).finding
    assert finding is not None
    assert finding.what.startswith("the operator signed a receipt for a different hash of it")
    verdict = verify(finished().entries(), heads, key)
    assert "2 of the heads are receipts that the operator signed" in verdict.notes


def test_a_line_of_heads_that_a_full_disk_tore_costs_no_other_line(tmp_path: Path) -> None:
    new = World(tmp_path, finished().terms)
    agent = new.site(ME)
    agent.folder.mkdir(parents=True)
    (agent.folder / "heads.jsonl").write_text('{"run": "trial-1", "num')
    for round in range(3):
        agent(task(round))
    heads, damaged = read_heads(agent.folder / "heads.jsonl")
    assert damaged == [1]
    assert len(heads["trial-1"]) == 2
