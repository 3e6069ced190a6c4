"""Random bits as a pure function of (seed, agent, round, step, layer, index).

Nothing is drawn in order, so an agent's bits do not depend on who else is in the stack, on the
number of workers, or on the device: the arithmetic is 64-bit integer arithmetic everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from motifair.kernels import mix, random_words

__all__ = ["DropoutBits", "derive_seed", "fold", "order", "random_words", "stream_keys"]


def stream_keys(seed: int, agents: Sequence[str], device: torch.device) -> Tensor:
    """Return one 64-bit key for each agent, `(A,)`, from the seed and the agent's name."""
    keys = [
        int.from_bytes(hashlib.blake2b(f"{seed}/{a}".encode(), digest_size=8).digest(), "big")
        for a in agents
    ]
    return torch.tensor([k - (1 << 64) if k >> 63 else k for k in keys], device=device)


def derive_seed(seed: int, purpose: str) -> int:
    """Return a seed for another purpose that shares no bits with `seed`'s own use.

    Training alone, training alone again, and the own models of a federation have one each.
    """
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


def fold(keys: Tensor, *counters: int | Tensor) -> Tensor:
    """Derive keys from keys and counters, one after another."""
    for counter in counters:
        keys = mix(keys, counter)
    return keys


def order(key: Tensor, n: int) -> Tensor:
    """Return a random order of n things for one key."""
    return torch.argsort(random_words(key.reshape(1), n)[0], stable=True)


class DropoutBits:
    """Keyed bits that say which units dropout keeps, 64 to a word.

    At rate ½ a random bit serves one unit; otherwise a random byte does, so that the rate is met
    to 1/256.
    """

    def __init__(self, rate: float, device: torch.device) -> None:
        self.rate, self.scale = rate, 1 / (1 - rate)
        self.place = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=device)

    def __call__(self, keys: Tensor, units: Sequence[int]) -> list[Tensor]:
        """Return for each layer the bits of its units in every row, `(R, words)`."""
        words = [-(-n // 64) for n in units]
        layer_keys = fold(keys, torch.arange(len(units), device=keys.device)[:, None])
        bits = self.draw(layer_keys.flatten(), max(words)).view(len(units), len(keys), -1)
        return [b[:, :n] for b, n in zip(bits, words, strict=True)]

    def draw(self, keys: Tensor, words: int) -> Tensor:
        """Return bits for each key, `(K, words)`."""
        if self.rate == 0.5:
            return random_words(keys, words)
        byte = random_words(keys, 8 * words).view(torch.uint8)
        kept = (byte >= round(256 * self.rate)).view(len(keys), -1, 8)
        return (kept * self.place).sum(dim=-1, dtype=torch.uint8).view(torch.int64)
