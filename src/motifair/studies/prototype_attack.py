"""An attempt to read an agent's graphs off its prototypes.

The attacker is the server. It knows the agent's model, since it sends what the agent adopts, and
holds graphs of its own, the global test set. A prototype is the mean of f_ω(G) over the agent's
graphs with a motif. So a linear map that tells a graph's size from f_ω(G), learnt on the server's
own graphs, tells the mean size from the prototype; and the agent's own classifier, applied to the
prototype, tells which class prevails. Without prototypes the server would guess what its own graphs
with that motif have, or where these are few, what all of its graphs have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from motifair.config import Config
from motifair.federation.members import Members
from motifair.graphs.batch import Shard, collate
from motifair.graphs.features import motif_labels, resolve_features
from motifair.models import StackedModel
from motifair.motifs.extract import count_motifs
from motifair.motifs.prototypes import local_prototypes

SECRETS = SIZE, CLASS = ("mean size", "share of class 1")
PRIOR = 10  # graphs that the server's mean over all its graphs counts for
PENALTIES = np.logspace(-3, 5, 17)


@dataclass(frozen=True)
class Guess:
    """A secret of each (agent, motif) pair: the truth, and two guesses at it."""

    truth: np.ndarray
    attack: np.ndarray
    without: np.ndarray

    @property
    def r2(self) -> tuple[float, float]:
        """R² over all pairs: of the attack, and of the guess without prototypes."""
        spread = ((self.truth - self.truth.mean()) ** 2).sum()
        return 1 - self._error(self.attack) / spread, 1 - self._error(self.without) / spread

    @property
    def gained(self) -> float:
        """The share of the squared error without prototypes that they take away."""
        return 1 - self._error(self.attack) / self._error(self.without)

    def _error(self, guess: np.ndarray) -> float:
        return float(((guess - self.truth) ** 2).sum())


def attack(config: Config, members: Members, weights: Tensor) -> dict[str, Guess]:
    """Guess each secret from the prototypes of agents with the given weights `(A, D)`."""
    prototypes, seen = embeddings(members, weights)
    index = members.index
    assert index is not None
    own = secrets_of(members.global_test)
    maps = [ridge(x.double().cpu().numpy(), own[SIZE]) for x in seen]
    parts = np.split(prototypes.double().cpu().numpy(), np.cumsum(index.sizes.tolist())[:-1])
    guesses = {
        SIZE: np.concatenate([size(part) for size, part in zip(maps, parts, strict=True)]),
        CLASS: _classified(members, weights, prototypes),
    }
    known = own_motifs(config, members)
    results = {}
    for secret, guess in guesses.items():
        truth = [means(s.motifs, secrets_of(s)[secret]) for s in members.train]
        without = means(known, own[secret], prior=PRIOR)[index.motif]
        results[secret] = Guess(np.concatenate(truth), guess, without)
    return results


def _classified(members: Members, weights: Tensor, prototypes: Tensor) -> np.ndarray:
    """Return the probability of class 1 that each agent's model gives its own prototypes."""
    model = members.model
    assert members.index is not None and isinstance(model, StackedModel)  # noqa: PT018
    parts = prototypes.split(members.index.sizes.tolist())  # type: ignore[no-untyped-call]
    with torch.no_grad():
        scores = [
            model.classify(row[None], own[None])[0, :, 1]
            for row, own in zip(weights, parts, strict=True)
        ]
    likely: np.ndarray = torch.cat(scores).exp().double().cpu().numpy()
    return likely


def embeddings(members: Members, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return all prototypes as agents with these weights upload them `(M, H)`, and the server's own
    graphs as each of their models embeds them `(A, G, H)`.
    """
    model, layers = members.model, members.model.distinct_layers
    with torch.no_grad():
        train = collate(members.train, weights.device, weights.dtype, layers=layers)
        local = local_prototypes(model.embed(weights, train), train)
        test = [members.global_test] * len(weights)
        own = model.embed(weights, collate(test, weights.device, weights.dtype, layers=layers))
    return local, own


def own_motifs(config: Config, members: Members) -> sparse.csr_array:
    """Mark which of the server's graphs contain which of the agents' motifs, `(G, K)`."""
    assert members.index is not None
    graphs = members.split.graphs
    labels = motif_labels(graphs, resolve_features(graphs, config.features))
    counted = count_motifs(graphs, labels, rings=config.rings, max_ring=config.max_ring)
    column = {key: k for k, key in enumerate(counted.keys)}
    chosen = [column[key] for key in members.index.keys]
    return sparse.csr_array(counted.counts[members.split.partition.global_test][:, chosen] > 0)


def secrets_of(shard: Shard) -> dict[str, np.ndarray]:
    """Return the secrets of single graphs; of several they are the mean."""
    graphs = shard.graphs
    return {SIZE: graphs.nodes.astype(float), CLASS: (graphs.target == 1).astype(float)}


def means(contains: sparse.csr_array, values: np.ndarray, *, prior: float = 0) -> np.ndarray:
    """Return the mean over the graphs with each motif, to which the mean of all counts as `prior`
    further graphs.

    >>> means(sparse.csr_array([[1, 0], [1, 1]]), np.array([2.0, 4.0])).tolist()
    [3.0, 4.0]
    >>> means(sparse.csr_array([[1, 0], [1, 1]]), np.array([2.0, 4.0]), prior=1).tolist()
    [3.0, 3.5]
    """
    marked = contains.astype(float)
    count = np.asarray(marked.sum(axis=0)).ravel()
    averages: np.ndarray = (marked.T @ values + prior * values.mean()) / (count + prior)
    return averages


def ridge(x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Fit a ridge regression on standardised columns; predictions stay within the range of `y`.

    >>> x = np.arange(20.0)[:, None]
    >>> ridge(x, 3 * x[:, 0] + 2)(np.array([[5.0]])).round(1).tolist()
    [17.0]
    """
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fitted = make_pipeline(StandardScaler(), Ridge(best_penalty(x, y), solver="svd")).fit(x, y)
    return lambda rows: np.asarray(np.clip(fitted.predict(rows), y.min(), y.max()))


def best_penalty(x: np.ndarray, y: np.ndarray) -> float:
    """Return the penalty that generalised cross-validation picks.

    scikit-learn's `RidgeCV` minimises leave-one-out errors instead, which a few very large graphs
    dominate: on a split of IMDB-BINARY that attack gained .32 where this one gains .89.
    """
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import StandardScaler

    x = StandardScaler().fit_transform(x)
    targets = np.repeat(y[:, None], len(PENALTIES), axis=1)
    errors = ((targets - Ridge(PENALTIES, solver="svd").fit(x, targets).predict(x)) ** 2).mean(0)
    squares = np.linalg.svd(x, compute_uv=False)[:, None] ** 2
    freedom = 1 + (squares / (squares + PENALTIES)).sum(axis=0)
    return float(PENALTIES[np.argmin(errors / (1 - freedom / len(y)) ** 2)])
