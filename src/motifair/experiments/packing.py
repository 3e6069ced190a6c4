"""Pack federations into stacks that fit into the memory of a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

import numpy as np

from motifair.config import Config
from motifair.federation.members import Members
from motifair.methods import make_method

T = TypeVar("T")


def pack(
    items: Iterable[T], *, shape: Callable[[T], Hashable], need: Callable[[T], int], memory: int
) -> Iterator[list[T]]:
    """Group items of equal shape into stacks that fit into `memory`, in the order of `items`.

    Args:
        items: The federations, consumed lazily.
        shape: Returns what all items of a stack must have in common.
        need: Returns the bytes that an item needs.
        memory: Bytes for a stack; an item that needs more is a stack of its own. With 0, as on a
            CPU, so is every item.

    >>> list(pack(["a", "bb", "c", "dd"], shape=len, need=len, memory=2))
    [['bb'], ['a', 'c'], ['dd']]
    >>> list(pack(["a", "bb", "c"], shape=len, need=len, memory=0))
    [['a'], ['bb'], ['c']]
    """
    waiting: dict[Hashable, tuple[list[T], int]] = {}
    for item in items:
        if not memory:
            yield [item]
            continue
        key, size = shape(item), need(item)
        stack, used = waiting.get(key, ([], 0))
        if stack and used + size > memory:
            yield stack
            stack, used = [], 0
        waiting[key] = [*stack, item], used + size
    for stack, _ in waiting.values():
        yield stack


def memory_needed(config: Config, members: Members) -> int:
    """Estimate the bytes that a federation needs on a device, as an upper bound.

    Activations of the nodes in the largest possible batch: three tensors per layer are stored for
    the backward pass, and about as many are temporary; for prototypes, some of all nodes. Weights,
    moments, gradients and the tensors of the server. The graphs, and the maps of all batches of an
    epoch: twice where own models are not trained on all graphs.
    """
    given = () if members.given is None else (members.given.shard,)
    shards = (*members.train, *given)
    batches = [int(np.sort(s.graphs.nodes)[-config.batch_size :].sum()) for s in shards]
    batch, steps = sum(batches), max(-(-len(s) // config.batch_size) for s in shards)
    rows_of_nodes = batch * (4 * config.layers + 8) + 6 * members.nodes
    activations = 4 * config.hidden * rows_of_nodes
    method = make_method(config)
    models = 2 if method.own_weight else 1
    stored = models if method.own_prior < math.inf else 1
    rows = 200 * len(shards) * members.model.layout.size * models
    graphs = 100 * sum(len(s.kind) + len(s.graphs.neighbour) for s in shards)
    maps = 200 * steps * batch if steps > 1 else 0
    return activations + rows + stored * (graphs + maps)
