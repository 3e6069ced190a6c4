"""The graph isomorphism network of the paper, for a stack of agents at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.models.layout import Layout

Parameters = dict[str, Tensor]


class GIN:
    """GIN with sum pooling: linear → layers × {MLP of closed-neighbourhood sums, ReLU, dropout}
    → sum over nodes (the graph embedding) → linear, ReLU, dropout → linear → log-softmax.

    It holds no parameters: every call takes the weights of R agents `(R, D)`, unpacked by
    `layout`, and their graphs. Dropout masks, one for each layer and a last one for the graphs,
    are multiplied in; without them nothing is dropped.
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

    def embed(self, p: Parameters, batch: Batch, masks: Sequence[Tensor] = ()) -> Tensor:
        """Return the graph embeddings f_ω(G), `(R, G, H)`."""
        R, H = batch.rows, self.hidden
        # The bias is one more input, which the batch counts: a single bag sum applies both.
        first = torch.cat([p["pre.weight"], p["pre.bias"][:, None]], dim=1)
        x = batch.inputs(first.view(-1, H)).view(R, -1, H)
        for k in range(self.layers):
            if k > 0:
                x = batch.closed(x.view(-1, H)).view(R, -1, H)
            x = F.relu(linear(x, p, f"convs.{k}.nn.0"))
            x = F.relu(linear(x, p, f"convs.{k}.nn.2"))
            if k == 0:
                x = batch.spread(x.view(-1, H)).view(R, -1, H)
            if masks:
                x = x * masks[k]
        return batch.pool(x.view(-1, H)).view(R, -1, H)

    def classify(self, p: Parameters, embedding: Tensor, masks: Sequence[Tensor] = ()) -> Tensor:
        """Return log-probabilities, `(R, G, H) -> (R, G, classes)`."""
        x = F.relu(linear(embedding, p, "post"))
        if masks:
            x = x * masks[self.layers]
        return F.log_softmax(linear(x, p, "readout"), dim=-1)


def linear(x: Tensor, parameters: Parameters, name: str) -> Tensor:
    """Apply each agent's own linear map: `(R, n, in) -> (R, n, out)`."""
    bias = parameters[f"{name}.bias"][:, None, :]
    return torch.baddbmm(bias, x, parameters[f"{name}.weight"])
