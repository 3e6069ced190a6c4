"""The motif vocabulary of an agent, and the server's index of all vocabularies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from motifair.graphs.graph_set import Ints


@dataclass(frozen=True)
class Vocabulary:
    """Keys of an agent's motifs, and which of its training graphs contains which.

    `incidence` is a 0/1 matrix, `(graphs, motifs)`.
    """

    keys: tuple[str, ...]
    incidence: sparse.csr_array

    def renamed(self, name: Callable[[str], str]) -> Vocabulary:
        """Return the same motifs under other keys, in the order of these.

        >>> plain = Vocabulary(("a", "b"), sparse.csr_array([[1, 0], [1, 1]]))
        >>> other = plain.renamed({"a": "y", "b": "x"}.get)
        >>> other.keys, other.incidence.toarray().tolist()
        (('x', 'y'), [[0, 1], [1, 1]])
        """
        keys = [name(key) for key in self.keys]
        order = sorted(range(len(keys)), key=lambda column: keys[column])
        return Vocabulary(tuple(keys[k] for k in order), self.incidence[:, order])


def tfidf(counts: sparse.csr_array, form: str) -> np.ndarray:
    """E14: T_k = mean over graphs with k of C(k)_G·log((1+|D_i|)/(1+|D_ik|)) + 1.

    `counts` is `(graphs, motifs)`; `form="smooth"` puts the bracket around log(·)+1 instead.
    Motifs that do not occur get -inf.

    >>> tfidf(sparse.csr_array([[1, 2], [1, 0]]), "paper").round(3).tolist()
    [1.0, 1.811]
    """
    graphs = counts.shape[0]
    containing = np.bincount(counts.indices, minlength=counts.shape[1])
    total = np.asarray(counts.sum(axis=0)).ravel()
    rarity = np.log((1 + graphs) / (1 + containing))
    mean = np.divide(total, containing, out=np.zeros(len(total)), where=containing > 0)
    score = mean * rarity + 1 if form == "paper" else mean * (rarity + 1)
    return np.where(containing > 0, score, -np.inf)


def select_vocabulary(
    counts: sparse.csr_array,
    keys: Sequence[str],
    *,
    fraction: float,
    form: str,
    allowed: np.ndarray | None = None,
) -> Vocabulary:
    """Select the ⌊fraction·V⌋ motifs (at least one) with the highest TF-IDF score, ties by key.

    Args:
        counts: Motif counts of an agent's training graphs, `(graphs, motifs)`, columns sorted by
            key.
        keys: Key of each motif.
        fraction: Share of the V motifs that occur and are allowed.
        form: Form of the score, see `tfidf`.
        allowed: Which motifs may be selected, `(motifs,)`; by default all. If none of them occurs,
            the vocabulary is empty.

    >>> counts = sparse.csr_array([[1, 2], [1, 0]])
    >>> select_vocabulary(counts, ["bond 0 0", "bond 0 1"], fraction=0.5, form="paper").keys
    ('bond 0 1',)
    """
    score = tfidf(counts, form)
    if allowed is not None:
        score = np.where(allowed, score, -np.inf)
    occurring = int(np.isfinite(score).sum())
    count = min(occurring, max(1, int(fraction * occurring + 1e-9)))
    kept = np.argsort(-score, kind="stable")[:count]
    columns = np.sort(kept)
    incidence = sparse.csr_array((counts[:, columns] > 0).astype(np.float32))
    return Vocabulary(tuple(keys[c] for c in columns), incidence)


@dataclass(frozen=True)
class MotifIndex:
    """The server's index of uploaded keys, with an entry for each motif of each agent.

    Entries are ordered by agent; entry e belongs to agent `agent[e]` and motif `keys[motif[e]]`;
    agent i has `sizes[i]` entries (k_i).
    """

    keys: tuple[str, ...]
    motif: Ints
    agent: Ints
    sizes: Ints

    @classmethod
    def of(cls, vocabularies: Sequence[Sequence[str]]) -> MotifIndex:
        """Index the union of the agents' keys.

        >>> index = MotifIndex.of([["a", "b"], ["b"]])
        >>> index.keys, index.motif.tolist(), index.agent.tolist()
        (('a', 'b'), [0, 1, 1], [0, 0, 1])
        """
        union = sorted({key for keys in vocabularies for key in keys})
        place = {key: k for k, key in enumerate(union)}
        motif = [place[key] for keys in vocabularies for key in keys]
        count = [len(keys) for keys in vocabularies]
        return cls(
            tuple(union),
            np.array(motif, dtype=np.int64),
            np.repeat(np.arange(len(count)), count),
            np.array(count, dtype=np.int64),
        )

    def of_agent(self, agent: int) -> list[str]:
        """Return the keys of an agent's motifs, in the order of its entries."""
        return [self.keys[m] for m in self.motif[self.agent == agent]]

    @property
    def owners(self) -> sparse.csr_array:
        """0/1 matrix of which entry belongs to which motif, `(motifs, entries)`."""
        entries = np.arange(len(self.motif))
        shape = (len(self.keys), len(entries))
        return sparse.csr_array((np.ones(len(entries), np.float32), (self.motif, entries)), shape)


def of_dataset(name: str, keys: Sequence[str]) -> list[str]:
    """Return keys that differ from those of other datasets, whose labels mean something else.

    >>> of_dataset("MUTAG", ["bond 0 1"])
    ['MUTAG: bond 0 1']
    """
    return [f"{name}: {key}" for key in keys]


def plain_key(key: str) -> str:
    """Return the key of a motif without the name of its dataset.

    >>> plain_key("MUTAG: bond 0 1"), plain_key("bond 0 1")
    ('bond 0 1', 'bond 0 1')
    """
    return key.rpartition(": ")[2]
