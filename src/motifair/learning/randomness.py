"""Counter-based random bits: a pure function of (seed, agent, round, step, layer, index).

There is no generator state, so an agent's bits do not depend on the other agents in the stack, on
the number of workers, or on the device: all arithmetic is on 64-bit integers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from motifair.kernels import mix, random_words

__all__ = [
    "DropoutBits", "derive_seed", "fold", "order", "orders", "random_words", "stream_keys",
]  # fmt: skip


def stream_keys(seed: int, agents: Sequence[str], device: torch.device) -> Tensor:
    """Return one 64-bit key for each agent, `(A,)`, from the seed and the agent's name."""
    keys = [
        int.from_bytes(hashlib.blake2b(f"{seed}/{a}".encode(), digest_size=8).digest(), "big")
        for a in agents
    ]
    return torch.tensor([k - (1 << 64) if k >> 63 else k for k in keys], device=device)


def derive_seed(seed: int, purpose: str) -> int:
    """Return an independent seed for a purpose, such as training alone or the own models."""
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


def fold(keys: Tensor, *counters: int | Tensor) -> Tensor:
    """Derive keys from keys and counters, folded in one after another."""
    for counter in counters:
        keys = mix(keys, counter)
    return keys


def order(key: Tensor, n: int) -> Tensor:
    """Return a random permutation of n for one key."""
    return torch.argsort(random_words(key.reshape(1), n)[0], stable=True)


def orders(keys: Tensor, sizes: Tensor, shuffled: Tensor, largest: int) -> Tensor:
    """Return `order` of each key and size, or 0, 1, ... if not `shuffled`, `(R, largest)`.

    What follows beyond a row's size has no meaning.

    >>> keys, sizes, shuffled = torch.tensor([5, 5]), torch.tensor([3, 4]), torch.tensor([1, 0]) > 0
    >>> found = orders(keys, sizes, shuffled, largest=4)
    >>> torch.equal(found[0, :3], order(keys[0], 3)), found[1].tolist()
    (True, [0, 1, 2, 3])
    """
    place = torch.arange(largest, device=keys.device)
    words = torch.where(shuffled[:, None], random_words(keys, largest), place)
    beyond = torch.iinfo(torch.int64).max
    return torch.argsort(torch.where(place < sizes[:, None], words, beyond), dim=1, stable=True)


class DropoutBits:
    """Draws keyed dropout masks: one bit per unit, 64 units to a word.

    At rate ½ each unit uses one random bit; otherwise it uses one random byte, so that the rate is
    a multiple of 1/256. Kept units are multiplied by `scale`.
    """

    def __init__(self, rate: float, device: torch.device) -> None:
        self.rate, self.scale = rate, 1 / (1 - rate)
        self.place = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=device)

    def __call__(self, keys: Tensor, units: Sequence[int]) -> list[Tensor]:
        """Return the masks of every layer, `(R, words)`, given its number of units per row."""
        words = [-(-n // 64) for n in units]
        layer_keys = fold(keys, torch.arange(len(units), device=keys.device)[:, None])
        bits = self.draw(layer_keys.flatten(), max(words)).view(len(units), len(keys), -1)
        return [b[:, :n] for b, n in zip(bits, words, strict=True)]

    def draw(self, keys: Tensor, words: int) -> Tensor:
        """Return mask bits for each key, `(K, words)`."""
        if self.rate == 0.5:
            return random_words(keys, words)
        byte = random_words(keys, 8 * words).view(torch.uint8)
        kept = (byte >= round(256 * self.rate)).view(len(keys), -1, 8)
        return (kept * self.place).sum(dim=-1, dtype=torch.uint8).view(torch.int64)
