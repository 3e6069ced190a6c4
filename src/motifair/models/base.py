"""What all graph networks here have in common: names, head, and how weights are handed over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from motifair.bags import BagSum
from motifair.graphs.batch import Batch
from motifair.models.layout import Layout
from motifair.models.perceptron import ALL, Keep, rectify

Parameters = dict[str, Tensor]


class Model(ABC):
    """A graph classifier: node embeddings, summed over a graph → linear, ReLU, dropout → linear.

    It holds no parameters: every call takes the weights of R agents `(R, D)`, unpacked by
    `layout`, and their graphs. `keep` says what dropout keeps, in each layer and at last in the
    head; without it nothing is dropped. A new network says what its body is made of and how it
    embeds graphs.
    """

    summed_inputs: ClassVar[bool] = False  # whether the first layer reads closed-neighbourhood sums
    structure: ClassVar[bool] = False  # whether it reads structural inputs of the nodes

    def __init__(self, width: int, classes: int, hidden: int, layers: int) -> None:
        self.width, self.classes, self.hidden, self.layers = width, classes, hidden, layers
        parts = [
            *linear_parts("pre", width, hidden),
            *self.body(),
            *linear_parts("post", hidden, hidden),
            *linear_parts("readout", hidden, classes),
        ]
        self.layout = Layout(tuple(n for n, _ in parts), tuple(s for _, s in parts))

    @abstractmethod
    def body(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return names and shapes of the parameters between input and head."""

    @abstractmethod
    def embed(self, p: Parameters, batch: Batch, keep: Sequence[Keep] = ()) -> Tensor:
        """Return the graph embeddings f_ω(G), `(R, G, H)`."""

    def classify(self, p: Parameters, embedding: Tensor, keep: Sequence[Keep] = ()) -> Tensor:
        """Return log-probabilities, `(R, G, H) -> (R, G, classes)`."""
        x = rectify(linear(embedding, p, "post"), kept(keep, self.layers))
        return F.log_softmax(linear(x, p, "readout"), dim=-1)

    def first(self, p: Parameters, batch: Batch) -> Tensor:
        """Apply the first linear map to the distinct inputs, `(R, Q, H)`.

        The bias is one more input, which the batch counts: a single bag sum applies both.
        """
        weight = torch.cat([p["pre.weight"], p["pre.bias"][:, None]], dim=1)
        return batch.inputs(weight.view(-1, self.hidden)).view(batch.rows, -1, self.hidden)


def linear_parts(name: str, inputs: int, outputs: int) -> list[tuple[str, tuple[int, ...]]]:
    """Name the parameters of a linear map."""
    return [(f"{name}.weight", (inputs, outputs)), (f"{name}.bias", (outputs,))]


def linear(x: Tensor, parameters: Parameters, name: str) -> Tensor:
    """Apply each agent's own linear map: `(R, n, in) -> (R, n, out)`."""
    weight, bias = pair(parameters, name)
    return torch.baddbmm(bias[:, None], x, weight)


def pair(parameters: Parameters, name: str) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a linear map."""
    return parameters[f"{name}.weight"], parameters[f"{name}.bias"]


def kept(keep: Sequence[Keep], layer: int) -> Keep:
    """Return what dropout keeps in a layer."""
    return keep[layer] if keep else ALL


def over_nodes(bag_sum: BagSum, x: Tensor) -> Tensor:
    """Apply a map of rows to a stack, `(R, n, H) -> (R, m, H)`."""
    return bag_sum(x.reshape(-1, x.shape[-1])).view(len(x), -1, x.shape[-1])
