"""Long updates and false numbers of graphs of one member do little harm to the others."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from deployed import NAMES, Answer, Away, World, opened, sealed, terms_of

from motifair.consortium.audit import audit
from motifair.consortium.rounds import server_model
from motifair.consortium.wire import Download, Upload
from motifair.errors import MotifairError
from motifair.export import load_model, predict
from motifair.export.model import save_model
from motifair.graphs.planted import planted
from motifair.statements.statement import make_statement
from motifair.statements.verification import verify

CHEAT = "bank-b"
ROUNDS = 20
# Honest models of rounds 16 to 20 are right in .83 to .94 of 384 graphs; three deviations less.
SWINGS = 0.78
FOLDERS = TemporaryDirectory()
NUMBERS = count()

Change = Callable[[Download, Upload], Upload]


def ran(change: Change | None = None, away: range = range(0), **training: Any) -> World:
    """A run in which one member changes what it sends, or is too late in some rounds."""

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if name == CHEAT and task.round in away:
            answer()
            raise Away("no answer today")
        if name != CHEAT or change is None or task.task == "finish":
            return answer()
        return sealed(change(task, opened(answer())))

    # Whole rewards: members of 21 graphs are judged unlike, and sparse ones teach too little here.
    options = {"rounds": ROUNDS, "local_epochs": 5, "hidden": 32, "learning_rate": 0.005}
    options |= {"beta": "inf"} | training
    world = World(Path(FOLDERS.name) / str(next(NUMBERS)), terms_of(**options), meddle)
    assert world.drive()
    assert verify(world.entries()).fits
    assert audit(world.terms, world.folder / "run", world.entries()).fits
    return world


def accuracy(world: World) -> float:
    """Accuracy of the server's model on graphs that no member trained on."""
    made = planted(len(NAMES), seed=3)
    unseen = [np.flatnonzero(made.owner == k)[24:] for k in range(len(NAMES))]
    graphs = made.graphs.select(np.sort(np.concatenate(unseen)))
    coordinator, schema = world.coordinator(), world.terms.schema
    weights = server_model(coordinator, world.checkpoint())
    folder = world.folder / "model"
    card = {"classes": list(schema.classes)}
    save_model(folder, weights, coordinator.model, schema.encoding(), card)
    labels = predict(load_model(folder), graphs)["label"].to_numpy()
    return float((labels == graphs.target).mean())


@cache
def honest() -> float:
    return accuracy(ran())


def reversed_update(length: float) -> Change:
    """Send the reverse of its own update, with a given length."""

    def change(task: Download, upload: Upload) -> Upload:
        if upload.update is None:
            return upload
        return replace(upload, update=-upload.update * length / np.linalg.norm(upload.update))

    return change


def only(rounds: range, change: Change) -> Change:
    return lambda task, upload: change(task, upload) if task.round in rounds else upload


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rounds", "last"),
    [(range(5, 6), ROUNDS), (range(ROUNDS, ROUNDS + 1), ROUNDS), (range(1, 7), 6)],
    ids=["once", "in the last round", "always"],
)
def test_an_update_far_too_long_harms_nobody_but_its_sender(rounds: range, last: int) -> None:
    world = ran(only(rounds, reversed_update(999.0)), rounds=last)
    without = ran(away=rounds, rounds=last)
    assert torch.equal(world.checkpoint().server.weights, without.checkpoint().server.weights)
    if len(rounds) == 1:  # else the others lack what it could have taught them
        assert honest() > 0.85
        assert accuracy(world) > SWINGS
    for entry in world.rounds():
        assert entry.settled
        for line in entry.lines:
            if line.agent == CHEAT and entry.round in rounds:
                assert line.status == "rejected"
                assert line.payoff <= 0
                assert re.fullmatch(
                    r"an update of length 999, where [\d.]+ is usual in this round, "
                    "and 10 times that the most",
                    line.reason,
                )
            else:
                assert (line.status, line.reason) == ("present", "")


def test_a_steep_loss_gets_nobody_rejected() -> None:
    def steep(task: Download, upload: Upload) -> Upload:
        gradient = upload.gradient
        return replace(upload, gradient=None if gradient is None else 1e12 * gradient)

    world = ran(steep, rounds=2)
    assert {line.status for entry in world.rounds() for line in entry.lines} == {"present"}
    assert world.values(2) == pytest.approx(ran(rounds=2).values(2), rel=1e-6)


def test_a_gradient_that_is_added_up_weighs_no_more_for_its_length() -> None:
    options = {"rounds": 1, "alignment_of": "gradient", "alignment_against": "all"}

    def longer(task: Download, upload: Upload) -> Upload:
        gradient = upload.gradient
        return replace(upload, gradient=None if gradient is None else -1e6 * gradient)

    world = ran(longer, **options)
    for name in set(NAMES) - {CHEAT}:  # else they would be found to point the wrong way
        alignment = world.line(1, name).alignment
        assert alignment is not None
        assert alignment > 0


@pytest.mark.parametrize("share", [0.0, 0.01])
def test_who_sends_next_to_nothing_is_not_paid_for_the_round(share: float) -> None:
    def little(task: Download, upload: Upload) -> Upload:
        return replace(upload, update=None if upload.update is None else share * upload.update)

    world, without = ran(only(range(2, 4), little), rounds=3), ran(away=range(2, 4), rounds=3)
    assert torch.equal(world.checkpoint().server.weights, without.checkpoint().server.weights)
    assert [world.line(r, CHEAT).status for r in (1, 2, 3)] == ["present", "rejected", "rejected"]
    assert [world.line(r, CHEAT).payoff > 0 for r in (1, 2, 3)] == [True, False, False]
    assert "a tenth of the median the least" in world.line(2, CHEAT).reason
    told = make_statement(world.entries(), CHEAT, graphs={CHEAT: 21}, counted={CHEAT: 10.5})
    assert "Uploads of 2 rounds were rejected by the limits on uploads, which is not paid." in (
        told.sentences
    )
    assert any(text.startswith("Of its 21 graphs 10.5 count") for text in told.sentences)
    plain = make_statement(world.entries(), "bank-a", graphs={"bank-a": 21})
    assert not any("not paid" in text or "count in" in text for text in plain.sentences)


def test_an_update_that_was_sent_before_is_not_paid_again() -> None:
    first: dict[str, Any] = {}

    def again(task: Download, upload: Upload) -> Upload:
        """Send one update for ever, under each round's name."""
        if upload.update is None:
            return upload
        return replace(upload, update=first.setdefault("update", upload.update))

    world = ran(again, rounds=4)
    assert [world.line(r, CHEAT).status for r in (1, 2, 3, 4)] == ["present", *["rejected"] * 3]
    assert world.line(3, CHEAT).reason == "the same update as in an earlier round"
    assert all(world.line(r, CHEAT).payoff <= 0 for r in (2, 3, 4))
    assert {x.status for e in world.rounds() for x in e.lines if x.agent != CHEAT} == {"present"}


@pytest.mark.slow
def test_claiming_graphs_without_number_is_claiming_twice_as_many_as_the_others() -> None:
    def claim(graphs: int) -> Change:
        def change(task: Download, upload: Upload) -> Upload:
            update = upload.update
            if update is not None:
                noise = np.random.default_rng(task.round).standard_normal(len(update), np.float32)
                update = noise * np.linalg.norm(update) / np.linalg.norm(noise)
            return replace(upload, graphs=graphs, update=update)

        return change

    world, twice = (ran(claim(n), size="claimed") for n in (10**9, 2 * 21))
    assert torch.equal(world.checkpoint().server.weights, twice.checkpoint().server.weights)
    assert accuracy(world) > 0.55  # of 384 graphs: two standard deviations above chance


def test_sizes_count_as_far_as_the_terms_say() -> None:
    def claim(task: Download, upload: Upload) -> Upload:
        return replace(upload, graphs=1000)

    world = ran(claim, rounds=1, size="claimed")
    assert world.checkpoint().roster[1].graphs == 1000  # the claim itself stays on record
    assert sizes(world) == [21, 42, 21, 21]
    world = ran(claim, rounds=1, size="claimed", max_size_ratio=100.0)
    assert sizes(world) == [21, 1000, 21, 21]


def sizes(world: World) -> list[int]:
    sizes: list[int] = world.coordinator().server(world.checkpoint().roster).graphs.tolist()
    return sizes


def test_an_update_longer_than_the_terms_let_agents_send_is_refused() -> None:
    options = {"privacy": {"clip_update": 0.1}, "alignment_against": "all"}
    world = ran(only(range(1, 2), reversed_update(0.5)), rounds=2, **options)
    assert (world.line(1, CHEAT).status, world.line(1, CHEAT).reason) == (
        "rejected",
        "update longer than 0.1",
    )
    assert {line.status for line in world.rounds()[1].lines} == {"present"}


def test_a_round_in_which_most_are_rejected_for_one_reason_is_not_lost(tmp_path: Path) -> None:
    """Three of four send what cannot be: nothing is written until the cause is mended."""

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        upload = opened(answer())
        if name == CHEAT or task.round != 2 or upload.update is None:
            return answer()
        return sealed(replace(upload, update=upload.update * np.float32(1e8)))

    world = World(tmp_path, terms_of(rounds=3), meddle)
    with pytest.raises(MotifairError, match=r"Most uploads of round 2 .*longer than 10000"):
        world.drive()
    assert len(world.rounds()) == 1
    world = World(tmp_path, terms_of(rounds=3))
    assert world.drive()
    assert [e.budget for e in world.rounds()] == [10_000] * 3
    assert {line.status for e in world.rounds() for line in e.lines} == {"present"}
    assert verify(world.entries()).fits
