"""The generated stand-in for TWITTER-Real-Graph-Partial has its published statistics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from motifair.errors import MotifairError
from motifair.graphs.dataset import load_dataset
from motifair.graphs.generated import LABELS, twitter_like
from motifair.graphs.graph_set import GraphSet


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return twitter_like()


def test_graphs_nodes_edges_labels_and_classes_are_as_published(graphs: GraphSet) -> None:
    assert len(graphs) == 144_033
    assert f"{graphs.nodes.mean():.2f}" == "4.03"
    assert f"{graphs.edges.mean():.2f}" == "4.98"
    assert np.unique(graphs.node_label).tolist() == list(range(1_323))
    assert np.bincount(graphs.target).tolist() == [72_017, 72_016]


def test_every_graph_is_connected(graphs: GraphSet) -> None:
    n = len(graphs.degree)
    ones = np.ones(len(graphs.neighbour))
    adjacency = sparse.csr_array((ones, graphs.neighbour, graphs.edge_start), shape=(n, n))
    assert connected_components(adjacency)[0] == len(graphs)


def test_few_labels_are_frequent_and_most_are_rare(graphs: GraphSet) -> None:
    frequency = np.sort(np.bincount(graphs.node_label))[::-1] / len(graphs.degree)
    assert frequency[:10].sum() > 0.3
    assert np.median(frequency) < 0.001


def test_labels_tell_the_classes_apart_but_not_always(graphs: GraphSet) -> None:
    """Naive Bayes, learnt from every second graph, on the others."""
    odd = np.arange(len(graphs)) % 2 == 1
    label, owner = graphs.node_label, graphs.node_graph
    evidence = np.zeros(LABELS)
    for c, sign in ((0, -1), (1, 1)):
        seen = label[odd[owner] & (graphs.target[owner] == c)]
        evidence += sign * np.log((np.bincount(seen, minlength=LABELS) + 1) / (len(seen) + LABELS))
    guess = np.bincount(owner, evidence[label]) > 0
    assert 0.6 < (guess == graphs.target)[~odd].mean() < 0.75


def test_the_seed_decides_the_graphs(graphs: GraphSet) -> None:
    assert twitter_like(0).digest() == graphs.digest() != twitter_like(1).digest()


def test_it_is_loaded_by_name_and_is_the_same_for_every_split(graphs: GraphSet) -> None:
    first, second = (load_dataset("twitter-like", agents=10, seed=s) for s in (0, 5))
    assert first.name == "twitter-like"
    assert first.owner is None
    assert first.graphs.digest() == second.graphs.digest() == graphs.digest()


def test_a_misspelt_name_is_told_the_right_one() -> None:
    with pytest.raises(MotifairError, match="twitter-like"):
        load_dataset("twitter-lik", agents=10, seed=0)
