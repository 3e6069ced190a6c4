"""A server's model that members find worse than an earlier one is not handed out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from deployed import COMPARING, NAMES, Answer, Away, World, opened, sealed, terms_of

from motifair.consortium.audit import audit
from motifair.consortium.checkpoint import good_checkpoints
from motifair.consortium.coordinator import RunCheckpoint
from motifair.consortium.rounds import server_model
from motifair.consortium.wire import JUDGE, Download, Upload
from motifair.files import read_json
from motifair.statements.verification import verify

ROUNDS = 4
Say = Callable[[np.ndarray], np.ndarray]


def saying(*liars: str, say: Say) -> Callable[[str, Download, Answer], bytes]:
    """Members that change what they say of the server's last models."""

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if name not in liars or task.task != JUDGE or task.round == 0:
            return answer()
        upload = opened(answer())
        assert upload.judgement is not None
        return sealed(replace(upload, judgement=say(upload.judgement)))

    return meddle


def newest_worse(judgement: np.ndarray) -> np.ndarray:
    made = judgement.copy()
    made[:, 0], made[-1, 0] = 0.5, 0.6
    return made


def ran(folder: Path, meddle: Any, **training: Any) -> tuple[World, dict[str, Any], RunCheckpoint]:
    """Return a finished run, its result, and the checkpoint whose model is handed out."""
    handed: list[RunCheckpoint] = []
    world = World(folder, terms_of(**{"rounds": ROUNDS} | training), meddle)
    with world.server() as drive:
        assert replace(drive, on_finish=handed.append)()
    assert verify(world.entries()).fits
    assert audit(world.terms, world.folder / "run", world.entries()).fits
    return world, read_json(world.folder / "run" / "result.json"), handed[0]


@pytest.mark.parametrize(("liars", "round"), [(1, ROUNDS), (3, ROUNDS - 1)])
def test_most_members_must_find_it_worse(tmp_path: Path, liars: int, round: int) -> None:
    world, result, handed = ran(tmp_path, saying(*NAMES[:liars], say=newest_worse))
    assert (result["rounds"], result["model_of_round"], handed.round) == (ROUNDS, round, round)
    assert len(world.rounds()) == ROUNDS  # what was settled stays


def test_members_are_asked_for_the_last_three_models(tmp_path: Path) -> None:
    world, _, _ = ran(tmp_path, lambda name, task, answer: answer())
    coordinator = world.coordinator()
    kept = list(good_checkpoints(world.folder / "run"))[::-1]
    asked = world.task("bank-a", COMPARING).models
    assert asked is not None
    for model, checkpoint in zip(asked, kept, strict=True):
        assert torch.equal(torch.from_numpy(model.copy()), server_model(coordinator, checkpoint))
    loss = opened(world.answers["bank-a", COMPARING]).judgement
    assert loss is not None
    assert loss.shape == (3, 2)


def test_if_too_few_answer_the_last_is_handed_out(tmp_path: Path) -> None:
    lie = saying(*NAMES, say=newest_worse)

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if task.task == JUDGE and task.round and name != "bank-a":
            raise Away("no answer today")
        return lie(name, task, answer)

    assert ran(tmp_path, meddle)[2].round == ROUNDS


def test_nobody_is_asked_where_members_do_not_judge(tmp_path: Path) -> None:
    world, _, handed = ran(tmp_path, saying(*NAMES, say=newest_worse), trial_rounds=0)
    assert handed.round == ROUNDS
    assert ("bank-a", COMPARING) not in world.tasks


@pytest.mark.slow
def test_an_attack_in_the_last_round_is_not_handed_out(tmp_path: Path) -> None:
    """One of four reverses its last update, nine times as long, and praises what comes of it."""

    def change(upload: Upload, task: Download) -> Upload:
        if task.task == JUDGE and task.round and upload.judgement is not None:
            return replace(upload, judgement=np.array([[9.0, 0], [9, 0], [0, 0]], np.float64))
        if upload.update is None or task.round < 22:
            return upload
        return replace(upload, update=-9 * upload.update)

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        return answer() if name != "bank-b" else sealed(change(opened(answer()), task))

    options = {"local_epochs": 5, "learning_rate": 0.005, "beta": "inf", "hidden": 32}
    _, result, handed = ran(tmp_path, meddle, rounds=22, **options)
    assert (result["rounds"], handed.round < 22) == (22, True)
    _, _, handed = ran(tmp_path / "honest", lambda n, t, answer: answer(), rounds=22, **options)
    assert handed.round == 22
