"""Dropout masks from keyed bits: the right rate, and nobody else's business."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from worlds import unpack_bits

from motifair.learning.randomness import DropoutBits, fold, stream_keys

CPU = torch.device("cpu")
HIDDEN = 24
RATES = pytest.mark.parametrize("rate", [0.5, 0.3])


def drawn(
    rate: float, keys: Tensor, n: int, layers: range = range(1), hidden: int = HIDDEN
) -> list[Tensor]:
    dropout = DropoutBits(rate, CPU)
    bits = dropout(keys, [n * hidden] * layers.stop)
    return [unpack_bits(b, (n, hidden)).double() * dropout.scale for b in bits[layers.start :]]


def agents(*names: str) -> Tensor:
    return stream_keys(11, names, CPU)


def correlation(a: Tensor, b: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1])


@RATES
def test_the_share_of_dropped_units_is_close_to_the_rate(rate: float) -> None:
    (mask,) = drawn(rate, agents("a", "b"), 2000)
    dropped = (mask == 0).double()
    assert (dropped.mean(dim=(1, 2)) - rate).abs().max() < 0.01
    assert (dropped.mean(dim=(0, 1)) - rate).abs().max() < 0.04


@RATES
def test_kept_units_are_scaled_so_that_the_mean_stays(rate: float) -> None:
    (mask,) = drawn(rate, agents("a"), 2000)
    assert set(mask.unique().tolist()) == {0.0, 1 / (1 - rate)}
    assert abs(mask.mean() - 1) < 0.02


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.7, 0.9])
def test_other_rates_are_met_to_one_in_256(rate: float) -> None:
    (mask,) = drawn(rate, agents("a"), 5000)
    assert abs((mask == 0).double().mean() - rate) < 1 / 256 + 0.005


def test_masks_of_a_seed_are_what_they_always_were() -> None:
    keys = stream_keys(7, ["agent-0"], CPU)
    half = drawn(0.5, keys, 4, range(2), hidden=8)
    assert [as_text(m) for m in half] == [
        "11011111100011100100100100001011",
        "10011010100010101100110011101001",
    ]
    (other,) = drawn(0.3, keys, 4, hidden=8)
    assert as_text(other) == "11111111111110110111010001111110"


def as_text(mask: Tensor) -> str:
    return "".join("1" if unit > 0 else "0" for unit in mask.flatten().tolist())


@RATES
def test_an_agents_mask_does_not_depend_on_who_else_is_in_the_stack(rate: float) -> None:
    (together,) = drawn(rate, agents("a", "b", "c"), 31)
    for row, name in enumerate("abc"):
        (alone,) = drawn(rate, agents(name), 31)
        assert torch.equal(together[row], alone[0])
    (reordered,) = drawn(rate, agents("c", "a"), 31)
    assert torch.equal(reordered, together[[2, 0]])


@RATES
@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_an_agents_mask_does_not_depend_on_padding(rate: float, n: int) -> None:
    keys = agents("a", "b")
    (own,), (padded,) = drawn(rate, keys, n), drawn(rate, keys, 31)
    assert torch.equal(own, padded[:, :n])


@RATES
def test_a_layers_mask_does_not_depend_on_which_layers_are_drawn_with_it(rate: float) -> None:
    keys = agents("a", "b")
    together = drawn(rate, keys, 13, range(4))
    for layer in range(4):
        (single,) = drawn(rate, keys, 13, range(layer, layer + 1))
        assert torch.equal(together[layer], single)


@RATES
def test_another_agent_round_step_or_layer_has_an_unrelated_mask(rate: float) -> None:
    def mask(name: str = "a", round: int = 1, step: int = 0, layer: int = 0) -> Tensor:
        keys = fold(agents(name), round, step)
        return drawn(rate, keys, 500, range(layer, layer + 1))[0]

    base = mask()
    for other in (mask("b"), mask(round=2), mask(step=1), mask(layer=1), mask(round=0, step=1)):
        assert abs(correlation(base, other)) < 0.05


@RATES
def test_neighbouring_units_are_dropped_independently(rate: float) -> None:
    (mask,) = drawn(rate, agents("a"), 2000)
    flat = mask.flatten()
    for distance in (1, 2, 7, 8, HIDDEN, 64):
        assert abs(correlation(flat[:-distance], flat[distance:])) < 0.03


def test_a_network_may_have_any_number_of_layers() -> None:
    found = DropoutBits(0.5, CPU)(agents("a", "b"), [128] * 100)
    assert len(found) == 100
    assert len({tuple(bits[0].tolist()) for bits in found}) == 100
