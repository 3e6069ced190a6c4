"""The models of the baselines that do not use the GIN, as plain PyG modules."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, GINConv, SAGEConv, global_add_pool

from .naive import GIN


class SAGE(GIN):
    """The GIN with SAGEConv(x)_v = W_l mean of x_u over the neighbours u + b + W_r x_v.

    The mean of no neighbours is 0. Everything around the convolutions is the GIN's.
    """

    def __init__(self, features: int, classes: int, hidden: int = 64, layers: int = 3) -> None:
        super().__init__(features, classes, hidden, layers)
        self.convs = torch.nn.ModuleList(
            SAGEConv(hidden, hidden, aggr="mean") for _ in range(layers)
        )


class FedStar(torch.nn.Module):
    """Two channels, the features x and the structure s.

    x = pre(features), s = structure(structure input), then in each layer
    x <- dropout(ReLU(GIN([x ; s]))) and s <- tanh(GCN(s)), where x uses the s before the layer;
    the sum over the nodes of merge([x ; s]) -> post, ReLU, dropout -> readout.
    """

    def __init__(
        self, features: int, structure: int, classes: int, hidden: int = 64, layers: int = 3
    ) -> None:
        super().__init__()
        self.pre = torch.nn.Linear(features, hidden)
        self.structure = torch.nn.Linear(structure, hidden)
        self.convs = torch.nn.ModuleList(
            GINConv(
                torch.nn.Sequential(
                    torch.nn.Linear(2 * hidden, hidden),
                    torch.nn.ReLU(),
                    torch.nn.Linear(hidden, hidden),
                )
            )
            for _ in range(layers)
        )
        self.structure_convs = torch.nn.ModuleList(GCNConv(hidden, hidden) for _ in range(layers))
        self.merge = torch.nn.Linear(2 * hidden, hidden)
        self.post = torch.nn.Linear(hidden, hidden)
        self.readout = torch.nn.Linear(hidden, classes)

    def forward(
        self, data: Batch, masks: Sequence[Tensor] | None = None, dropout: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities and graph embeddings; dropout as in the GIN, none on s.

        data.structure holds the structure input of the nodes.
        """

        def drop(x: Tensor, layer: int) -> Tensor:
            if self.training and masks is not None:
                return x * masks[layer]
            return functional.dropout(x, dropout, self.training)

        x = self.pre(data.x)
        s = self.structure(data.structure.to(x.dtype))
        for layer, (conv, structure_conv) in enumerate(
            zip(self.convs, self.structure_convs, strict=True)
        ):
            x = drop(functional.relu(conv(torch.cat([x, s], dim=-1), data.edge_index)), layer)
            s = torch.tanh(structure_conv(s, data.edge_index))
        merged = self.merge(torch.cat([x, s], dim=-1))
        embedding = global_add_pool(merged, data.batch, size=data.num_graphs)
        x = drop(functional.relu(self.post(embedding)), len(self.convs))
        return functional.log_softmax(self.readout(x), dim=-1), embedding

    def structure_parameters(self) -> list[Tensor]:
        """The parameters that travel: the structure embedding and the GCN layers."""
        return [*self.structure.parameters(), *self.structure_convs.parameters()]


def structure_input(graph: Data, n_rw: int, n_dg: int) -> Tensor:
    """[RW ; DEG] of every node.

    RW_k = diag((A Deg^-1)^k) for k = 1..n_rw with 1/0 := 0 in Deg^-1;
    DEG = one-hot of the degree clipped to 1..n_dg.
    """
    nodes = graph.num_nodes
    adjacency = torch.zeros(nodes, nodes, dtype=torch.float64)
    adjacency[graph.edge_index[0], graph.edge_index[1]] = 1.0
    degree = adjacency.sum(dim=0)
    inverse = torch.where(degree > 0, 1 / degree.clamp(min=1), torch.zeros_like(degree))
    walk = adjacency @ torch.diag(inverse)
    columns = [torch.linalg.matrix_power(walk, k).diagonal() for k in range(1, n_rw + 1)]
    one_hot = functional.one_hot(degree.long().clamp(1, n_dg) - 1, n_dg).double()
    return torch.cat([torch.stack(columns, dim=1), one_hot], dim=1)


def with_structure(graph: Data, n_rw: int, n_dg: int) -> Data:
    """A copy of the graph that carries its structure input."""
    copy = graph.clone()
    copy.structure = structure_input(graph, n_rw, n_dg)
    return copy


def load(model: torch.nn.Module, initial: Mapping[str, Tensor]) -> None:
    """Copy the parameters of the state dict into the model."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(initial[name])


def build_sage(initial: Mapping[str, Tensor], dtype: torch.dtype) -> SAGE:
    """A SAGE with the sizes and the parameters of the state dict `initial`."""
    hidden, features = initial["pre.weight"].shape
    classes = initial["readout.weight"].shape[0]
    layers = sum(name.endswith(".lin_r.weight") for name in initial)
    model = SAGE(features, classes, hidden, layers).to(dtype)
    load(model, initial)
    return model


def build_fedstar(initial: Mapping[str, Tensor], dtype: torch.dtype) -> FedStar:
    """A FedStar model with the sizes and the parameters of the state dict `initial`."""
    hidden, features = initial["pre.weight"].shape
    structure = initial["structure.weight"].shape[1]
    classes = initial["readout.weight"].shape[0]
    layers = sum(name.endswith(".nn.0.weight") for name in initial)
    model = FedStar(features, structure, classes, hidden, layers).to(dtype)
    load(model, initial)
    return model
