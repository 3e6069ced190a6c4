"""Global prototypes of E11: who has a say in them, and when the previous one stays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import naive
from scipy import sparse
from torch import Tensor
from value_strategies import values

from motifair.bag_sum import BagSum
from motifair.motifs.prototypes import global_prototypes, prototype_distance

SIZE = 3


@dataclass(frozen=True)
class World:
    """Some agents own some of K motifs; `active` says which had a prototype before."""

    local: Tensor
    motif: Tensor
    agent: Tensor
    value: Tensor
    previous: Tensor
    active: Tensor

    def merged(self) -> tuple[Tensor, Tensor]:
        entries = len(self.motif)
        marks = (np.ones(entries), (self.motif.numpy(), np.arange(entries)))
        owners = sparse.csr_array(marks, shape=(len(self.active), entries))
        return global_prototypes(
            self.local,
            BagSum.of(owners),
            self.agent,
            self.value,
            self.previous,
            self.active,
        )

    def owners(self, k: int) -> Tensor:
        return self.motif == k


@st.composite
def worlds(draw: st.DrawFn) -> World:
    value = draw(values())
    motifs = draw(st.integers(1, 4))
    pairs = st.tuples(st.integers(0, len(value) - 1), st.integers(0, motifs - 1))
    owned = sorted(draw(st.sets(pairs, min_size=1)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    active = torch.tensor(draw(st.lists(st.booleans(), min_size=motifs, max_size=motifs)))
    previous = torch.randn(motifs, SIZE, generator=generator, dtype=torch.float64)
    return World(
        local=torch.randn(len(owned), SIZE, generator=generator, dtype=torch.float64),
        motif=torch.tensor([k for _, k in owned]),
        agent=torch.tensor([a for a, _ in owned]),
        value=value,
        previous=previous * active[:, None],
        active=active,
    )


@given(worlds())
def test_prototypes_are_the_naive_formula(world: World) -> None:
    local: list[dict[str, Tensor]] = [{} for _ in world.value]
    for c, k, a in zip(world.local, world.motif.tolist(), world.agent.tolist(), strict=True):
        local[a][str(k)] = c
    previous = {str(k): world.previous[k] for k in range(len(world.active)) if world.active[k]}
    expected = naive.aggregated_prototypes(local, world.value.tolist(), previous)
    found, active = world.merged()
    assert {str(k) for k in range(len(active)) if active[k]} == set(expected)
    for k, prototype in expected.items():
        assert torch.allclose(found[int(k)], prototype, rtol=0, atol=1e-9)


@given(worlds())
def test_a_prototype_lies_among_those_of_its_owners(world: World) -> None:
    found, _ = world.merged()
    for k in range(len(found)):
        counted = world.owners(k) & (world.value[world.agent] > 0)
        if counted.any():
            # In every direction, not only along the axes.
            for direction in torch.cat([torch.eye(SIZE), -torch.ones(1, SIZE)]).double():
                along = world.local[counted] @ direction
                assert along.min() - 1e-9 <= found[k] @ direction <= along.max() + 1e-9


@given(worlds())
def test_a_single_owner_of_positive_value_sets_the_prototype(world: World) -> None:
    found, _ = world.merged()
    for k in range(len(found)):
        counted = world.owners(k) & (world.value[world.agent] > 0)
        if counted.sum() == 1:
            assert torch.allclose(found[k], world.local[counted][0], rtol=0, atol=1e-9)


@given(worlds())
def test_agents_without_positive_value_have_no_say(world: World) -> None:
    before, _ = world.merged()
    world.local[world.value[world.agent] <= 0] += 100
    after, _ = world.merged()
    assert torch.equal(before, after)


@given(worlds())
def test_without_an_owner_of_positive_value_the_previous_prototype_stays(world: World) -> None:
    found, active = world.merged()
    for k in range(len(found)):
        if not (world.owners(k) & (world.value[world.agent] > 0)).any():
            assert torch.equal(found[k], world.previous[k])
            assert active[k] == world.active[k]


@given(worlds())
def test_agents_that_agree_get_what_they_have_and_no_distance(world: World) -> None:
    agreed = torch.randn(len(world.active), SIZE, generator=torch.Generator().manual_seed(0))
    world.local[:] = agreed.double()[world.motif]
    found, _ = world.merged()
    counted = world.value[world.agent] > 0
    assert torch.allclose(found[world.motif[counted]], world.local[counted], rtol=0, atol=1e-9)
    for kind in ("l2", "unit"):
        apart = prototype_distance(world.local, found[world.motif], kind)[counted]
        assert (apart < 1e-9).all()


@given(worlds(), st.data())
def test_prototypes_do_not_depend_on_the_order_of_entries(
    world: World, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(world.motif))))
    found, active = replace(
        world, local=world.local[order], motif=world.motif[order], agent=world.agent[order]
    ).merged()
    expected, expected_active = world.merged()
    assert torch.allclose(found, expected, rtol=0, atol=1e-9)
    assert torch.equal(active, expected_active)


def test_unit_distance_does_not_depend_on_scale_and_l2_does() -> None:
    local, reference = torch.tensor([[3.0, 4.0]]), torch.tensor([[4.0, 3.0]])
    unit = prototype_distance(local, reference, "unit")
    assert torch.isclose(unit, prototype_distance(10 * local, 0.1 * reference, "unit")).all()
    assert torch.isclose(unit, torch.tensor(2**0.5 / 5)).all()
    assert prototype_distance(local, torch.zeros(1, 2), "l2").item() == 5
    assert prototype_distance(10 * local, torch.zeros(1, 2), "l2").item() == 50
