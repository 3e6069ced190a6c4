"""Keyed random words: a stream that can never change silently."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from motifair.learning.randomness import derive_seed, fold, order, random_words, stream_keys

CPU = torch.device("cpu")
NAMES = ["agent-0", "bank-é"]
words = st.integers(-(2**63), 2**63 - 1)


def signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def test_words_of_a_key_are_the_published_stream_of_splitmix64() -> None:
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert random_words(torch.tensor([1234567]), 5).tolist() == [[signed(w) for w in published]]


def test_keys_and_words_of_a_seed_are_what_they_always_were() -> None:
    keys = stream_keys(7, NAMES, CPU)
    assert keys.tolist() == [-7424476508848177361, 4464441346465173670]
    folded = fold(keys, 3, 2, 0)
    assert folded.tolist() == [-2955547646150432618, 7634236247004628325]
    assert random_words(folded[:1], 3).tolist() == [
        [-8891904392608907300, -4349893796669038160, 6800690235891988740]
    ]
    assert order(keys[0], 10).tolist() == [3, 2, 9, 4, 7, 8, 5, 1, 0, 6]
    assert derive_seed(5, "retest") == 2782031295


def test_an_agents_key_depends_on_its_name_and_the_seed_only() -> None:
    alone = stream_keys(7, NAMES[1:], CPU)
    assert alone[0] == stream_keys(7, NAMES, CPU)[1]
    drawn = {int(stream_keys(s, [n], CPU)[0]) for s in range(20) for n in (*NAMES, "1", "11")}
    assert len(drawn) == 80


def test_a_fold_by_several_counters_is_one_fold_after_another() -> None:
    keys = stream_keys(0, NAMES, CPU)
    assert torch.equal(fold(keys, 4, 9), fold(fold(keys, 4), 9))
    assert not torch.equal(fold(keys, 4, 9), fold(keys, 9, 4))


def test_a_tensor_of_counters_folds_like_each_of_them() -> None:
    keys = stream_keys(0, NAMES, CPU)
    grid = fold(keys[None, :], torch.arange(3)[:, None])
    assert torch.equal(grid, torch.stack([fold(keys, c) for c in range(3)]))


def test_keys_of_many_rounds_purposes_and_steps_are_all_distinct() -> None:
    keys = stream_keys(0, NAMES, CPU)
    drawn = [fold(keys, t, p, s) for t in range(30) for p in range(3) for s in range(10)]
    assert len(set(torch.cat(drawn).tolist())) == 2 * 30 * 3 * 10


@given(words, st.integers(0, 60), st.integers(0, 60))
def test_the_first_words_do_not_depend_on_how_many_are_drawn(key: int, few: int, more: int) -> None:
    keys = torch.tensor([key])
    assert torch.equal(random_words(keys, few + more)[:, :few], random_words(keys, few))


@given(words, st.integers(1, 300))
def test_an_order_is_a_permutation(key: int, n: int) -> None:
    assert sorted(order(torch.tensor(key), n).tolist()) == list(range(n))


def test_every_place_is_as_likely_as_another_to_come_first() -> None:
    keys = random_words(stream_keys(0, NAMES[:1], CPU), 6000)[0]
    first = torch.tensor([order(k, 6)[0] for k in keys])
    share = torch.bincount(first, minlength=6) / 6000
    assert (share - 1 / 6).abs().max() < 0.02


def test_every_bit_is_as_often_set_as_not() -> None:
    drawn = random_words(stream_keys(0, NAMES, CPU), 10_000).flatten()
    share = torch.stack([((drawn >> b) & 1).double().mean() for b in range(64)])
    assert (share - 0.5).abs().max() < 0.02


def test_another_purpose_has_another_seed() -> None:
    assert len({derive_seed(s, p) for s in range(50) for p in ("retest", "partition")}) == 100
