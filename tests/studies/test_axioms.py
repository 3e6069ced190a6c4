"""Axioms that pay keeps for any federation, and counterexamples to those that it does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from motifair.studies import axioms
from motifair.studies.axioms import RULES, SEED, TOLERANCE, Axiom, draw, paid, total
from motifair.studies.study import Settings

DEFAULT = RULES["default"]
KEPT = (
    axioms.budget_balance,
    axioms.null_member,
    axioms.symmetry,
    axioms.monotony,
)


@pytest.mark.parametrize("axiom", KEPT, ids=lambda a: a.__name__)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=12, deadline=None)
def test_the_default_keeps_an_axiom(axiom: Axiom, seed: int) -> None:
    assert axiom(DEFAULT, np.random.default_rng(seed)) <= TOLERANCE


@given(seed=st.integers(0, 2**32))
@settings(max_examples=12, deadline=None)
def test_duplicating_brings_next_to_nothing(seed: int) -> None:
    """Copies count once, but that they are claimed makes a model's merit less likely chance."""
    assert axioms.no_gain_duplicating(DEFAULT, np.random.default_rng(seed)) < 0.01


def test_models_alone_are_judged_by_the_others() -> None:
    """A member whose model points away from the others' graphs is told so, by all but itself."""
    world = draw(np.random.default_rng(0))
    world = replace(world, moves=world.moves + 5)

    def sent(member: int, update: Tensor) -> Tensor:
        return -update if member == 0 else update

    judgement = axioms.judged(world, sent)
    own = torch.eye(len(world.held), dtype=torch.bool)
    assert bool(judgement.told[own].isnan().all())
    assert bool((judgement.told[0, 1:] < 0).all())
    rest = judgement.told[1:][~own[1:]]
    assert bool((rest > 0).all())
    assert float(judgement.loss[0, 1:].min()) > float(judgement.loss[1:][~own[1:]].max())
    assert paid(DEFAULT, world, sent)[:, 0].max() <= 0


@pytest.mark.parametrize("rule", ["paper", "0.1"])
def test_names_are_paid_where_every_name_begins_with_an_equal_value(rule: str) -> None:
    """Counterexamples: two names for one member's graphs are paid more than the one."""
    for axiom in (axioms.no_gain_splitting, axioms.no_gain_two_names):
        assert axiom(RULES[rule], np.random.default_rng(SEED)) > 0.05


def test_noise_is_paid_next_to_nothing() -> None:
    """Of members that have little in common it may be a few thousandths, by chance."""
    found = [axioms.noise_unpaid(DEFAULT, np.random.default_rng(SEED + k)) for k in range(20)]
    assert max(found) < 0.05
    assert float(np.mean(found)) < 0.005


@given(seed=st.integers(0, 2**32))
@settings(max_examples=12, deadline=None)
def test_names_gain_nearly_nothing_where_the_first_round_sets_the_values(seed: int) -> None:
    """Unless a cap on sizes binds, which several names evade, or members have little in common:
    so all have about equally many graphs here, which move the model in much the same direction.
    """
    rng = np.random.default_rng(seed)
    world = draw(rng)
    common = 2 * rng.standard_normal(world.moves.shape[1:])
    held = tuple(own[:4] for own in world.held)
    world = replace(world, moves=world.moves + common, held=held)
    own = rng.permutation(world.held[0])
    for changed in (world.with_held(0, own[::2], own[1::2]), world.with_held(0, own, own)):
        honest, several = total(DEFAULT, world)[0], total(DEFAULT, changed)
        assert several[0] + several[-1] - honest < 0.02


def test_a_size_cap_is_evaded_by_splitting() -> None:
    """Counterexample: a member far above the median is capped under one name and not under two."""
    world = draw(np.random.default_rng(0))
    small = [own[:2] for own in world.held[1:]]
    world = replace(world, held=(np.concatenate([world.held[0], *(o[2:] for o in world.held[1:])]),
                                 *small))  # fmt: skip
    own = world.held[0]
    honest, several = (
        total(DEFAULT, world)[0],
        total(DEFAULT, world.with_held(0, own[::2], own[1::2])),
    )
    assert several[0] + several[-1] > honest + 0.05


def test_pay_is_of_the_rounds_and_members_that_there_are() -> None:
    world = draw(np.random.default_rng(1))
    pay = paid(DEFAULT, world)
    assert pay.shape == (axioms.ROUNDS, len(world.held))
    more, copies = world.copies_of(world.held[0], same=True)
    np.testing.assert_array_equal(more.same[copies], world.same[world.held[0]])
    new, others = world.copies_of(world.held[0], same=False)
    assert not set(new.same[others]) & set(world.same)


@pytest.mark.slow
def test_the_study_says_which_axioms_hold(tmp_path: object) -> None:
    found = axioms.run(Settings(out=tmp_path, splits=2)).tables["axioms"]  # type: ignore[arg-type]
    assert len(found) == len(axioms.AXIOMS) * len(RULES)
    holds = found.set_index(["axiom", "rule"])["holds"]
    for axiom in KEPT:
        assert holds[axiom.__name__.replace("_", " "), "default"] == "yes"
    assert holds["no gain splitting", "0.1"] == "no"
    assert (found["tried"] == 2).all()
