"""The training graphs of agents, batch after batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from motifair.graphs.batch import Batch, Shard, collate
from motifair.graphs.minibatch import Stack
from motifair.learning.randomness import fold, order

_SHUFFLE = 1


class Loader:
    """The training graphs of a stack of agents, batch after batch.

    An agent whose graphs fit one batch is collated once. Others are shuffled in every epoch, by
    their own keys. In a stack an agent that has run out of batches gets empty ones.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        batch_size: int,
        device: torch.device,
        dtype: torch.dtype,
        *,
        layers: int = 0,
    ) -> None:
        self.sizes, self.batch_size = [len(s) for s in shards], batch_size
        self.full = collate(shards, device, dtype, layers=layers)
        self.stack = None if max(self.sizes) <= batch_size else Stack(shards, device, dtype)
        self._all = torch.ones(len(shards), dtype=torch.bool, device=device)

    def epoch(self, keys: Tensor, epoch: int) -> Iterator[tuple[Batch, Tensor]]:
        """Yield batches and which rows have something in them."""
        if self.stack is None:
            yield self.full, self._all
            return
        keys = fold(keys, _SHUFFLE, epoch)
        orders = [
            order(k, n) if n > self.batch_size else torch.arange(n, device=keys.device)
            for k, n in zip(keys, self.sizes, strict=True)
        ]
        # All orders at once: each transfer would wait for the device.
        places = torch.split(torch.cat(orders).cpu(), self.sizes)
        chosen = [p.numpy() + f for p, f in zip(places, self.stack.first[:-1], strict=True)]
        for start in range(0, max(self.sizes), self.batch_size):
            now = [c[start : start + self.batch_size] for c in chosen]
            batch = self.stack.cut(now)
            yield batch, batch.graph_weight[:, 0] > 0
