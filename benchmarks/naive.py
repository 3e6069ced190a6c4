"""The round that everybody writes first: one agent after another, plain PyG, nothing clever.

Graphs are collated once and prototypes come from an incidence matrix, so what is compared is the
arithmetic and not a careless loop.
"""

from __future__ import annotations

import torch
from oracles.naive import GIN
from torch_geometric.data import Batch, Data


class NaiveFederation:
    def __init__(self, graphs: list[list[Data]], incidence: list[torch.Tensor]) -> None:
        features = graphs[0][0].x.shape[1]
        self.models = [GIN(features, 2) for _ in graphs]
        for model in self.models[1:]:
            model.load_state_dict(self.models[0].state_dict())
        self.optimisers = [
            torch.optim.Adam(m.parameters(), lr=1e-3, weight_decay=5e-4) for m in self.models
        ]
        self.batches = [Batch.from_data_list(g) for g in graphs]
        self.incidence = [i / i.sum(dim=1, keepdim=True) for i in incidence]
        self.value = torch.full((len(graphs),), 1 / len(graphs), dtype=torch.float64)
        self.reference = self._prototypes()

    def round(self) -> None:
        """Train, upload, aggregate, value, mask, adopt; prototypes out and back."""
        before = [_flat(m).clone() for m in self.models]
        for k, model in enumerate(self.models):
            model.train()
            self.optimisers[k].zero_grad()
            log_probs, embedding = model(self.batches[k], dropout=0.5)
            loss = torch.nn.functional.nll_loss(log_probs, self.batches[k].y)
            local = torch.nn.functional.normalize(self.incidence[k] @ embedding)
            reference = torch.nn.functional.normalize(self.reference[k])
            (loss + 0.1 * (local - reference).norm(dim=1).mean()).backward()
            self.optimisers[k].step()
        updates = torch.stack([_flat(m) for m in self.models]) - torch.stack(before)
        total = (self.value[:, None].float() * updates).sum(dim=0)
        alignment = torch.nn.functional.cosine_similarity(updates, total[None])
        self.value = self.value + 0.05 * (alignment.double() + 0.8)
        self.value = self.value / self.value.sum()
        ratio = torch.tanh(self.value) / torch.tanh(self.value).max()
        self.reference = self._prototypes()
        for k, model in enumerate(self.models):
            reward = torch.zeros_like(total)
            top = total.abs().topk(int(ratio[k] * len(total))).indices
            reward[top] = total[top]
            adopted = before[k] + 0.1 * updates[k] + 3 * reward
            torch.nn.utils.vector_to_parameters(adopted, model.parameters())

    @torch.no_grad()
    def _prototypes(self) -> list[torch.Tensor]:
        found = []
        for k, model in enumerate(self.models):
            model.eval()
            found.append(self.incidence[k] @ model(self.batches[k])[1])
        return found


def _flat(model: GIN) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()
