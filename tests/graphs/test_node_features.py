"""What a node looks like to the model: fitted on training graphs, never on others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from graphs.graph_samples import graph_sets
from hypothesis import given
from hypothesis import strategies as st

from motifair.errors import MotifairError
from motifair.graphs.features import (
    WALKS,
    AttributeSums,
    fit_features,
    motif_labels,
    resolve_features,
    standardisation,
    structure_inputs,
)
from motifair.graphs.graph_set import GraphSet

STAR_AND_PATH = GraphSet.build(
    "two",
    nodes=[5, 3],
    edges=[[0, 1], [0, 2], [0, 3], [0, 4], [5, 6], [6, 7]],
    target=[0, 1],
    node_label=[3, 9, 9, 9, 9, 5, 5, 3],
    attribute=[[10.0, 1.0]] * 5 + [[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]],
)
STAR, PATH = np.array([0]), np.array([1])


def test_labels_are_one_hot_over_the_labels_of_the_whole_dataset() -> None:
    features = fit_features(STAR_AND_PATH, PATH, "label")
    encoded = features.encode(STAR_AND_PATH).toarray()
    assert features.width == 3
    assert encoded.argmax(axis=1).tolist() == [0, 2, 2, 2, 2, 1, 1, 0]
    assert (encoded.sum(axis=1) == 1).all()


@given(graph_sets())
def test_label_inputs_tell_equal_labels_from_different_ones(graphs: GraphSet) -> None:
    encoded = fit_features(graphs, np.array([0]), "label").encode(graphs).toarray()
    alike = encoded @ encoded.T
    label = graphs.node_label
    assert label is not None
    assert np.array_equal(alike, label[:, None] == label[None, :])


def test_an_unknown_label_gives_an_empty_row() -> None:
    features = fit_features(STAR_AND_PATH, PATH, "label")
    for unknown in (-1, 4, 100):
        labels = np.array([3, unknown, 9, 9, 9, 5, 5, 3])
        encoded = features.encode(replace(STAR_AND_PATH, node_label=labels)).toarray()
        assert encoded.sum(axis=1).tolist() == [1, 0, 1, 1, 1, 1, 1, 1]


def test_degrees_above_the_largest_in_training_count_as_that() -> None:
    features = fit_features(STAR_AND_PATH, PATH, "degree")
    encoded = features.encode(STAR_AND_PATH).toarray()
    assert features.width == 3
    assert encoded.argmax(axis=1).tolist() == [2, 1, 1, 1, 1, 1, 2, 1]
    assert (encoded.sum(axis=1) == 1).all()
    assert fit_features(STAR_AND_PATH, STAR, "degree").width == 5


def test_the_degrees_of_imdb_have_136_columns(imdb: GraphSet) -> None:
    features = fit_features(imdb, np.arange(len(imdb)), "auto")
    assert features.width == 136
    assert np.array_equal(features.encode(imdb).indices, imdb.degree)


def test_attributes_are_scaled_by_the_training_graphs_only() -> None:
    features = fit_features(STAR_AND_PATH, PATH, "attributes")
    encoded = features.encode(STAR_AND_PATH).toarray()
    deviation = np.sqrt(2 / 3)
    assert encoded[5:, 0] == pytest.approx([-1 / deviation, 0, 1 / deviation])
    assert encoded[:5, 0] == pytest.approx([8 / deviation] * 5)


def test_an_attribute_that_never_varies_in_training_is_only_centred() -> None:
    features = fit_features(STAR_AND_PATH, PATH, "attributes")
    assert features.encode(STAR_AND_PATH).toarray()[:, 1].tolist() == [-6] * 5 + [0] * 3


@given(graph_sets(attributes=True))
def test_scaled_attributes_of_the_training_graphs_have_mean_0_and_deviation_1(
    graphs: GraphSet,
) -> None:
    train = np.arange((len(graphs) + 1) // 2)
    features = fit_features(graphs, train, "attributes")
    seen = features.encode(graphs).toarray()[np.isin(graphs.node_graph, train)]
    assert np.abs(seen.mean(axis=0)).max() < 1e-9
    raw = graphs.attribute[np.isin(graphs.node_graph, train)]  # type: ignore[index]
    varies = np.ptp(raw, axis=0) > 0
    assert seen.std(axis=0)[varies] == pytest.approx(1)


def test_auto_takes_labels_and_attributes_and_first_the_first_of_them() -> None:
    labelled = replace(STAR_AND_PATH, attribute=None)
    unlabelled = replace(STAR_AND_PATH, node_label=None)
    bare = replace(unlabelled, attribute=None)
    for graphs, auto, first in (
        (STAR_AND_PATH, "label+attributes", "label"),
        (labelled, "label", "label"),
        (unlabelled, "attributes", "attributes"),
        (bare, "degree", "degree"),
    ):
        assert (resolve_features(graphs, "auto"), resolve_features(graphs, "first")) == (
            auto,
            first,
        )
        assert fit_features(graphs, STAR, "auto").kind == auto


def test_one_hot_attributes_that_repeat_the_labels_are_not_read_twice() -> None:
    label = np.array([0, 1, 1, 2, 0, 1, 2, 0])
    graphs = replace(STAR_AND_PATH, node_label=label, attribute=np.eye(3)[label])
    assert resolve_features(graphs, "auto") == "label"
    swapped = replace(graphs, attribute=np.eye(3)[label[::-1]])
    assert resolve_features(swapped, "auto") == "label+attributes"


def test_labels_come_first_and_attributes_after_them() -> None:
    both = fit_features(STAR_AND_PATH, PATH, "label+attributes")
    parts = [fit_features(STAR_AND_PATH, PATH, kind) for kind in ("label", "attributes")]
    encoded = [f.encode(STAR_AND_PATH).toarray() for f in (both, *parts)]
    assert both.width == 5
    assert np.array_equal(encoded[0], np.hstack(encoded[1:]))


@given(graph_sets(attributes=True, max_graphs=8), st.integers(1, 4))
def test_sums_of_members_standardise_as_pooled_attributes_would(
    graphs: GraphSet, members: int
) -> None:
    owners = np.arange(len(graphs)) % members
    shares = [np.flatnonzero(owners == m) for m in range(members)]  # some may be empty
    found = fit_features(graphs, shares, "attributes")
    attribute = graphs.attribute
    assert attribute is not None
    assert np.allclose(found.mean, attribute.mean(axis=0), rtol=1e-12, atol=1e-12)
    deviation = attribute.std(axis=0)
    varies = deviation > 1e-9 * np.abs(attribute).max(axis=0)
    assert found.scale is not None
    assert np.allclose(found.scale[varies], deviation[varies], rtol=1e-9)


def test_an_attribute_that_varies_by_rounding_only_is_not_blown_up() -> None:
    sums = [AttributeSums.of(np.full((n, 1), 0.1)) for n in (3, 10, 7)]
    mean, scale = standardisation(sums)
    assert mean[0] == pytest.approx(0.1)
    assert scale.tolist() == [1.0]


def test_attributes_that_are_not_finite_are_refused_only_where_they_are_used() -> None:
    attribute = np.full((8, 2), np.nan)
    holed = replace(STAR_AND_PATH, attribute=attribute)
    assert resolve_features(holed, "label") == "label"
    with pytest.raises(MotifairError, match=r"node 0 of two are not all finite.*features=label"):
        resolve_features(holed, "auto")
    with pytest.raises(MotifairError, match=r"node 0 of two are not all finite.*features=degree"):
        resolve_features(replace(holed, node_label=None), "auto")


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("label", "two has no node labels; use features=auto"),
        ("attributes", "two has no node attributes; use features=auto"),
        ("label+attributes", "two has no node labels; use features=auto"),
    ],
)
def test_inputs_that_the_graphs_lack_are_refused(kind: str, sentence: str) -> None:
    bare = replace(STAR_AND_PATH, node_label=None, attribute=None)
    with pytest.raises(MotifairError, match=sentence):
        fit_features(bare, STAR, kind)


def test_motifs_are_made_of_labels_and_else_of_degrees() -> None:
    unlabelled = replace(STAR_AND_PATH, node_label=None)
    degrees = [4, 1, 1, 1, 1, 1, 2, 1]
    assert motif_labels(STAR_AND_PATH, "label").tolist() == [3, 9, 9, 9, 9, 5, 5, 3]
    assert motif_labels(STAR_AND_PATH, "attributes").tolist() == [3, 9, 9, 9, 9, 5, 5, 3]
    assert motif_labels(STAR_AND_PATH, "degree").tolist() == degrees
    assert motif_labels(unlabelled, "label").tolist() == degrees


@given(graph_sets(max_graphs=8))
def test_structure_of_a_graph_does_not_depend_on_the_others(graphs: GraphSet) -> None:
    found = structure_inputs(graphs)
    for g in range(len(graphs)):
        first, last = graphs.node_start[g : g + 2]
        assert np.array_equal(found[first:last], structure_inputs(graphs.select([g])))


@given(graph_sets(max_graphs=4))
def test_walks_return_as_the_powers_of_the_matrix_say(graphs: GraphSet) -> None:
    nodes = len(graphs.degree)
    step = np.zeros((nodes, nodes))
    for v in range(nodes):
        for u in graphs.neighbour[graphs.edge_start[v] : graphs.edge_start[v + 1]]:
            step[v, u] = 1 / graphs.degree[u]
    expected = [np.linalg.matrix_power(step, k).diagonal() for k in range(1, WALKS + 1)]
    assert np.allclose(structure_inputs(graphs)[:, :WALKS], np.transpose(expected), atol=1e-12)
