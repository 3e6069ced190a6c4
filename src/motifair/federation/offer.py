"""Which of its graphs a member gives to the federation, where it does not give all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motifair.graphs.graph_set import Ints
from motifair.graphs.split import Split
from motifair.learning.randomness import derive_seed


@dataclass(frozen=True)
class Offer:
    """The member with number `agent` gives a `share` of its training graphs."""

    agent: int
    share: float


def draw_member(seed: int, agents: int) -> int:
    """Draw the member of a split that gives less, by a seed of its own."""
    return int(np.random.default_rng(derive_seed(seed, "offer/member")).integers(agents))


def offered(split: Split, offer: Offer, *, seed: int) -> Ints:
    """Return the numbers of the training graphs that a member gives, in their order.

    They are drawn class by class in proportion, at least one unless the share is 0. A smaller
    share is a part of a larger one, so that shares differ by nothing but what is left out.
    """
    name, own = split.names[offer.agent], split.partition.train[offer.agent]
    rng = np.random.default_rng(derive_seed(seed, f"offer/{name}"))
    target = split.graphs.target[own]
    place = np.empty(len(own))
    for c in np.unique(target):
        members = rng.permutation(np.flatnonzero(target == c))
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    least = 1 if offer.share > 0 else 0
    count = max(least, round(offer.share * len(own)))
    chosen: Ints = own[np.sort(np.argsort(place, kind="stable")[:count])]
    return chosen
