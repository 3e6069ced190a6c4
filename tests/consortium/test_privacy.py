"""Uploads are clipped and noisy as agreed, and the stated guarantee holds."""

from __future__ import annotations

import json
import math
import re
import shutil
import stat
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deployed import NAMES, World, content_of, key_of, opened, terms_of
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_ndtr, ndtr
from scipy.stats import kstest

from motifair.config import make_config
from motifair.consortium.keys import signer
from motifair.consortium.privacy import (
    Privacy,
    check_privacy,
    check_task,
    gaussian,
    guarantee,
    make_privacy,
    noise_secret,
    protect,
    reveal,
    round_key,
)
from motifair.consortium.template import federation_toml
from motifair.consortium.terms import FederationTerms, make_terms
from motifair.consortium.wire import FINISH, JOIN, TRAIN, Download, Upload, unseal
from motifair.errors import MotifairError
from motifair.files import finite, write_atomic
from motifair.methods import make_method

SECRET = bytes(range(32))
KEY = round_key(SECRET, "trial-1", 1)
BOTH = Privacy(0.5, 2.0, 3.0, 4.0, 1e-5)
MANY = 20_000

vectors = arrays(np.float32, st.integers(1, 50), elements=st.floats(-1e6, 1e6, width=32))
clips = st.floats(1e-3, 1e3)


def clipped(vector: np.ndarray, clip: float) -> np.ndarray:
    update, _ = protect(vector, None, Privacy(clip_update=clip), KEY)
    assert update is not None
    return update


def noise_of(
    secret: bytes = SECRET, run: str = "a", round: int = 1, start: float = 0
) -> np.ndarray:
    """Noise of standard deviation 1 that is added to an update of length `start`."""
    vector = np.zeros(MANY, np.float32)
    vector[0] = start
    made = Privacy(clip_update=0.5, noise_update=2.0, delta=1e-5)
    update, _ = protect(vector, None, made, round_key(secret, run, round))
    assert update is not None
    return update - vector


def correlated(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(abs(np.corrcoef(a, b)[0, 1]) > 5 / math.sqrt(MANY))


# Clipping


@given(vectors, clips)
def test_a_clipped_vector_is_no_longer_than_its_bound_and_points_the_same_way(
    vector: np.ndarray, clip: float
) -> None:
    made = clipped(vector, clip).astype(np.float64)
    length = float(np.linalg.norm(vector.astype(np.float64)))
    assert np.linalg.norm(made) <= clip * (1 + 1e-6)
    np.testing.assert_allclose(made * max(1.0, length / clip), vector, rtol=1e-5, atol=1e-30)


@given(vectors)
def test_a_vector_within_its_bound_stays_as_it_is(vector: np.ndarray) -> None:
    bound = float(np.linalg.norm(vector.astype(np.float64))) + 1e-3
    np.testing.assert_array_equal(clipped(vector, bound), vector)


@given(vectors, st.integers(0, 99), clips)
def test_replacing_all_data_moves_a_clipped_vector_by_at_most_twice_the_bound(
    vector: np.ndarray, seed: int, clip: float
) -> None:
    other = np.random.default_rng(seed).normal(scale=1e3, size=vector.shape).astype(np.float32)
    apart = clipped(vector, clip).astype(np.float64) - clipped(other, clip)
    opposite = clipped(vector, clip).astype(np.float64) - clipped(-vector, clip)
    assert np.linalg.norm(apart) <= 2 * clip * (1 + 1e-6)
    assert np.linalg.norm(opposite) <= 2 * clip * (1 + 1e-6)


def test_prototypes_are_clipped_all_together_and_keep_their_shape() -> None:
    given = np.full((4, 9), 7, np.float32)
    _, made = protect(None, given, Privacy(clip_prototype=3.0), KEY)
    assert made is not None
    assert made.shape == (4, 9)
    assert np.linalg.norm(made) == pytest.approx(3.0)


# Noise


@pytest.mark.parametrize(("clip", "noise"), [(0.5, 2.0), (3.0, 0.1), (1e-3, 50.0)])
def test_noise_is_normal_with_the_agreed_deviation(clip: float, noise: float) -> None:
    zeros = np.zeros(MANY, np.float32)
    made = Privacy(clip, noise, clip, 2 * noise, 1e-5)
    update, prototypes = protect(zeros, zeros.reshape(-1, 50), made, KEY)
    assert update is not None
    assert prototypes is not None
    for sent, sigma in ((update, noise * clip), (prototypes.ravel(), 2 * noise * clip)):
        scaled = sent.astype(np.float64) / sigma
        assert abs(scaled.mean()) < 5 / math.sqrt(MANY)
        assert abs(scaled.std() - 1) < 5 / math.sqrt(2 * MANY)
        assert kstest(scaled, "norm").pvalue > 1e-3


def test_noise_is_added_to_the_clipped_vector() -> None:
    vector = np.full(MANY, 8, np.float32)
    made = Privacy(clip_update=0.5 * math.sqrt(MANY), noise_update=0.01, delta=1e-5)
    update, _ = protect(vector, None, made, KEY)
    assert update is not None
    sigma = 0.005 * math.sqrt(MANY)
    assert abs(update.mean() - 0.5) < 5 * sigma / math.sqrt(MANY)


@given(st.binary(min_size=1, max_size=40), st.integers(1, 9))
def test_any_count_of_normal_numbers_can_be_drawn(key: bytes, count: int) -> None:
    noise = gaussian(key, count)
    assert noise.shape == (count,)
    assert (np.abs(noise) < 9).all()
    np.testing.assert_array_equal(noise, gaussian(key, count))


def test_the_same_vector_gets_the_same_noise_in_the_same_round() -> None:
    np.testing.assert_array_equal(noise_of(), noise_of())


@pytest.mark.parametrize(
    "other",
    [{"secret": SECRET[::-1]}, {"run": "b"}, {"round": 2}, {"start": 1e-6}],
    ids=["secret", "run", "round", "vector"],
)
def test_noise_is_unrelated_where_anything_differs(other: dict[str, Any]) -> None:
    assert correlated(noise_of(), noise_of())
    assert not correlated(noise_of(), noise_of(**other))


def test_run_and_round_cannot_be_mistaken_for_each_other() -> None:
    assert round_key(SECRET, "run-1", 12) != round_key(SECRET, "run-11", 2)
    assert round_key(SECRET, "run, 1", 2) != round_key(SECRET, "run", 12)


def test_update_and_prototypes_get_unrelated_noise() -> None:
    zeros = np.zeros(MANY, np.float32)
    update, prototypes = protect(zeros, zeros, Privacy(1.0, 1.0, 1.0, 1.0, 1e-5), KEY)
    assert update is not None
    assert prototypes is not None
    assert not correlated(update, prototypes)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_training_that_failed_is_not_told_from_an_update_of_nothing(bad: float) -> None:
    zeros, failed = np.zeros(9, np.float32), np.zeros(9, np.float32)
    failed[3] = bad
    made, hidden = protect(failed, zeros, BOTH, KEY)[0], protect(zeros, zeros, BOTH, KEY)[0]
    np.testing.assert_array_equal(made, hidden)


def test_an_upload_leaves_without_loss_and_gradient_norm_where_there_is_noise() -> None:
    upload = Upload(
        run="trial-1",
        round=1,
        agent="bank-a",
        task=TRAIN,
        graphs=9,
        loss=0.7,
        gradient_norm=0.2,
        update=np.ones(5, np.float32),
        prototypes=np.ones((2, 3), np.float32),
    )
    assert reveal(upload, Privacy(), b"").encode() == upload.encode()
    only_clipped = reveal(upload, Privacy(clip_update=1.0), b"")
    assert (only_clipped.loss, only_clipped.gradient_norm) == (0.7, 0.2)
    noisy = reveal(upload, BOTH, SECRET)
    assert (noisy.loss, noisy.gradient_norm, noisy.graphs) == (0.0, 0.0, 9)
    assert noisy.update is not None
    assert not np.array_equal(noisy.update, upload.update)


def test_a_secret_is_drawn_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    secret = noise_secret(tmp_path / "state")
    assert len(secret) == 32
    assert noise_secret(tmp_path / "state") == secret
    assert noise_secret(tmp_path / "other") != secret
    mode = (tmp_path / "state" / "noise.key").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    write_atomic(tmp_path / "other" / "noise.key", b"short")
    with pytest.raises(MotifairError, match=r"noise\.key is damaged; restore it"):
        noise_secret(tmp_path / "other")


# The guarantee


def exact_delta(epsilon: float, distance: float) -> float:
    """δ of a Gaussian mechanism whose means lie so many deviations apart (Balle and Wang)."""
    near = ndtr(distance / 2 - epsilon / distance)
    far = math.exp(epsilon + float(log_ndtr(-distance / 2 - epsilon / distance)))
    return float(near) - far


@settings(deadline=None, max_examples=50)
@given(st.floats(0.5, 200), st.floats(0.5, 200), st.integers(1, 400), st.floats(-9, -2))
def test_epsilon_holds_exactly_and_is_within_the_bound_of_concentrated_privacy(
    noise: float, other: float, rounds: int, power: float
) -> None:
    delta = 10**power
    said = guarantee(Privacy(1.0, noise, 7.0, other, delta), rounds)
    # Means lie 2C apart and noise is z·C: a round costs ρ = (2/z)²/2. One more on joining.
    rho = 2 * rounds / noise**2 + 2 * (rounds + 1) / other**2
    assert said["epsilon"] <= (rho + 2 * math.sqrt(rho * math.log(1 / delta))) * (1 + 1e-3)
    assert exact_delta(said["epsilon"], math.sqrt(2 * rho)) <= delta


def test_nobody_tells_two_datasets_apart_better_than_promised() -> None:
    """An attack on one round: the data is one of two that lie as far apart as clipping allows."""
    made = Privacy(clip_update=1.0, noise_update=2.0, delta=1e-5)
    epsilon, tries = guarantee(made, 1)["epsilon"], 5000

    def seen(sign: float, offset: int) -> np.ndarray:
        update = np.array([sign * 100], np.float32)
        keys = (round_key(SECRET, "attack", offset + k) for k in range(tries))
        return np.concatenate([protect(update, None, made, key)[0] for key in keys])

    here, there = seen(1, 0), seen(-1, tries)
    for threshold in np.linspace(-3, 3, 13):
        hit, alarm = (here > threshold).mean(), (there > threshold).mean()
        assert hit <= math.exp(epsilon) * alarm + 1e-5 + 5 / math.sqrt(tries)
    # And the attack is a real one: means are 2C/(z·C) = 1 deviation apart.
    assert (here.mean() - there.mean()) / here.std() == pytest.approx(1, abs=0.1)


def test_prototypes_are_counted_once_more_than_updates_since_they_are_sent_on_joining() -> None:
    updates = Privacy(clip_update=1.0, noise_update=9.0, delta=1e-5)
    prototypes = Privacy(clip_prototype=1.0, noise_prototype=9.0, delta=1e-5)
    assert guarantee(prototypes, 20)["epsilon"] == guarantee(updates, 21)["epsilon"]


def test_more_rounds_cost_more_and_more_noise_costs_less_whatever_the_bound() -> None:
    def epsilon(clip: float, noise: float, rounds: int) -> float:
        return float(guarantee(Privacy(clip, noise, None, None, 1e-5), rounds)["epsilon"])

    assert epsilon(1, 5, 10) < epsilon(1, 5, 11)
    assert epsilon(1, 6, 10) < epsilon(1, 5, 10)
    assert epsilon(1, 5, 10) == epsilon(30, 5, 10)


def test_without_noise_nothing_is_promised() -> None:
    for made in (Privacy(), Privacy(clip_update=1.0)):
        said = guarantee(made, 200)
        assert said["epsilon"] == math.inf
        assert (said["delta"], said["accountant"]) == (None, None)


def test_a_statement_says_for_whom_and_what_it_does_not_cover_and_can_be_written_down() -> None:
    said = guarantee(BOTH, 200)
    assert json.loads(json.dumps(finite(said))) == said
    assert (said["delta"], said["rounds"]) == (1e-5, 200)
    assert said["unit"] == "all graphs of one member, replaced by any others"
    assert said["accountant"].startswith("opacus 1.")
    assert "motif keys" in said["in_the_clear"]


# What is refused


WRONG: dict[str, tuple[Any, str]] = {
    "no section": (3, r"\[privacy\] of federation.toml must be a section"),
    "nothing in it": ({}, r"\[privacy\] protects nothing; set clip_update in it, or remove it"),
    "unknown": ({"clip_updates": 1.0}, "has no 'clip_updates'. Did you mean clip_update"),
    "zero": ({"clip_update": 0}, "clip_update must be a number greater than 0, not 0"),
    "negative": ({"clip_update": 1.0, "noise_update": -1}, "noise_update must be a number"),
    "infinite": ({"clip_update": math.inf}, "clip_update must be a number greater than 0"),
    "not a number": ({"clip_update": math.nan}, "clip_update must be a number greater than 0"),
    "words": ({"clip_update": "1"}, "clip_update must be a number greater than 0"),
    "yes": ({"clip_update": True}, "clip_update must be a number greater than 0"),
    "noise of updates without a bound": (
        {"noise_update": 1.0, "delta": 1e-5},
        "noise_update is a multiple of clip_update; set clip_update",
    ),
    "noise of prototypes without a bound": (
        {"clip_update": 1.0, "noise_prototype": 1.0, "delta": 1e-5},
        "noise_prototype is a multiple of clip_prototype; set clip_prototype",
    ),
    "noise without delta": (
        {"clip_update": 1.0, "noise_update": 1.0},
        "Noise needs a delta, for which epsilon is stated; set it",
    ),
    "delta without noise": (
        {"clip_update": 1.0, "delta": 1e-5},
        "delta has no effect without noise; set noise_update",
    ),
    "too large a delta": (
        {"clip_update": 1.0, "noise_update": 1.0, "delta": 0.5},
        "delta = 0.5 would guarantee next to nothing; set it to 0.01 or less",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_settings_that_mean_nothing_are_refused(kind: str) -> None:
    given, sentence = WRONG[kind]
    with pytest.raises(MotifairError, match=sentence):
        make_privacy(given)


def test_no_section_is_no_protection() -> None:
    assert make_privacy(None) == Privacy()
    assert make_privacy({"clip_update": 2}) == Privacy(clip_update=2)


NOISY = {"clip_update": 0.1, "noise_update": 1.0, "delta": 1e-5}
# Without raw gradients, fingerprints and judgements, which cannot be protected.
UPDATES = {"alignment_against": "all", "size": "claimed"}
PROTOTYPES = {"clip_prototype": 1.0, "noise_prototype": 1.0}
IN_VAIN: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "raw gradients": (
        UPDATES | {"alignment_of": "gradient"},
        {"clip_update": 1.0},
        r"alignment_of=gradient and votes of peers \(alignment_against\) upload raw gradients, "
        "which .* does not protect; use alignment_of=update and alignment_against=all",
    ),
    "votes by raw gradients": (
        {"alignment_against": "peers"},
        {"clip_update": 1.0},
        "upload raw gradients, which .* does not protect",
    ),
    "votes by value": (
        {"alignment_against": "peers-by-value"},
        {"clip_update": 1.0},
        "upload raw gradients, which .* does not protect",
    ),
    "the default": (
        {},
        {**NOISY, **PROTOTYPES},
        "^size=believed sends .* and trial_rounds sends a model trained alone.*, without noise; "
        r'set size = "claimed" and trial_rounds = 0 in \[training\], or remove noise',
    ),
    "a method without prototypes": (
        {"method": "fedavg"},
        {"clip_prototype": 1.0},
        "fedavg sends no prototypes with these options; remove clip_prototype",
    ),
    "prototypes of no weight": (
        UPDATES | {"prototype_weight": 0},
        {"clip_update": 1.0, "clip_prototype": 1.0},
        "motifair sends no prototypes with these options",
    ),
    "prototypes beside noisy updates": (
        UPDATES,
        NOISY,
        "Prototypes would be sent without noise .*; also set clip_prototype and noise_prototype",
    ),
    "updates beside noisy prototypes": (
        UPDATES,
        {**PROTOTYPES, "delta": 1e-5},
        "Updates would be sent without noise .*; also set clip_update and noise_update",
    ),
    "fingerprints with noise": (
        UPDATES | {"size": "believed"},
        {**NOISY, **PROTOTYPES},
        r"^size=believed sends fingerprints .*, without noise; set size = .claimed. in \[training",
    ),
    "judgements with noise": (
        {"alignment_against": "coverage", "size": "claimed"},
        {**NOISY, **PROTOTYPES},
        "^trial_rounds sends .*, without noise; set trial_rounds = 0 in",
    ),
    "longer than the server takes": (
        UPDATES,
        {**NOISY, **PROTOTYPES, "clip_update": 100.0},
        "2066 components with this noise are up to .* long, .* accepts 1000; raise max_norm",
    ),
    "a prototype longer than the server takes": (
        UPDATES,
        {**NOISY, **PROTOTYPES, "clip_prototype": 1e5},
        "64 components with this noise are up to .* long, .* accepts 1e.06; lower clip_prototype",
    ),
}


def check(training: dict[str, Any], given: dict[str, Any], size: int = 2066) -> None:
    check_privacy(make_privacy(given), make_method(make_config(training)), size, 64, 1000.0)


@pytest.mark.parametrize("kind", IN_VAIN)
def test_settings_that_would_not_be_in_force_are_refused(kind: str) -> None:
    with pytest.raises(MotifairError, match=IN_VAIN[kind][2]):
        check(*IN_VAIN[kind][:2])


def test_a_method_that_sends_no_updates_has_none_to_clip() -> None:
    with pytest.raises(MotifairError, match="self-train sends no updates; remove clip_update"):
        check({"method": "self-train"}, {"clip_update": 1.0}, size=0)


def test_settings_that_are_in_force_pass() -> None:
    check(UPDATES, NOISY | PROTOTYPES)
    check(UPDATES, {"clip_update": 1.0})
    check({"alignment_against": "others", "size": "claimed"}, NOISY | PROTOTYPES)
    check({"trial_rounds": 0, "size": "claimed"}, NOISY | PROTOTYPES)
    check({}, {"clip_update": 1.0})
    check(UPDATES | {"prototype_weight": 0}, NOISY)
    check({"method": "fedavg"}, NOISY)
    check_privacy(Privacy(), make_method(make_config({"alignment_of": "gradient"})), 9, 64, 1.0)
    check_privacy(Privacy(), make_method(make_config({"alignment_against": "peers"})), 9, 64, 1.0)


def test_noise_without_an_accountant_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motifair.extras.find_spec", lambda name: None)
    check(UPDATES, {"clip_update": 1.0})
    with pytest.raises(MotifairError, match=r"pip install 'motifair\[privacy\]'"):
        check(UPDATES, NOISY | PROTOTYPES)


@settings(deadline=None)
@given(st.integers(1, 3000), st.floats(0.1, 50), st.integers(0, 99))
def test_noisy_updates_are_never_longer_than_the_length_that_is_checked(
    size: int, noise: float, round: int
) -> None:
    made = Privacy(clip_update=1.0, noise_update=noise, delta=1e-5)
    vector = np.full(size, 9, np.float32)
    update, _ = protect(vector, None, made, round_key(SECRET, "run", round))
    length = float(np.linalg.norm(update))  # type: ignore[arg-type]
    with pytest.raises(MotifairError, match="raise max_norm"):
        check_privacy(made, make_method(make_config({"method": "fedavg"})), size, 64, length)


def asked(task: str, round: int, newest: int) -> None:
    check_task(Download(run="r", round=round, agent="a", task=task, terms=""), 5, newest)


@pytest.mark.parametrize(
    ("task", "round", "newest"),
    [(JOIN, 0, -1), (JOIN, 0, 3), (TRAIN, 1, 0), (TRAIN, 5, 5), (TRAIN, 4, -1), (FINISH, 6, 5)],
)
def test_each_round_may_be_asked_for_once_in_order(task: str, round: int, newest: int) -> None:
    asked(task, round, newest)


@pytest.mark.parametrize(
    ("task", "round", "newest"),
    [(JOIN, 1, 0), (TRAIN, 0, -1), (TRAIN, 6, 5), (TRAIN, 2, 3), (FINISH, 3, 2), (FINISH, 7, 6)],
)
def test_what_the_statement_does_not_count_is_refused(task: str, round: int, newest: int) -> None:
    with pytest.raises(MotifairError, match="one answer more than the terms allow"):
        asked(task, round, newest)


# In a federation


def private_terms(**given: float) -> FederationTerms:
    made = {**NOISY, "clip_prototype": 50.0, "noise_prototype": 0.5} | given
    return make_terms(content_of(**UPDATES) | {"privacy": made})


def worlds(tmp_path: Path) -> tuple[World, World]:
    """The same federation, with and without noise, after its first round."""
    private = World(tmp_path / "a", private_terms())
    plain = World(tmp_path / "b", terms_of(**UPDATES))
    private.drive(rounds=1)
    plain.drive(rounds=1)
    return private, plain


def test_terms_say_what_is_protected_and_members_agree_to_it() -> None:
    terms = private_terms()
    assert terms.privacy == Privacy(0.1, 1.0, 50.0, 0.5, 1e-5)
    assert terms_of().privacy == Privacy()
    assert len({t.digest for t in (terms, terms_of(), private_terms(noise_update=2.0))}) == 3
    with pytest.raises(MotifairError, match="Prototypes would be sent without noise"):
        make_terms(content_of(**UPDATES) | {"privacy": NOISY})
    with pytest.raises(MotifairError, match="size=believed sends fingerprints"):
        make_terms(content_of() | {"privacy": NOISY})
    with pytest.raises(MotifairError, match=r"\[privacy\] has no 'noise'"):
        make_terms(content_of(**UPDATES) | {"privacy": {"noise": 1.0}})


def test_the_server_gets_nothing_that_is_not_protected(tmp_path: Path) -> None:
    private, plain = worlds(tmp_path)
    for name in NAMES:
        joined, trained = private.upload(name, 0), private.upload(name, 1)
        assert joined.prototypes is not None
        # These prototypes are shorter than 50: nothing is clipped, what differs is noise.
        noise = (joined.prototypes - plain.upload(name, 0).prototypes) / 25
        # Noise differs from run to run: six deviations, so that chance never fails the test.
        assert abs(noise.std() - 1) < 6 / math.sqrt(2 * noise.size)
        assert trained.update is not None
        deviation = np.std(trained.update) / 0.1
        assert abs(deviation - 1) < 6 / math.sqrt(2 * trained.update.size)
        assert (trained.loss, trained.gradient_norm) == (0.0, 0.0)
        assert plain.upload(name, 1).loss > 0


def test_an_agent_goes_on_from_its_own_step_not_from_the_noisy_one(tmp_path: Path) -> None:
    private, _ = worlds(tmp_path)
    for name in NAMES:
        kept = private.kept(name, 1)
        sent, step = opened(kept.answer).update, kept.state.weights[0] - kept.before[0]
        assert sent is not None
        assert float(step.norm()) < 0.1 < 1 < float(np.linalg.norm(sent))


def test_a_private_run_finishes_and_its_secrets_stay_apart(tmp_path: Path) -> None:
    world = World(tmp_path, private_terms())
    assert world.drive()
    assert all(line.status == "present" for entry in world.rounds() for line in entry.lines)
    made = [path.read_bytes() for path in tmp_path.rglob("noise.key")]
    assert len(set(made)) == len(made) == len(NAMES)


def test_the_same_task_gets_the_same_answer_even_if_the_first_one_is_lost(tmp_path: Path) -> None:
    world = World(tmp_path, private_terms())
    world.drive(rounds=1)
    task = world.tasks["bank-a", 1]
    answer = world.kept("bank-a", 1).answer
    assert world.site("bank-a")(task) == answer
    world.site("bank-a")._path(world.run, 1).unlink()
    assert world.site("bank-a")(task) == answer


def test_another_task_for_a_round_is_answered_only_if_the_answer_is_the_same(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, private_terms())
    world.drive(rounds=2)
    site, task = world.site("bank-a"), world.task("bank-a", 2)
    answer = world.kept("bank-a", 2).answer
    again = opened(site(replace(task, **OTHER_HEAD).encode()))
    assert replace(again, head=task.head).encode() == unseal(answer)[0]
    site(task.encode())
    assert task.reward is not None
    with pytest.raises(MotifairError, match="another answer would give more away"):
        site(replace(task, reward=-task.reward).encode())
    with pytest.raises(MotifairError, match="one answer more than the terms allow"):
        site(replace(world.task("bank-a", 1), **OTHER_HEAD).encode())
    assert world.kept("bank-a", 2).answer == answer


# Losses in the state folder, by what is deleted
OTHER_HEAD: Any = {"head": "0" * 64, "receipt": signer(key_of("operator"))(b"0" * 64).hex()}
LOSSES = {
    "key": ("trial-1/noise.key",),
    "rounds": ("trial-1/round-*",),
    "run": ("trial-1",),
    "key and heads": ("trial-1/noise.key", "heads.jsonl"),
    "all": (".",),
}


def lose(folder: Path, what: str) -> None:
    for pattern in LOSSES[what]:
        for path in [folder] if pattern == "." else list(folder.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A private run after its third round, of four."""
    world = World(tmp_path_factory.mktemp("answered"), private_terms())
    world.drive(rounds=3)
    return world


def after_loss(answered: World, folder: Path, what: str) -> World:
    world = World(folder, answered.terms, tasks=answered.tasks)
    shutil.copytree(answered.folder / "sites", folder / "sites")
    lose(folder / "sites" / "bank-a", what)
    return world


# An invitation after a loss of all cannot be told from a first one; docs/privacy.md says so.
@pytest.mark.parametrize(
    ("what", "round"),
    [(what, t) for what in LOSSES for t in (0, 1, 3) if (what, t) != ("all", 0)],
)
def test_a_private_run_whose_key_or_count_is_lost_is_not_answered_again(
    answered: World, tmp_path: Path, what: str, round: int
) -> None:
    """Each loss used to give another answer, with other noise."""
    world = after_loss(answered, tmp_path, what)
    task, site = answered.task("bank-a", round), world.site("bank-a")
    size = site.shared.stop - site.shared.start
    model = np.zeros(size, np.float32) if round else None  # as for an agent that lost its state
    before = sorted(site.folder.rglob("*"))
    with pytest.raises(MotifairError, match=r"of run trial-1.* is lost; .*: start a new run"):
        site(replace(task, weights=model, reward=None, **OTHER_HEAD).encode())
    assert sorted(site.folder.rglob("*")) == before


def test_another_run_gets_a_key_of_its_own_and_does_not_revive_the_lost_one(
    answered: World, tmp_path: Path
) -> None:
    world = after_loss(answered, tmp_path, "key")
    site, invitation = world.site("bank-a"), answered.task("bank-a", 0)
    assert opened(site(replace(invitation, run="trial-2").encode())).run == "trial-2"
    key = site.folder / "trial-2" / "noise.key"
    assert key.read_bytes() != (answered.site("bank-a").folder / "trial-1/noise.key").read_bytes()
    with pytest.raises(MotifairError, match="start a new run"):
        site(replace(invitation, **OTHER_HEAD).encode())


def test_a_lost_key_costs_its_owner_the_run_and_the_others_nothing(
    answered: World, tmp_path: Path
) -> None:
    world = World(tmp_path / "world", answered.terms)
    shutil.copytree(answered.folder, world.folder)
    lose(world.folder / "sites" / "bank-a", "key")
    assert world.drive()
    lines = {line.agent: line for line in world.rounds()[3].lines}
    assert lines["bank-a"].status == "absent"
    assert "the noise key of run trial-1" in lines["bank-a"].reason
    assert all(lines[name].status == "present" for name in NAMES[1:])


def test_an_agent_that_dies_while_it_joins_can_join_again(answered: World, tmp_path: Path) -> None:
    """The key is drawn before the first answer is kept."""
    site = World(tmp_path, answered.terms).site("bank-a")
    noise_secret(site.folder / "trial-1")
    assert opened(site(answered.tasks["bank-a", 0])).motifs


def test_without_noise_a_site_keeps_no_secret(tmp_path: Path) -> None:
    world = World(tmp_path, make_terms(content_of(**UPDATES) | {"privacy": {"clip_update": 0.01}}))
    world.drive(rounds=1)
    assert not list(tmp_path.rglob("noise.key"))
    for name in NAMES:
        update = world.upload(name, 1).update
        assert update is not None
        assert np.linalg.norm(update) == pytest.approx(0.01, rel=1e-5)
        assert world.upload(name, 1).loss > 0


def test_the_template_says_how_to_turn_noise_on() -> None:
    text = federation_toml("trial", NAMES, terms_of().schema)
    start, end = text.index("# [privacy]"), text.index("[schema]")
    section = re.sub(r"^# (?=\[|\w+ = )", "", text[start:end], flags=re.MULTILINE)
    noisy = tomllib.loads(text[:start] + section + text[end:])
    with pytest.raises(MotifairError) as refused:
        make_terms(noisy)
    setting = r'(size = "\w+"|trial_rounds = \d+)'
    said = re.findall(setting, str(refused.value))
    assert len(said) == 2
    assert said == re.findall(setting, section)
    noisy["training"] |= tomllib.loads("\n".join(said))
    assert "and remove [audit]" in section
    with pytest.raises(MotifairError, match=r"or remove \[audit\]"):
        make_terms(noisy)
    del noisy["audit"]
    assert make_terms(noisy).privacy.noisy
