"""A member's inputs are those that the same member has in a simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from deployed import content_of, graphs_of

from motifair.config import make_config
from motifair.consortium.member_data import member_holdout, prepare_member_data
from motifair.consortium.terms import make_terms
from motifair.errors import MotifairError
from motifair.federation.members import prepare
from motifair.graphs.features import AttributeSums
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.partition import Partition
from motifair.graphs.schema import Schema
from motifair.graphs.split import Split


def rich_graphs() -> GraphSet:
    """Graphs with node labels, attributes and edge labels."""
    graphs, rng = graphs_of("bank-a"), np.random.default_rng(0)
    pairs, _ = graphs.edge_list()
    graphs = graphs.with_edges(pairs, rng.integers(3, size=len(pairs)))
    return replace(graphs, attribute=rng.normal(4, 3, (len(graphs.degree), 2)))


def test_attributes_and_edge_labels_reach_the_model_as_in_a_simulation() -> None:
    graphs, config = rich_graphs(), make_config({"agents": 2, "edges": "auto"})
    halves = {"a": np.arange(12), "b": np.arange(12, 24)}
    cut = {name: member_holdout(config, name, graphs.select(h), 7) for name, h in halves.items()}
    train, test = (tuple(h[cut[name][k]] for name, h in halves.items()) for k in range(2))
    partition = Partition(("a", "b"), np.arange(2), train, test)
    members = prepare(config, Split(graphs, partition, ()), seed=1)
    sums = [AttributeSums.of(np.asarray(graphs.select(t).attribute)) for t in train]
    schema = Schema.of(graphs, "auto", "auto").standardised_by(sums)
    assert (schema.features, schema.edges) == ("label+attributes", (0, 1, 2))
    for k, name in enumerate(halves):
        data = prepare_member_data(config, schema, name, graphs.select(halves[name]), 7, key=0)
        assert type(data.model) is type(members.model)
        assert data.model.layout == members.model.layout
        assert np.array_equal(data.train.kinds.toarray(), members.train[k].kinds.toarray())
        assert np.array_equal(data.test.kinds.toarray(), members.test[k].kinds.toarray())
        assert data.inputs.uses[1:3] == (
            "node attributes (2, standardised)",
            "edge labels (3, by GINE)",
        )


def test_edge_labels_that_the_network_cannot_read_are_refused() -> None:
    schema = Schema.of(rich_graphs(), "auto", "auto").to_json()
    content = content_of(method="fedsage")
    with pytest.raises(MotifairError, match=r"fedsage reads no edge labels; remove edges from"):
        make_terms({**content, "schema": schema})
