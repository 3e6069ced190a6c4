"""A flat row of weights and its names."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from oracles import baseline_models, naive

from motifair.graphs.features import DEGREES, WALKS
from motifair.models import GIN, SAGE, Layout, Model, Star

SMALL = Layout(
    names=("pre.weight", "pre.bias", "convs.0.weight", "convs.1.weight", "post.bias"),
    shapes=((2, 3), (3,), (3, 4), (1, 5), (6,)),
)
MODEL = GIN(width=3, classes=2, hidden=64, layers=3)


def test_a_model_for_proteins_has_29506_parameters_of_which_24960_are_convolutions() -> None:
    assert MODEL.layout.size == 29_506
    convolutions = MODEL.layout.shared("conv")
    assert convolutions.stop - convolutions.start == 24_960


def test_names_and_shapes_are_those_of_the_plain_model() -> None:
    plain = naive.GIN(features=3, classes=2, hidden=64, layers=3)
    expected = {name: tuple(p.shape) for name, p in plain.named_parameters()}
    state = MODEL.layout.to_state_dict(MODEL.layout.initial(0, torch.float32))
    assert {name: tuple(p.shape) for name, p in state.items()} == expected
    assert list(state) == list(expected)


def test_unpacked_stacks_name_every_part_of_every_row() -> None:
    rows = torch.arange(2.0 * SMALL.size).view(2, -1)
    parts = SMALL.unpack(rows)
    assert parts["pre.weight"].tolist()[0] == [[0, 1, 2], [3, 4, 5]]
    assert parts["pre.bias"].tolist() == [[6, 7, 8], [38, 39, 40]]
    assert parts["convs.1.weight"].shape == (2, 1, 5)
    assert torch.equal(torch.cat([p.flatten(1) for p in parts.values()], dim=1), rows)


def test_gradients_flow_back_through_unpacking() -> None:
    rows = torch.zeros(2, SMALL.size, requires_grad=True)
    SMALL.unpack(rows)["convs.0.weight"][1].sum().backward()
    assert rows.grad is not None
    expected = torch.zeros(2, SMALL.size)
    expected[1, 9:21] = 1
    assert torch.equal(rows.grad, expected)


def test_a_span_covers_the_parts_that_start_alike() -> None:
    assert SMALL.span("pre.") == slice(0, 9)
    assert SMALL.span("convs.") == slice(9, 26)
    assert SMALL.span("convs.1") == slice(21, 26)
    assert SMALL.span("post") == slice(26, 32)


def test_what_is_shared_is_everything_convolutions_or_nothing() -> None:
    assert SMALL.shared("all") == slice(0, 32)
    assert SMALL.shared("conv") == slice(9, 26)
    assert SMALL.shared("none") == slice(0, 0)


def test_tensor_sizes_are_those_inside_the_part() -> None:
    assert SMALL.tensor_sizes(SMALL.shared("all")) == (6, 3, 12, 5, 6)
    assert SMALL.tensor_sizes(SMALL.shared("conv")) == (12, 5)
    assert SMALL.tensor_sizes(SMALL.shared("none")) == ()
    assert MODEL.layout.tensor_sizes(MODEL.layout.shared("conv")) == (4096, 64) * 6


def test_a_state_dict_holds_matrices_the_other_way_round() -> None:
    row = torch.arange(float(SMALL.size))
    state = SMALL.to_state_dict(row)
    assert state["pre.weight"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert state["pre.bias"].tolist() == [6, 7, 8]


@pytest.mark.parametrize("layout", [SMALL, MODEL.layout])
def test_a_row_survives_the_way_through_a_state_dict(layout: Layout) -> None:
    row = torch.arange(float(layout.size))
    assert torch.equal(layout.from_state_dict(layout.to_state_dict(row)), row)


def test_a_state_dict_is_a_copy() -> None:
    row = torch.arange(float(SMALL.size))
    for part in SMALL.to_state_dict(row).values():
        part.zero_()
    assert torch.equal(row, torch.arange(float(SMALL.size)))


def test_initial_weights_fill_the_range_of_a_linear_layer() -> None:
    parts = MODEL.layout.unpack(MODEL.layout.initial(0, torch.float64)[None])
    for name, part in parts.items():
        inputs = 3 if name.startswith("pre.") else 64
        bound = inputs**-0.5
        assert part.abs().max() <= bound
        if part.numel() > 50:  # of fewer numbers none may come close to the ends
            assert part.min() < -0.9 * bound
            assert part.max() > 0.9 * bound


@pytest.mark.parametrize(
    ("model", "plain"),
    [
        (GIN, naive.GIN),
        (SAGE, baseline_models.SAGE),
        (Star, lambda f, c: baseline_models.FedStar(f, WALKS + DEGREES, c)),
    ],
    ids=["gin", "sage", "star"],
)
def test_initial_weights_are_distributed_as_those_of_the_plain_modules(
    model: type[Model], plain: Callable[[int, int], torch.nn.Module]
) -> None:
    layout, draws = model(width=3, classes=2, hidden=64, layers=3).layout, range(20)
    ours = [layout.to_state_dict(layout.initial(seed, torch.float64)) for seed in draws]
    torch.manual_seed(0)
    theirs = [dict(plain(3, 2).named_parameters()) for _ in draws]
    for name in layout.names:
        one = torch.stack([state[name] for state in ours])
        other = torch.stack([state[name].detach() for state in theirs]).double()
        assert torch.isclose(one.abs().max(), other.abs().max(), rtol=0.1), name
        assert torch.isclose(one.std(), other.std(), rtol=0.2), name


def test_initial_weights_are_the_seeds_own() -> None:
    layout = MODEL.layout
    assert torch.equal(layout.initial(4, torch.float64), layout.initial(4, torch.float64))
    assert not torch.isclose(
        layout.initial(4, torch.float64), layout.initial(5, torch.float64)
    ).all()
    assert torch.equal(layout.initial(4, torch.float64).float(), layout.initial(4, torch.float32))


def test_initial_weights_do_not_touch_the_global_generator() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    MODEL.layout.initial(4, torch.float32)
    assert torch.equal(torch.rand(3), expected)
