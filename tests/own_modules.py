"""PyG modules as a user would bring them: two equal to built-in networks, and others."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn import GCNConv, GINConv, GINEConv, global_add_pool, global_mean_pool

from motifair.models import GIN, GINE, Layout


class PlainGIN(torch.nn.Module):
    """GIN without dropout, in double precision, with the initial weights of the built-in one."""

    def __init__(self, width: int, outputs: int, edges: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.pre = torch.nn.Linear(width, hidden)
        self.convs = torch.nn.ModuleList(_convolution(hidden, edges) for _ in range(layers))
        self.post = torch.nn.Linear(hidden, hidden)
        self.readout = torch.nn.Linear(hidden, outputs)
        self.double()
        layout = built_in(width, outputs, edges, hidden, layers)
        state = layout.to_state_dict(layout.initial(torch.initial_seed(), torch.float64))
        self.load_state_dict({**self.state_dict(), **state})

    def forward(self, data: Batch) -> tuple[Tensor, Tensor]:
        x = self.pre(data.x.to(self.pre.weight.dtype))
        for conv in self.convs:
            labels = () if data.edge_attr is None else (data.edge_attr.to(x.dtype),)
            x = torch.relu(conv(x, data.edge_index, *labels))
        embedding = global_add_pool(x, data.batch, size=data.num_graphs)
        return self.readout(torch.relu(self.post(embedding))), embedding


def built_in(width: int, outputs: int, edges: int, hidden: int, layers: int) -> Layout:
    if edges:
        return GINE(width, outputs, hidden, layers, edges).layout
    return GIN(width, outputs, hidden, layers).layout


def _convolution(hidden: int, edges: int) -> torch.nn.Module:
    linear = torch.nn.Linear
    mlp = torch.nn.Sequential(linear(hidden, hidden), torch.nn.ReLU(), linear(hidden, hidden))
    return GINEConv(mlp, edge_dim=edges) if edges else GINConv(mlp)


class GCN(torch.nn.Module):
    """Two convolutions with dropout, and embeddings."""

    def __init__(self, width: int, outputs: int, hidden: int = 8, dropout: float = 0.5) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList([GCNConv(width, hidden), GCNConv(hidden, hidden)])
        self.dropout = torch.nn.Dropout(dropout)
        self.readout = torch.nn.Linear(hidden, outputs)

    def forward(self, data: Batch) -> Tensor | tuple[Tensor, Tensor]:
        x = data.x
        for conv in self.convs:
            x = self.dropout(torch.relu(conv(x, data.edge_index)))
        embedding = global_mean_pool(x, data.batch, size=data.num_graphs)
        return self.readout(embedding), embedding


class Bare(GCN):
    """The same without embeddings, and without sizes of its own."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(width, outputs)

    def forward(self, data: Batch) -> Tensor:
        scores, _ = super().forward(data)
        return scores
