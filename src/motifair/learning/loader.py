"""`Loader`: the training batches of a stack of agents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from motifair.graphs.batch import Batch, Shard, collate, repeat
from motifair.graphs.epochs import Epochs
from motifair.graphs.minibatch import Stack
from motifair.learning.randomness import fold, order, orders

_SHUFFLE = 1


class Loader:
    """The training batches of a stack of agents.

    If the graphs of every agent fit into one batch, they are collated once. Otherwise agents with
    more graphs are shuffled in every epoch, by their own keys, and agents with fewer batches than
    others get empty ones at the end. With `steps` an epoch is the first so many of these batches.

    Args:
        shards: The training graphs of each agent.
        batch_size: Largest number of graphs of an agent in a batch.
        device: Where batches are stored.
        dtype: Type of their floating-point tensors.
        layers: See `collate`.
        steps: Most batches in an epoch; 0 is as many as there are.
        copies: How many models of each agent are trained on its graphs, all of them in one batch.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        batch_size: int,
        device: torch.device,
        dtype: torch.dtype,
        *,
        layers: int = 0,
        steps: int = 0,
        copies: int = 1,
    ) -> None:
        self.sizes, self.batch_size = [len(s) for s in shards], batch_size
        self.steps = steps or None
        self.full = collate(shards, device, dtype, layers=layers)
        if copies > 1:
            assert max(self.sizes) <= batch_size, "copies are trained in one batch"
            self.full = repeat(self.full, copies)
        self.stack: Stack | Epochs | None = None
        if max(self.sizes) > batch_size:
            self.stack = (
                Stack(shards, dtype)
                if device.type == "cpu"
                else Epochs(shards, batch_size, device, dtype)
            )
        self._all = torch.ones(self.full.rows, dtype=torch.bool, device=device)

    def epoch(self, keys: Tensor, epoch: int) -> Iterator[tuple[Batch, Tensor]]:
        """Yield the batches of an epoch, each with the mask `(R,)` of agents that have graphs."""
        if self.stack is None:
            yield self.full, self._all
            return
        keys = fold(keys, _SHUFFLE, epoch)
        for batch in islice(self._cut(self.stack, keys), self.steps):
            yield batch, batch.graph_weight[:, 0] > 0

    def _cut(self, stack: Stack | Epochs, keys: Tensor) -> Iterable[Batch]:
        if isinstance(stack, Epochs):
            sizes = stack.first[1:] - stack.first[:-1]
            return stack.cut(orders(keys, sizes, sizes > self.batch_size, max(self.sizes)))
        places = [
            order(k, n) if n > self.batch_size else torch.arange(n)
            for k, n in zip(keys, self.sizes, strict=True)
        ]
        chosen = [p.numpy() + f for p, f in zip(places, stack.first[:-1], strict=True)]
        starts = range(0, max(self.sizes), self.batch_size)
        return (stack.cut([c[s : s + self.batch_size] for c in chosen]) for s in starts)
