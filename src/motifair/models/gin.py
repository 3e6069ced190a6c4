"""The graph isomorphism network of the paper, for a stack of agents at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.models.layout import Layout

Dropout = Callable[[int, Tensor], Tensor]


def no_dropout(layer: int, x: Tensor) -> Tensor:
    """Evaluate: every unit stays."""
    return x


class GIN:
    """GIN with sum pooling: linear → layers × {MLP of closed-neighbourhood sums, ReLU, dropout}
    → sum over nodes (the graph embedding) → linear, ReLU, dropout → linear → log-softmax.

    It holds no parameters: every call takes the weights of R agents `(R, D)` and their graphs.
    """

    def __init__(self, width: int, classes: int, hidden: int, layers: int) -> None:
        self.width, self.classes, self.hidden, self.layers = width, classes, hidden, layers
        names = [("pre", width, hidden)]
        for k in range(layers):
            names += [(f"convs.{k}.nn.0", hidden, hidden), (f"convs.{k}.nn.2", hidden, hidden)]
        names += [("post", hidden, hidden), ("readout", hidden, classes)]
        self.layout = Layout(
            names=tuple(f"{n}.{part}" for n, _, _ in names for part in ("weight", "bias")),
            shapes=tuple(s for _, i, o in names for s in ((i, o), (o,))),
        )

    def embed(self, weights: Tensor, batch: Batch, dropout: Dropout = no_dropout) -> Tensor:
        """Return the graph embeddings f_ω(G), `(R, D) -> (R, G, H)`."""
        R, H = len(weights), self.hidden
        p = self.layout.unpack(weights)
        # Weight and bias of the first linear map are adjacent, so one bag sum applies both.
        first = weights[:, : (self.width + 1) * H].reshape(R * (self.width + 1), H)
        x = batch.inputs(first).view(R, -1, H)
        for k in range(self.layers):
            if k > 0:
                x = batch.closed(x.view(-1, H)).view(R, -1, H)
            x = F.relu(linear(x, p, f"convs.{k}.nn.0"))
            x = F.relu(linear(x, p, f"convs.{k}.nn.2"))
            if k == 0:
                x = batch.spread(x.view(-1, H)).view(R, -1, H)
            x = dropout(k, x)
        return batch.pool(x.view(-1, H)).view(R, -1, H)

    def classify(self, weights: Tensor, embedding: Tensor, dropout: Dropout = no_dropout) -> Tensor:
        """Return log-probabilities, `(R, G, H) -> (R, G, classes)`."""
        p = self.layout.unpack(weights)
        x = dropout(self.layers, F.relu(linear(embedding, p, "post")))
        return F.log_softmax(linear(x, p, "readout"), dim=-1)


def linear(x: Tensor, parameters: dict[str, Tensor], name: str) -> Tensor:
    """Apply each agent's own linear map: `(R, n, in) -> (R, n, out)`."""
    bias = parameters[f"{name}.bias"][:, None, :]
    return torch.baddbmm(bias, x, parameters[f"{name}.weight"])
