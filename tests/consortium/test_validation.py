"""Only valid uploads count; a round continues without the others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from deployed import (
    BELIEVED,
    NAMES,
    VOTED,
    Answer,
    World,
    honest,
    opened,
    sealed,
    sealed_content,
    site_of,
    terms_of,
)
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from motifair.consortium.terms import FederationTerms
from motifair.consortium.validation import Accepted
from motifair.consortium.wire import Download, Upload, seal, unseal
from motifair.errors import MotifairError
from motifair.statements.verification import verify

ME, OTHER = "bank-b", "bank-c"
ROUND = 2
FOLDERS = TemporaryDirectory()  # of worlds shared by several tests, deleted with the process


def new_folder() -> Path:
    return Path(FOLDERS.name) / str(next(NUMBERS))


NUMBERS = count()


@cache
def honest_world() -> World:
    """A federation after two rounds; not changed by any test."""
    more = {"max_norm": 50.0, "moments": "common"}
    world = World(new_folder(), terms_of(rounds=3, **more, **VOTED))
    world.drive(rounds=ROUND)
    return world


@cache
def world_after_a_round() -> World:
    world = World(new_folder(), honest_world().terms)
    world.drive(rounds=1)
    return world


@cache
def answer_of(name: str, round: int = ROUND) -> bytes:
    """The real answer of a member."""
    return honest_world().kept(name, round).answer


def mine(**changes: object) -> Callable[[], bytes]:
    """A member's upload with some changes, correctly signed."""
    return lambda: sealed(replace(opened(answer_of(ME)), **changes))  # type: ignore[arg-type]


def changed(name: str) -> Callable[[Callable[[np.ndarray], np.ndarray]], Callable[[], bytes]]:
    """What makes uploads in which an array is changed."""

    def of(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[], bytes]:
        def make() -> bytes:
            upload = opened(answer_of(ME))
            array = getattr(upload, name)
            return sealed(replace(upload, **{name: change(array.copy())}))

        return make

    return of


update, gradient, prototypes, moments = map(
    changed, ("update", "gradient", "prototypes", "moments")
)


def put(place: object, number: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array[place] = number  # type: ignore[index]
        return array

    return change


def with_array(name: str, array: np.ndarray) -> Callable[[], bytes]:
    def make() -> bytes:
        content, _ = unseal(answer_of(ME))
        upload = Upload.decode(content)
        bare = replace(upload, update=None, gradient=None, prototypes=None, moments=None).encode()
        length = int.from_bytes(bare[:8], "little")
        metadata = json.loads(bare[8 : 8 + length])["__metadata__"]
        return sealed_content(save(load(content) | {name: array}, metadata), upload)

    return make


def flipped() -> bytes:
    content, signature = unseal(answer_of(ME))
    changed = bytearray(content)
    changed[-1] ^= 1
    return seal(bytes(changed), signature)


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "NaN in the update": (update(put(3, np.nan)), "update with numbers that are not finite"),
    "infinity in the update": (update(put(-1, np.inf)), "update with numbers that are not finite"),
    "NaN in a prototype": (
        prototypes(put((0, 0), np.nan)),
        "prototypes with numbers that are not finite",
    ),
    "a loss that is NaN": (mine(loss=float("nan")), "numbers that are not finite"),
    "an infinite gradient norm": (mine(gradient_norm=float("inf")), "numbers that are not finite"),
    "a judgement while training": (mine(judgement=np.zeros((3, 2))), "judgement of shape (3, 2)"),
    "a trial while training": (mine(trial=np.zeros(3, np.float32)), "trial of shape (3,)"),
    "fingerprints while training": (
        mine(fingerprints=np.zeros(21, np.uint64)),
        "fingerprints of shape (21,) instead of None",
    ),
    "an update one too short": (update(lambda u: u[:-1]), "update of shape"),
    "an update as a table": (update(lambda u: u[None]), "update of shape"),
    "no update": (mine(update=None), "update of shape None"),
    "a motif too few": (prototypes(lambda p: p[1:]), "prototypes of shape"),
    "no prototypes": (mine(prototypes=None), "prototypes of shape None"),
    "no gradient": (mine(gradient=None), "gradient of shape None"),
    "a gradient one too short": (gradient(lambda g: g[1:]), "gradient of shape"),
    "NaN in the gradient": (gradient(put(0, np.nan)), "gradient with numbers that are not finite"),
    "no second moments": (mine(moments=None), "moments of shape None"),
    "a second moment too few": (moments(lambda m: m[1:]), "moments of shape"),
    "second moments below 0": (moments(put(-1, -1e-30)), "second moments below 0"),
    "NaN in second moments": (moments(put(0, np.nan)), "moments with numbers that are not finite"),
    "float64": (update(lambda u: u.astype(np.float64)), "unexpected array update of type float64"),
    "whole numbers": (update(lambda u: u.astype(np.int32)), "array update of type int32"),
    "one more array": (with_array("more", np.zeros(3, np.float32)), "unexpected array more"),
    "too long an update": (update(lambda u: 51 * u / np.linalg.norm(u)), "update longer than 50"),
    "the upload of an earlier round": (lambda: answer_of(ME, 1), "an upload of round 1"),
    "an upload for a later round": (mine(round=ROUND + 1), f"an upload of round {ROUND + 1}"),
    "another member's upload": (lambda: answer_of(OTHER), f"an upload of agent '{OTHER}'"),
    "another member's name": (mine(agent=OTHER), f"an upload of agent '{OTHER}'"),
    "another run": (mine(run="trial-2"), "an upload of run 'trial-2'"),
    "another task": (mine(task="finish"), "an upload of task 'finish'"),
    "another member's signature": (
        lambda: sealed(opened(answer_of(ME)), key=OTHER),
        "the signature is not the agent's",
    ),
    "the signature of an earlier round": (
        lambda: seal(unseal(answer_of(ME))[0], unseal(answer_of(ME, 1))[1]),
        "the signature is not the agent's",
    ),
    "no signature": (
        lambda: seal(unseal(answer_of(ME))[0], b""),
        "the signature is not the agent's",
    ),
    "a flipped bit": (flipped, "the signature is not the agent's"),
    "cut in the middle": (lambda: answer_of(ME)[:-100], "no record at all"),
    "cut in the signature": (lambda: answer_of(ME)[:100], "cut off"),
    "nothing": (lambda: b"", "cut off"),
    "words": (lambda: b"Sorry, not today; the disk is full.", "cut off"),
    "a name one has no key for": (
        lambda: sealed(replace(opened(answer_of(OTHER)), agent=ME), key=OTHER),
        "the signature is not the agent's",
    ),
    "motifs twice": (mine(motifs=("bond 0 1", "bond 0 1")), "motifs that are not in order"),
}  # fmt: skip


def collected(answer: bytes, name: str = ME) -> Accepted | str:
    """The accepted upload of an answer, or the reason of its rejection."""
    world = honest_world()
    task = world.tasks[name, ROUND]
    accepted, rejected = world.coordinator().collect(
        {name: task}, {name: answer}, world.checkpoint().roster
    )
    return accepted[name] if name in accepted else rejected[name]


def test_an_honest_upload_is_accepted_with_its_hash_and_signature() -> None:
    for name in NAMES:
        accepted = collected(answer_of(name), name)
        assert isinstance(accepted, Accepted)
        line = honest_world().line(ROUND, name)
        assert (accepted.sha256, accepted.signature) == (line.upload, line.signature)


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_upload_is_refused_with_the_reason(kind: str) -> None:
    make, reason = BAD[kind]
    rejection = collected(make())
    assert isinstance(rejection, str)
    assert reason in rejection


@pytest.mark.parametrize("kind", BAD)
def test_a_round_with_a_bad_upload_goes_on_without_it(kind: str, tmp_path: Path) -> None:
    make, reason = BAD[kind]

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        honest = answer()
        return make() if (name, task.round) == (ME, ROUND) else honest

    shutil.copytree(world_after_a_round().folder, tmp_path, dirs_exist_ok=True)
    world = World(tmp_path, honest_world().terms, meddle)
    world.drive(rounds=1)
    _, second = world.rounds()
    for line in second.lines:
        if line.agent == ME:
            assert (line.status, line.upload, line.signature) == ("rejected", "", "")
            assert reason in line.reason
            assert (line.kept, line.payoff, line.alignment) == (0, 0, None)
            assert line.value == world.line(1, ME).value
        else:
            assert (line.status, line.reason) == ("present", "")
            assert line.value != world.line(1, line.agent).value
            assert line.payoff > 0
    assert second.settled
    assert sum(line.payoff for line in second.lines) == second.budget == 10_000
    assert verify(world.entries()).fits


def test_a_gradient_that_nobody_asked_for_is_refused(tmp_path: Path) -> None:
    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        upload = opened(answer())
        assert upload.gradient is None
        return sealed(replace(upload, gradient=upload.update)) if name == ME else answer()

    world = World(tmp_path, terms_of(rounds=3, alignment_against="all"), meddle)
    world.drive(rounds=1)
    (entry,) = world.rounds()
    statuses = {line.agent: line.status for line in entry.lines}
    assert statuses == {name: "rejected" if name == ME else "present" for name in NAMES}
    assert "gradient of shape" in world.line(1, ME).reason


@given(st.binary(max_size=400))
def test_whatever_an_agent_answers_the_server_goes_on(answer: bytes) -> None:
    assert isinstance(collected(answer), str)


@given(st.integers(0, 10**6), st.integers(0, 7))
def test_an_answer_with_a_flipped_bit_is_refused(place: int, bit: int) -> None:
    changed = bytearray(answer_of(ME))
    changed[place % len(changed)] ^= 1 << bit
    assert isinstance(collected(bytes(changed)), str)


def test_an_update_exactly_as_long_as_allowed_is_accepted() -> None:
    def exact(u: np.ndarray) -> np.ndarray:
        only = np.zeros_like(u)
        only[0] = 50.0
        return only

    assert isinstance(collected(update(exact)()), Accepted)


# Joining


def joining(believed: bool = False, **changes: object) -> Accepted | str:
    """Join the honest world, or one in which graphs count as far as they are believed."""
    terms = terms_of(rounds=3, **BELIEVED) if believed else honest_world().terms
    world = World(Path("nowhere"), terms)
    task = world.coordinator().invitations()[ME]
    answer = sealed(replace(opened(joined_answer(terms)), **changes))  # type: ignore[arg-type]
    accepted, rejected = world.coordinator().collect({ME: task}, {ME: answer}, ())
    return accepted[ME] if ME in accepted else rejected[ME]


@cache
def joined_answer(terms: FederationTerms) -> bytes:
    world = World(new_folder(), terms)
    return world.site(ME)(world.coordinator().invitations()[ME])


def test_a_member_joins_with_its_motifs_and_their_prototypes() -> None:
    accepted = joining()
    assert isinstance(accepted, Accepted)
    own = site_of(ME, honest_world().terms).data
    assert accepted.upload.motifs == own.motifs
    assert accepted.upload.graphs == len(own.train)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"graphs": 0}, "a number of training graphs"),
        ({"graphs": -3}, "a number of training graphs"),
        ({"motifs": ()}, "prototypes of shape"),
        ({"motifs": ("b", "a")}, "not in order"),
        ({"motifs": ("ring 0 \ud800",)}, "neither a bond nor a ring"),
        ({"motifs": ("ring" + 1000 * " 0",)}, "neither a bond nor a ring"),
        ({"update": np.zeros(3, np.float32)}, "update of shape"),
        ({"prototypes": None}, "prototypes of shape"),
    ],
    ids=str,
)
def test_a_member_that_joins_wrongly_is_refused_with_the_reason(
    changes: dict[str, object], reason: str
) -> None:
    rejection = joining(**changes)
    assert isinstance(rejection, str)
    assert reason in rejection


def test_motifs_invented_without_number_are_refused() -> None:
    invented = tuple(sorted(f"bond {k} {k}" for k in range(300_000)))
    rejection = joining(motifs=invented, prototypes=np.zeros((300_000, 16), np.float32))
    assert rejection == "300000 motifs, where 200000 are the most"


def test_a_member_joins_with_a_fingerprint_of_each_graph() -> None:
    accepted = joining(believed=True)
    assert isinstance(accepted, Accepted)
    assert accepted.upload.fingerprints is not None
    assert len(accepted.upload.fingerprints) == accepted.upload.graphs == 21


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"fingerprints": np.zeros(20, np.uint64)}, "fingerprints of shape (20,) instead of (21,)"),
        ({"fingerprints": np.zeros((21, 1), np.uint64)}, "fingerprints of shape (21, 1)"),
        ({"fingerprints": np.zeros(21, np.int64)}, "unexpected array fingerprints of type int64"),
        ({"fingerprints": None}, "fingerprints of shape None"),
        ({"graphs": 22}, "fingerprints of shape (21,) instead of (22,)"),
        ({"wiring": None}, "wiring of shape None"),
        ({"wiring": np.zeros(13)}, "wiring of shape (13,) instead of (93,)"),
        ({"wiring": np.full(93, np.nan)}, "wiring with numbers that are not finite"),
        ({"wiring": np.full(93, -1.1)}, "wiring that is not from -1 to 1"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else given,
)
def test_a_member_that_says_wrong_things_of_its_graphs_is_refused_with_the_reason(
    changes: dict[str, object], reason: str
) -> None:
    rejection = joining(believed=True, **changes)
    assert isinstance(rejection, str)
    assert reason in rejection


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t[1:], "trial of shape"),
        (lambda t: t[None], "trial of shape"),
        (lambda t: None, "trial of shape None"),
        (lambda t: t.astype(np.float64), "unexpected array trial of type float64"),
        (lambda t: put(0, np.nan)(t.copy()), "trial with numbers that are not finite"),
        (lambda t: put(-1, np.inf)(t.copy()), "trial with numbers that are not finite"),
    ],
)
def test_a_model_for_judgement_that_cannot_be_is_refused_with_the_reason(
    change: Callable[[np.ndarray], np.ndarray | None], reason: str
) -> None:
    trial = opened(joined_answer(terms_of(rounds=3, **BELIEVED))).trial
    assert trial is not None
    rejection = joining(believed=True, trial=change(trial))
    assert isinstance(rejection, str)
    assert reason in rejection


def judging(said: object) -> Accepted | str:
    """Judge three peers' models with these words."""
    world = World(Path("nowhere"), terms_of(rounds=3, **BELIEVED))
    task = Download(run=world.run, round=0, agent=ME, task="judge", terms=world.terms.digest)
    task = replace(task, models=np.zeros((3, 5), np.float32))
    upload = Upload(run=world.run, round=0, agent=ME, task="judge", judgement=said)  # type: ignore[arg-type]
    accepted, rejected = world.coordinator().collect({ME: task.encode()}, {ME: sealed(upload)}, ())
    return accepted[ME] if ME in accepted else rejected[ME]


@pytest.mark.parametrize(
    "said",
    [
        [[0.5, 0.2], [0.0, -1.0], [1e6, 1.0]],
        [[0.5, np.nan]] * 3,  # the judge has graphs of one class
    ],
)
def test_judgements_that_can_be_are_accepted(said: list[list[float]]) -> None:
    assert isinstance(judging(np.array(said)), Accepted)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (np.full((3, 2), [-1e-9, 0.1]), "losses that are not from 0 to 1e+06"),
        (np.full((3, 2), [1.1e6, 0.1]), "losses that are not from 0 to 1e+06"),
        (np.full((3, 2), [np.nan, 0.1]), "losses that are not from 0 to 1e+06"),
        (np.full((3, 2), [np.inf, 0.1]), "losses that are not from 0 to 1e+06"),
        (np.full((3, 2), [0.5, 1.01]), "discriminations that are not from -1 to 1"),
        (np.full((3, 2), [0.5, -np.inf]), "discriminations that are not from -1 to 1"),
        (np.full((2, 2), 0.5), "judgement of shape (2, 2) instead of (3, 2)"),
        (np.full((4, 2), 0.5), "judgement of shape (4, 2) instead of (3, 2)"),
        (np.full((3, 1), 0.5), "judgement of shape (3, 1) instead of (3, 2)"),
        (np.full(6, 0.5), "judgement of shape (6,) instead of (3, 2)"),
        (None, "judgement of shape None instead of (3, 2)"),
        (np.full((3, 2), 0.5, np.float32), "unexpected array judgement of type float32"),
    ],
)  # fmt: skip
def test_judgements_that_cannot_be_are_refused_with_the_reason(said: object, reason: str) -> None:
    rejection = judging(said)
    assert isinstance(rejection, str)
    assert reason in rejection


def test_who_does_not_judge_is_named_with_the_reason_and_nothing_is_written(tmp_path: Path) -> None:
    asked: list[str] = []

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if (name, task.task) != (ME, "judge"):
            return answer()
        asked.append(name)
        return sealed(replace(opened(answer()), judgement=np.full((3, 2), -1.0)))

    world = World(tmp_path, terms_of(rounds=1), meddle)
    reason = r"losses that are not from 0 to 1e\+06"
    with pytest.raises(MotifairError, match=rf"'{ME}' did not judge its peers \({reason}\); start"):
        world.drive()
    assert world.entries() == []
    assert len(asked) == 3
    world.meddle = honest
    assert world.drive()


def test_fingerprints_that_nobody_asked_for_are_refused() -> None:
    rejection = joining(fingerprints=np.zeros(21, np.uint64))
    assert rejection == "fingerprints of shape (21,) instead of None"


def test_a_member_without_motifs_may_join_but_stays_the_least_diverse() -> None:
    nothing = joining(motifs=(), prototypes=np.zeros((0, 16), np.float32))
    assert isinstance(nothing, Accepted)


def test_more_graphs_than_a_computer_counts_are_refused() -> None:
    assert isinstance(joining(graphs=2**63), str)


def test_a_member_joins_at_the_second_invitation(tmp_path: Path) -> None:
    asked: list[str] = []

    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        asked.append(name)
        if name == ME and asked.count(ME) == 1:
            return b"not yet"
        return answer()

    world = World(tmp_path, terms_of(rounds=1), meddle)
    assert world.drive(rounds=0) is False
    assert sorted(asked) == sorted([*NAMES, *NAMES, ME])  # all judge once
    assert [e.kind for e in world.entries()] == ["terms"]


def test_who_does_not_join_is_named_with_the_reason_and_nothing_is_written(tmp_path: Path) -> None:
    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        return b"" if name == ME else answer()

    world = World(tmp_path, terms_of(rounds=1), meddle)
    with pytest.raises(MotifairError, match=rf"'{ME}' did not join \(cut off\); start its agent"):
        world.drive()
    assert world.entries() == []


# One member must not be able to harm the others


def test_huge_prototypes_of_one_member_do_not_silence_the_others(tmp_path: Path) -> None:
    def meddle(name: str, task: Download, answer: Answer) -> bytes:
        if (name, task.task) != (ME, "train"):
            return answer()
        upload = opened(answer())
        assert upload.prototypes is not None
        return sealed(replace(upload, prototypes=np.full_like(upload.prototypes, 3e38)))

    world = World(tmp_path, terms_of(rounds=2, prototype_distance="l2"), meddle)
    world.drive()
    others = {line.status for e in world.rounds() for line in e.lines if line.agent != ME}
    assert others == {"present"}
