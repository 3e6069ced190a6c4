"""The cache of motif counts: named by everything the counts depend on, made again when lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motifair.graphs.graph_set import GraphSet
from motifair.motifs.extract import MotifCounts, count_motifs, extract_motifs


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOTIFAIR_CACHE", str(tmp_path))
    return tmp_path / "motifs"


@pytest.fixture
def graphs(mutag: GraphSet) -> GraphSet:
    return mutag.select(np.arange(10))


def count(graphs: GraphSet, **options: Any) -> MotifCounts:
    labels = options.pop("labels", graphs.node_label)
    return count_motifs(graphs, labels, **{"rings": "chordless", "max_ring": 6, **options})


def same(one: MotifCounts, other: MotifCounts) -> bool:
    return one.keys == other.keys and np.array_equal(one.counts.toarray(), other.counts.toarray())


def only_file(cache: Path) -> Path:
    (file,) = cache.iterdir()
    return file


@pytest.mark.parametrize("rings", ["chordless", "basis"])
def test_counts_from_the_cache_equal_fresh_ones(cache: Path, mutag: GraphSet, rings: str) -> None:
    assert mutag.node_label is not None
    fresh = extract_motifs(mutag, mutag.node_label, rings=rings, max_ring=6)
    first, second = count(mutag, rings=rings), count(mutag, rings=rings)
    assert len(list(cache.iterdir())) == 1
    assert same(first, fresh)
    assert same(second, fresh)
    assert second.counts.dtype == fresh.counts.dtype


def test_the_second_call_reads_the_file(cache: Path, graphs: GraphSet) -> None:
    found = count(graphs)
    file = only_file(cache)
    text = "\n".join(f"marked {k}" for k in found.keys)
    with np.load(file) as stored:
        marked = {**stored, "keys": np.frombuffer(text.encode(), dtype=np.uint8)}
    np.savez_compressed(file, **marked)
    assert count(graphs).keys == tuple(f"marked {k}" for k in found.keys)


def test_a_deleted_file_is_made_again(cache: Path, graphs: GraphSet) -> None:
    found = count(graphs)
    only_file(cache).unlink()
    assert same(count(graphs), found)
    assert only_file(cache).exists()


@pytest.mark.parametrize("damage", [b"", b"no archive", b"PK\x03\x04 cut off"])
def test_a_damaged_file_is_made_again(cache: Path, graphs: GraphSet, damage: bytes) -> None:
    found = count(graphs)
    only_file(cache).write_bytes(damage)
    assert same(count(graphs), found)


def test_a_file_serves_only_the_content_it_was_made_from(cache: Path, graphs: GraphSet) -> None:
    assert graphs.node_label is not None
    assert graphs.edge_label is not None
    other_node = graphs.node_label.copy()
    other_node[0] += 1
    other_edge = graphs.edge_label.copy()
    other_edge[0] += 1
    calls: list[tuple[GraphSet, dict[str, Any]]] = [
        (graphs, {}),
        (graphs, {"max_ring": 5}),
        (graphs, {"rings": "basis"}),
        (graphs, {"labels": other_node}),
        (graphs, {"labels": graphs.degree}),
        (replace(graphs, edge_label=None), {}),
        (replace(graphs, edge_label=other_edge), {}),
        (graphs.select(np.arange(9)), {}),
        (graphs.select(np.arange(10)[::-1]), {}),
    ]
    for number, (content, options) in enumerate(calls, start=1):
        count(content, **options)
        assert len(list(cache.iterdir())) == number


def test_what_counts_do_not_depend_on_shares_a_file(cache: Path, graphs: GraphSet) -> None:
    count(graphs)
    count(replace(graphs, name="another", target=1 - graphs.target))
    assert only_file(cache).suffix == ".npz"
