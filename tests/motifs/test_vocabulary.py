"""Which motifs an agent keeps: TF-IDF against the oracle, ties by key, nine in ten."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.rings import tfidf_scores, tfidf_vocabulary
from scipy import sparse

from motifair.graphs.graph_set import GraphSet
from motifair.motifs.extract import extract_motifs
from motifair.motifs.vocabulary import select_vocabulary, tfidf

FORMS = st.sampled_from(["paper", "smooth"])


@st.composite
def count_tables(draw: st.DrawFn) -> np.ndarray:
    """Counts of motifs in graphs, small enough that many motifs tie; each occurs somewhere."""
    graphs, motifs = draw(st.integers(1, 6)), draw(st.integers(1, 25))
    row = st.lists(st.integers(0, 2), min_size=motifs, max_size=motifs)
    table = np.array(draw(st.lists(row, min_size=graphs, max_size=graphs)))
    return table[:, table.any(axis=0)] if table.any() else np.ones((graphs, 1), dtype=int)


def names(motifs: int) -> list[str]:
    return sorted(f"bond {k}" for k in range(motifs))


def counters(table: np.ndarray, keys: list[str]) -> list[Counter[str]]:
    return [Counter({k: int(n) for k, n in zip(keys, row, strict=True) if n}) for row in table]


@given(count_tables(), FORMS)
def test_scores_equal_the_oracle(table: np.ndarray, form: str) -> None:
    keys = names(table.shape[1])
    score = tfidf(sparse.csr_array(table), form)
    assert dict(zip(keys, score, strict=True)) == pytest.approx(
        tfidf_scores(counters(table, keys), form)
    )


@given(count_tables(), FORMS, st.sampled_from([0.1, 0.5, 0.9, 1.0]))
def test_the_kept_motifs_equal_the_oracle_ties_included(
    table: np.ndarray, form: str, fraction: float
) -> None:
    keys = names(table.shape[1])
    kept = select_vocabulary(sparse.csr_array(table), keys, fraction=fraction, form=form)
    assert set(kept.keys) == tfidf_vocabulary(counters(table, keys), fraction, form)
    assert list(kept.keys) == sorted(kept.keys)
    columns = [keys.index(k) for k in kept.keys]
    assert np.array_equal(kept.incidence.toarray(), table[:, columns] > 0)


@given(count_tables(), FORMS, st.sampled_from([0.1, 0.5, 0.9, 1.0]), st.data())
def test_of_the_allowed_motifs_as_many_are_kept_as_if_there_were_no_others(
    table: np.ndarray, form: str, fraction: float, data: st.DataObject
) -> None:
    keys, motifs = names(table.shape[1]), table.shape[1]
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=motifs, max_size=motifs)))
    kept = select_vocabulary(
        sparse.csr_array(table), keys, fraction=fraction, form=form, allowed=allowed
    )
    assert list(kept.keys) == sorted(kept.keys)
    columns = [keys.index(k) for k in kept.keys]
    assert allowed[columns].all()
    assert np.array_equal(kept.incidence.toarray(), table[:, columns] > 0)
    here = int(allowed.sum())
    assert len(kept.keys) == min(here, max(1, int(fraction * here + 1e-9)))
    score = tfidf(sparse.csr_array(table), form)
    left = [s for k, s in enumerate(score) if allowed[k] and k not in columns]
    assert not left or not columns or min(score[columns]) >= max(left)
    whole = select_vocabulary(sparse.csr_array(table), keys, fraction=fraction, form=form)
    same = select_vocabulary(
        sparse.csr_array(table), keys, fraction=fraction, form=form, allowed=np.ones(motifs, bool)
    )
    assert same.keys == whole.keys


def test_where_no_motif_is_allowed_none_is_kept() -> None:
    table = np.array([[1, 2], [0, 1]])
    kept = select_vocabulary(
        sparse.csr_array(table), names(2), fraction=1.0, form="paper", allowed=np.zeros(2, bool)
    )
    assert kept.keys == ()
    assert kept.incidence.shape == (2, 0)


def test_ties_go_to_the_smaller_key() -> None:
    kept = select_vocabulary(
        sparse.csr_array(np.ones((3, 4), dtype=int)), list("abcd"), fraction=0.5, form="paper"
    )
    assert kept.keys == ("a", "b")


@given(st.integers(1, 60), FORMS)
def test_nine_in_ten_motifs_are_kept_and_at_least_one(motifs: int, form: str) -> None:
    table = sparse.csr_array(np.ones((2, motifs), dtype=int))
    kept = select_vocabulary(table, names(motifs), fraction=0.9, form=form)
    assert len(kept.keys) == max(1, 9 * motifs // 10)


@given(st.integers(1, 20), st.integers(1, 9))
def test_a_motif_in_every_graph_scores_1_in_the_papers_form(graphs: int, often: int) -> None:
    table = sparse.csr_array(np.full((graphs, 1), often))
    assert tfidf(table, "paper").tolist() == [1.0]
    assert tfidf(table, "smooth").tolist() == [often]


def test_the_papers_form_drops_the_ubiquitous_motif() -> None:
    table = np.array([[3, 1, 0], [3, 0, 1], [3, 0, 0]])
    kept = select_vocabulary(sparse.csr_array(table), list("abc"), fraction=0.7, form="paper")
    assert kept.keys == ("b", "c")


def test_motifs_that_do_not_occur_are_neither_counted_nor_kept() -> None:
    table = sparse.csr_array(np.array([[1, 0, 2, 0], [0, 0, 1, 0]]))
    assert np.isinf(tfidf(table, "paper")).tolist() == [False, True, False, True]
    kept = select_vocabulary(table, list("abcd"), fraction=1.0, form="paper")
    assert kept.keys == ("a", "c")


def test_an_agent_whose_graphs_have_no_motif_keeps_none() -> None:
    kept = select_vocabulary(
        sparse.csr_array((3, 2), dtype=np.int64), ["a", "b"], fraction=0.9, form="paper"
    )
    assert kept.keys == ()
    assert kept.incidence.shape == (3, 0)


def test_the_kept_motifs_of_proteins_equal_the_oracle(proteins: GraphSet) -> None:
    graphs = proteins.select(np.arange(100))
    assert graphs.node_label is not None
    found = extract_motifs(graphs, graphs.node_label, rings="chordless", max_ring=4)
    per_graph = counters(found.counts.toarray(), list(found.keys))
    for form in ("paper", "smooth"):
        kept = select_vocabulary(found.counts, found.keys, fraction=0.9, form=form)
        assert set(kept.keys) == tfidf_vocabulary(per_graph, 0.9, form)
