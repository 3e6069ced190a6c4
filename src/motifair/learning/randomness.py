"""Random bits as a pure function of (seed, agent, round, step, layer, index).

Nothing is drawn in order, so an agent's bits do not depend on who else is in the stack, on the
number of workers, or on the device: the arithmetic is 64-bit integer arithmetic everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

_ODD = -7046029254386353131  # 2^64 / golden ratio, the usual increment of SplitMix64


def stream_keys(seed: int, agents: Sequence[str], device: torch.device) -> Tensor:
    """Return one 64-bit key for each agent, `(A,)`, from the seed and the agent's name."""
    keys = [
        int.from_bytes(hashlib.blake2b(f"{seed}/{a}".encode(), digest_size=8).digest(), "big")
        for a in agents
    ]
    return torch.tensor([k - (1 << 64) if k >> 63 else k for k in keys], device=device)


def derive_seed(seed: int, purpose: str) -> int:
    """Return another seed for another purpose, such as the retest of a baseline."""
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


def mix(x: Tensor) -> Tensor:
    """Scramble 64-bit integers (the finaliser of SplitMix64)."""
    x = (x ^ _shift(x, 30)) * -4658895280553007687
    x = (x ^ _shift(x, 27)) * -7723592293110705685
    return x ^ _shift(x, 31)


def fold(keys: Tensor, *counters: int | Tensor) -> Tensor:
    """Derive keys from keys and counters, one after another."""
    for counter in counters:
        keys = mix(keys + torch.as_tensor(counter + 1, device=keys.device) * _ODD)
    return keys


def random_words(keys: Tensor, count: int) -> Tensor:
    """Return `count` 64-bit words for each key, `(R,) -> (R, count)`."""
    index = torch.arange(1, count + 1, device=keys.device) * _ODD
    return mix(keys[:, None] + index)


def order(key: Tensor, n: int) -> Tensor:
    """Return a random order of n things for one key."""
    return torch.argsort(random_words(key.reshape(1), n)[0], stable=True)


class DropoutMasks:
    """Scaled dropout masks from keyed bits: a byte of bits serves eight units at rate ½, else one.

    Rates other than ½ are met to 1/256.
    """

    def __init__(self, rate: float, dtype: torch.dtype, device: torch.device) -> None:
        byte = torch.arange(256)
        if rate == 0.5:
            table = (byte[:, None] >> torch.arange(8)) & 1
        else:
            table = (byte >= round(256 * rate))[:, None].long()
        self.rate = rate
        self.table = (table.double() / (1 - rate)).to(dtype=dtype, device=device)

    def __call__(self, keys: Tensor, layers: range, n: int, hidden: int) -> list[Tensor]:
        """Return for each layer a mask `(R, n, hidden)` whose entries are 0 or 1/(1-rate)."""
        number = torch.arange(layers.start, layers.stop, device=keys.device)
        layer_keys = fold(keys[None, :], number[:, None]).reshape(-1)
        units = self.table.shape[1]
        words = -(-n * hidden // (8 * units))
        byte = random_words(layer_keys, words).view(torch.uint8).reshape(-1).int()
        mask = self.table.index_select(0, byte).view(len(layers), len(keys), -1)
        return [m[:, : n * hidden].view(len(keys), n, hidden) for m in mask]


def _shift(x: Tensor, bits: int) -> Tensor:
    """Shift right without carrying the sign along."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
