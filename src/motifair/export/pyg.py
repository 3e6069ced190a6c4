"""The networks as plain PyG modules, for use without motifair."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, GINConv, GINEConv, SAGEConv, global_add_pool

from motifair.export.model import Exported, load_model
from motifair.graphs.features import DEGREES, WALKS, Features, structure_inputs
from motifair.graphs.graph_set import GraphSet
from motifair.graphs.task import BINARY, CLASSES, Task


def load_module(folder: str | Path) -> torch.nn.Module:
    """Load a model as a module that maps `(x, edge_index, batch)` to log-probabilities.

    Of binary tasks it returns probabilities, of a regression numbers in their own units.

    A network that reads edge labels (`gine`) also takes `edge_attr`, the one-hot labels of the
    edges in the order of the card's edges.

    `x` is `(nodes, width)`: one-hot labels in the order of the card's columns, attributes as they
    are (the module scales them), both in this order, or one-hot degrees. `edge_index` has every
    edge in both directions, as usual in PyG. The module is in evaluation mode; it has no dropout.
    """
    exported = load_model(folder)
    module = _network(exported, exported.weights)
    if exported.own is None:
        return module.eval()
    own = _network(exported, exported.own)
    return Mixture(module, own, exported.own_weight).eval()


def _network(exported: Exported, weights: Tensor) -> Network:
    model, about = exported.model, exported.card["network"]
    network = _MODULES[about["name"]](
        exported.features, model.task, about["hidden"], about["layers"]
    )
    parameters = model.layout.to_state_dict(weights)
    # GINConv has its ε, which is 0 and not learnt, as a buffer.
    network.load_state_dict({**network.state_dict(), **parameters})
    return network


class Mixture(torch.nn.Module):
    """Mixture of the predictions of two networks: the federation's, and an agent's own."""

    def __init__(self, federated: Network, own: Network, own_weight: float) -> None:
        super().__init__()
        self.federated, self.own, self.own_weight = federated, own, own_weight

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Return log-probabilities `(graphs, classes)`, or what a network returns otherwise."""
        together = self.federated(x, edge_index, batch, edge_attr)
        alone = self.own(x, edge_index, batch, edge_attr)
        if self.federated.task.kind != CLASSES:
            return torch.lerp(together, alone, self.own_weight)
        return torch.lerp(together.exp(), alone.exp(), self.own_weight).log()


class Network(torch.nn.Module):
    """linear → convolutions with ReLU → sum over a graph → linear, ReLU → linear, log-softmax."""

    mean: Tensor | None
    scale: Tensor | None

    def __init__(self, features: Features, task: Task, hidden: int, layers: int) -> None:
        super().__init__()
        self.task = task
        self.edges = features.edges
        self.pre = torch.nn.Linear(features.width, hidden)
        self.convs = torch.nn.ModuleList(self.convolution(hidden) for _ in range(layers))
        self.post = torch.nn.Linear(hidden, hidden)
        self.readout = torch.nn.Linear(hidden, task.outputs)
        for name, values, label in (("mean", features.mean, 0.0), ("scale", features.scale, 1.0)):
            buffer = None
            if values is not None:  # labels, which come first, are not changed
                labels = torch.full((features.width - len(values),), label, dtype=torch.float64)
                buffer = torch.cat([labels, torch.as_tensor(values)])
            self.register_buffer(name, buffer, persistent=False)

    def convolution(self, hidden: int) -> torch.nn.Module:
        """Return one graph convolution."""
        raise NotImplementedError

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Return log-probabilities `(graphs, classes)`; without `batch` all nodes are one graph.

        Of binary tasks probabilities, of a regression numbers.
        """
        embedding = global_add_pool(self.embed(self.scaled(x), edge_index, edge_attr), batch)
        scores: Tensor = self.readout(torch.relu(self.post(embedding)))
        if self.task.kind == CLASSES:
            return torch.log_softmax(scores, dim=-1)
        if self.task.kind == BINARY:
            return torch.sigmoid(scores)
        return scores * scores.new_tensor(self.task.scale) + scores.new_tensor(self.task.mean)

    def scaled(self, x: Tensor) -> Tensor:
        """Return inputs standardised, in the type of the weights."""
        if self.mean is not None and self.scale is not None:
            x = (x - self.mean) / self.scale
        return x.to(self.pre.weight.dtype)

    def embed(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> Tensor:
        """Return the embeddings of the nodes `(nodes, hidden)`."""
        x = self.pre(x)
        for conv in self.convs:
            x = torch.relu(conv(x, edge_index))
        return x


class GINModule(Network):
    """Graph isomorphism network, the paper's."""

    def convolution(self, hidden: int) -> torch.nn.Module:
        """Return a convolution by a two-layer MLP."""
        return _gin(hidden, hidden)


class GINEModule(Network):
    """Graph isomorphism network that reads edge labels."""

    def convolution(self, hidden: int) -> torch.nn.Module:
        """Return a convolution by a two-layer MLP, with a linear layer for edge labels."""
        return _checked(GINEConv(_mlp(hidden, hidden), edge_dim=self.edges))

    def embed(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> Tensor:
        """Return the embeddings of the nodes `(nodes, hidden)`."""
        if edge_attr is None:
            raise ValueError("This network reads edge labels: give edge_attr, one-hot.")
        x = self.pre(x)
        for conv in self.convs:
            x = torch.relu(conv(x, edge_index, edge_attr.to(x)))
        return x


class SAGEModule(Network):
    """GraphSAGE with mean aggregation, FedSage's."""

    def convolution(self, hidden: int) -> torch.nn.Module:
        """Return a convolution by the mean of neighbours."""
        return _checked(SAGEConv(hidden, hidden, aggr="mean"))


class StarModule(Network):
    """FedStar's two channels: x by GIN on [x ; s], s by GCN and tanh on structural inputs."""

    def __init__(self, features: Features, task: Task, hidden: int, layers: int) -> None:
        super().__init__(features, task, hidden, layers)
        self.structure = torch.nn.Linear(WALKS + DEGREES, hidden)
        self.structure_convs = torch.nn.ModuleList(GCNConv(hidden, hidden) for _ in range(layers))
        self.merge = torch.nn.Linear(2 * hidden, hidden)

    def convolution(self, hidden: int) -> torch.nn.Module:
        """Return a convolution of both channels by a two-layer MLP."""
        return _gin(2 * hidden, hidden)

    def embed(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None) -> Tensor:
        """Return the merged channels; structural inputs are computed from the edges."""
        s = self.structure(_structure(len(x), edge_index).to(x))
        x = self.pre(x)
        for conv, structure_conv in zip(self.convs, self.structure_convs, strict=True):
            x = torch.relu(conv(torch.cat([x, s], dim=-1), edge_index))
            s = torch.tanh(structure_conv(s, edge_index))
        merged: Tensor = self.merge(torch.cat([x, s], dim=-1))
        return merged


_MODULES: dict[str, type[Network]] = {
    "gin": GINModule,
    "gine": GINEModule,
    "sage": SAGEModule,
    "star": StarModule,
}


def _gin(inputs: int, hidden: int) -> torch.nn.Module:
    return _checked(GINConv(_mlp(inputs, hidden)))


def _mlp(inputs: int, hidden: int) -> torch.nn.Module:
    linear, relu = torch.nn.Linear, torch.nn.ReLU
    return torch.nn.Sequential(linear(inputs, hidden), relu(), linear(hidden, hidden))


def _checked(module: object) -> torch.nn.Module:
    assert isinstance(module, torch.nn.Module)
    return module


def _structure(nodes: int, edge_index: Tensor) -> Tensor:
    """Return the structural inputs; they do not depend on which graph a node is in."""
    graph = GraphSet.build("batch", [nodes], edge_index.T.cpu().numpy(), [0])
    return torch.from_numpy(structure_inputs(graph))
