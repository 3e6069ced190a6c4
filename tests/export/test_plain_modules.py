"""The plain PyG modules compute what our models compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from export.samples import as_pyg, saved
from models.random_graphs import random_graphs
from safetensors.torch import load_file
from torch import Tensor
from torch_geometric.nn import GCNConv, GINConv, GINEConv, SAGEConv

from motifair.export import Exported, load_model
from motifair.export.model import NETWORKS
from motifair.export.pyg import load_module
from motifair.graphs.batch import collate, make_shard
from motifair.graphs.features import structure_inputs
from motifair.graphs.graph_set import GraphSet

EACH = pytest.mark.parametrize("network", NETWORKS)
WITHOUT_EDGES = pytest.mark.parametrize("network", [n for n in NETWORKS if n != "gine"])


def log_probabilities(exported: Exported, graphs: GraphSet) -> Tensor:
    """What our own flat model says, or both of them where there are two."""
    model = exported.model
    extra = structure_inputs(graphs) if model.structure else None
    shard = make_shard(graphs, exported.features, summed=model.summed_inputs, structure=extra)
    batch = collate([shard], torch.device("cpu"), torch.float32)
    row = exported.weights[None]
    together = model.classify(row, model.embed(row, batch))[0]
    if exported.own is None:
        return together
    row, share = exported.own[None], exported.own_weight
    alone = model.classify(row, model.embed(row, batch))[0]
    assert not torch.allclose(alone, together, rtol=0, atol=1e-3)
    return ((1 - share) * together.exp() + share * alone.exp()).log()


def assert_the_same(folder: Path, graphs: GraphSet) -> None:
    exported, module = load_model(folder), load_module(folder)
    data = as_pyg(graphs, exported.features)
    with torch.no_grad():
        theirs = module(data.x, data.edge_index, data.batch, data.edge_attr)
        ours = log_probabilities(exported, graphs)
    assert theirs.shape == (len(graphs), graphs.classes)
    assert torch.allclose(theirs, ours, rtol=1e-5, atol=1e-5)
    assert ours.std(dim=0).max() > 1e-3  # or everything would be equal to everything


@EACH
@pytest.mark.parametrize("kind", ["label", "degree", "attributes", "label+attributes"])
@pytest.mark.parametrize("seed", range(5))
def test_random_graphs(network: str, kind: str, seed: int, tmp_path: Path) -> None:
    graphs = random_graphs(20, seed)
    assert_the_same(saved(tmp_path / "m", graphs, network, kind), graphs)


@EACH
@pytest.mark.parametrize("own_weight", [0.25, 0.9])
def test_an_agent_with_a_model_of_its_own_beside(
    network: str, own_weight: float, tmp_path: Path
) -> None:
    graphs = random_graphs(20, seed=2)
    assert_the_same(saved(tmp_path / "m", graphs, network, own_weight=own_weight), graphs)


def test_both_models_of_an_agent_are_in_evaluation_mode_and_can_be_trained(tmp_path: Path) -> None:
    graphs = random_graphs(8, seed=4)
    folder = saved(tmp_path / "m", graphs, own_weight=0.5)
    module = load_module(folder)
    assert not any(part.training for part in module.modules())
    named = dict(module.named_parameters())
    tensors = load_file(folder / "model.safetensors")
    wanted = {n if n.startswith("own.") else f"federated.{n}": t for n, t in tensors.items()}
    assert set(named) == set(wanted)
    assert all(torch.equal(named[name], tensor) for name, tensor in wanted.items())
    data = as_pyg(graphs, load_model(folder).features)
    module(data.x, data.edge_index, data.batch, data.edge_attr)[:, 0].sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in named.values())


@EACH
def test_mutag(network: str, mutag: GraphSet, tmp_path: Path) -> None:
    assert_the_same(saved(tmp_path / "m", mutag, network), mutag)


@WITHOUT_EDGES
@pytest.mark.parametrize("kind", ["label", "attributes"])
def test_proteins(network: str, kind: str, proteins: GraphSet, tmp_path: Path) -> None:
    some = proteins.select(np.arange(0, 1113, 8))
    assert_the_same(saved(tmp_path / "m", some, network, kind), some)


@WITHOUT_EDGES
def test_imdb_by_degree_also_where_degrees_are_larger_than_any_seen(
    network: str, imdb: GraphSet, tmp_path: Path
) -> None:
    by_size = np.argsort([imdb.degree[imdb.node_graph == g].max() for g in range(200)])
    folder = saved(tmp_path / "m", imdb.select(by_size[:100]), network)
    largest = imdb.select(by_size[100:])
    assert largest.degree.max() >= load_model(folder).features.width
    assert_the_same(folder, largest)


@EACH
def test_without_a_batch_there_is_one_graph(network: str, tmp_path: Path) -> None:
    graphs = random_graphs(8, seed=4)
    folder = saved(tmp_path / "m", graphs, network)
    one = graphs.select([3])
    exported, module = load_model(folder), load_module(folder)
    data = as_pyg(one, exported.features)
    found = module(data.x, data.edge_index, edge_attr=data.edge_attr)
    assert torch.allclose(found, log_probabilities(exported, one), rtol=0, atol=1e-5)


@EACH
def test_a_module_is_made_of_pyg_parts_in_evaluation_mode_and_can_be_trained(
    network: str, tmp_path: Path
) -> None:
    graphs = random_graphs(8, seed=4)
    folder = saved(tmp_path / "m", graphs, network)
    module = load_module(folder)
    kinds = {"gin": {GINConv}, "gine": {GINEConv}, "sage": {SAGEConv}, "star": {GINConv, GCNConv}}[
        network
    ]
    assert kinds <= {type(part) for part in module.modules()}
    assert not module.training
    named = dict(module.named_parameters())
    tensors = load_file(folder / "model.safetensors")
    assert set(named) == set(tensors)
    assert all(torch.equal(named[name], tensor) for name, tensor in tensors.items())
    data = as_pyg(graphs, load_model(folder).features)
    module(data.x, data.edge_index, data.batch, data.edge_attr)[:, 0].sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in named.values())
