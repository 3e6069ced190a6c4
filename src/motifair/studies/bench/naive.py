"""A straightforward federation in plain PyG, one agent after another, as the baseline in time.

It is not optimised, but avoids needless work: graphs are collated and moved to the device once, and
prototypes use an incidence matrix. Only the arithmetic of a round is compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, global_add_pool

from motifair.config import Config
from motifair.federation.members import Members
from motifair.graphs.features import Features
from motifair.graphs.graph_set import GraphSet


class GIN(torch.nn.Module):
    """The same network as `motifair.models.GIN`, made of PyG modules."""

    def __init__(self, features: int, classes: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.pre = torch.nn.Linear(features, hidden)
        self.convs = torch.nn.ModuleList(GINConv(_mlp(hidden)) for _ in range(layers))
        self.post = torch.nn.Linear(hidden, hidden)
        self.readout = torch.nn.Linear(hidden, classes)

    def embed(self, batch: Batch, dropout: float = 0.0) -> Tensor:
        """Return the embedding of every graph, `(G, H)`."""
        x = self.pre(batch.x)
        for conv in self.convs:
            x = F.dropout(F.relu(conv(x, batch.edge_index)), dropout, self.training)
        pooled: Tensor = global_add_pool(x, batch.batch, size=batch.num_graphs)
        return pooled

    def classify(self, embedding: Tensor, dropout: float = 0.0) -> Tensor:
        """Return log-probabilities, `(G, classes)`."""
        x = F.dropout(F.relu(self.post(embedding)), dropout, self.training)
        return F.log_softmax(self.readout(x), dim=-1)


@dataclass
class Agent:
    """An agent with its own model and optimiser.

    `holds` says for each batch which graphs contain which of the agent's K motifs, 0/1 `(K, G)`;
    `motifs` are the numbers of these among all motifs, `(K,)`; `graphs` is the number of graphs.
    """

    model: GIN
    optimiser: torch.optim.Adam
    batches: list[Batch] | DataLoader
    holds: list[Tensor]
    motifs: Tensor
    graphs: int

    def train(self, config: Config, reference: Tensor | None) -> None:
        """Train one epoch; with a `reference` add the distance of prototypes to the loss."""
        self.model.train()
        for batch, holds in zip(self.batches, self.holds, strict=True):
            self.optimiser.zero_grad()
            embedding = self.model.embed(batch, config.dropout)
            loss = F.nll_loss(self.model.classify(embedding, config.dropout), batch.y)
            if reference is not None:
                local = holds @ embedding / holds.sum(dim=1, keepdim=True).clamp(min=1)
                apart = (F.normalize(local) - F.normalize(reference)).norm(dim=1)
                loss = loss + config.prototype_weight * apart.mean()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimiser.step()

    @torch.no_grad()
    def prototypes(self) -> Tensor:
        """Return the mean embedding of the graphs that contain each motif, `(K, H)`."""
        self.model.eval()
        embedding = torch.cat([self.model.embed(batch) for batch in self.batches])
        holds = torch.cat(self.holds, dim=1)
        return holds @ embedding / holds.sum(dim=1, keepdim=True)


class NaiveFederation:
    """Federated averaging; with `method=motifair` also values, masked rewards and prototypes."""

    def __init__(self, config: Config, agents: list[Agent], motifs: int) -> None:
        self.config, self.agents, self.motifs = config, agents, motifs
        self.fair = config.method == "motifair"
        device = next(agents[0].model.parameters()).device
        graphs = torch.tensor([a.graphs for a in agents], dtype=torch.float64, device=device)
        self.share = graphs / graphs.sum()
        self.value = torch.full_like(graphs, 1 / len(agents))
        owned = torch.tensor([len(a.motifs) for a in agents], dtype=torch.float64, device=device)
        self.diversity = owned / max(motifs, 1)
        self.reference = self._references() if self.fair else [None] * len(agents)

    def round(self) -> None:
        """Run one round: train, upload, aggregate, adopt."""
        before = [_flat(a.model).clone() for a in self.agents]
        for agent, reference in zip(self.agents, self.reference, strict=True):
            agent.train(self.config, reference)
        updates = torch.stack([_flat(a.model) for a in self.agents]) - torch.stack(before)
        if self.fair:
            self._reward(before, updates)
            return
        total = (self.share[:, None].float() * updates).sum(dim=0)
        for agent, old in zip(self.agents, before, strict=True):
            vector_to_parameters(old + total, agent.model.parameters())

    def _reward(self, before: list[Tensor], updates: Tensor) -> None:
        """Update the agents' values, adopt masked rewards, and average prototypes."""
        c = self.config
        total = (self.value[:, None].float() * updates).sum(dim=0)
        alignment = F.cosine_similarity(updates, total[None])
        evidence = alignment.double() + c.diversity_weight * self.diversity
        value = self.value + c.value_rate * evidence
        self.value = value / value.sum()
        ratio = torch.tanh(self.value) / torch.tanh(self.value).max()
        self.reference = self._references()
        for k, agent in enumerate(self.agents):
            reward = torch.zeros_like(total)
            top = total.abs().topk(int(ratio[k] * len(total))).indices
            reward[top] = total[top]
            adopted = before[k] + c.retention * updates[k] + c.reward_step * reward
            vector_to_parameters(adopted, agent.model.parameters())

    def _references(self) -> list[Tensor | None]:
        """Average the agents' prototypes by value, and return those of each agent's motifs."""
        local = [a.prototypes() for a in self.agents]
        total = local[0].new_zeros(self.motifs, self.config.hidden)
        weight = local[0].new_zeros(self.motifs, 1)
        for agent, own, value in zip(self.agents, local, self.value.float(), strict=True):
            total[agent.motifs] += value * own
            weight[agent.motifs] += value
        return [(total / weight)[agent.motifs] for agent in self.agents]


def naive_federation(
    config: Config, members: Members, device: torch.device, *, loaded: bool = False
) -> NaiveFederation:
    """Build the naive federation from the members of a simulation.

    If `loaded`, PyG's loader shuffles and collates the graphs in every round (on a CPU, and for
    federated averaging only: motifs would be those of other graphs).
    """
    graphs, index = members.split.graphs, members.index
    features = members.features
    first = GIN(features.width, graphs.classes, config.hidden, config.layers)
    agents = []
    for k, numbers in enumerate(members.numbers):
        model = GIN(features.width, graphs.classes, config.hidden, config.layers).to(device)
        model.load_state_dict(first.state_dict())
        optimiser = torch.optim.Adam(
            model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )
        data = to_pyg(graphs.select(numbers), features)
        cuts = range(0, len(data), config.batch_size)
        batches: list[Batch] | DataLoader = (
            DataLoader(data, batch_size=config.batch_size, shuffle=True)
            if loaded
            else [Batch.from_data_list(data[c : c + config.batch_size]).to(device) for c in cuts]
        )
        holds = torch.tensor(members.train[k].motifs.T.toarray(), dtype=torch.float32)
        motifs = np.zeros(0, np.int64) if index is None else index.motif[index.agent == k]
        agents.append(
            Agent(
                model,
                optimiser,
                batches,
                [holds[:, c : c + config.batch_size].to(device) for c in cuts],
                torch.as_tensor(motifs, device=device),
                len(data),
            )
        )
    return NaiveFederation(config, agents, 0 if index is None else len(index.keys))


def to_pyg(graphs: GraphSet, features: Features) -> list[Data]:
    """Convert graphs to PyG `Data` objects with dense inputs."""
    x = torch.tensor(features.encode(graphs).toarray(), dtype=torch.float32)
    source = np.repeat(np.arange(len(graphs.degree)), graphs.degree)
    edges = torch.tensor(np.stack([source, graphs.neighbour]))
    data = []
    for g in range(len(graphs)):
        first, last = (int(n) for n in graphs.node_start[g : g + 2])
        start, end = (int(graphs.edge_start[n]) for n in (first, last))
        y = torch.tensor([int(graphs.target[g])])
        data.append(Data(x=x[first:last], edge_index=edges[:, start:end] - first, y=y))
    return data


def _mlp(hidden: int) -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Linear(hidden, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, hidden)
    )


def _flat(model: GIN) -> Tensor:
    return parameters_to_vector(model.parameters()).detach()
