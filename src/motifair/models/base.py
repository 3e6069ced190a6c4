"""`Model`, what training and evaluation know of a graph network, and `StackedModel`, the base class
of the built-in ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from motifair.graphs.batch import Batch
from motifair.graphs.task import BINARY, CLASSES, Task
from motifair.kernels import dense, dense_backward, linear_backward
from motifair.kernels import linear as product
from motifair.models.layout import Layout
from motifair.models.perceptron import NO_DROPOUT, DropoutMask

Parameters = dict[str, Tensor]
NEVER = -1e30  # score of a class that an agent does not have: finite, so that 0 times it is 0


class Dropout(Protocol):
    """Draws the dropout masks of a training step (`learning.randomness.DropoutBits`)."""

    rate: float
    scale: float

    def __call__(self, keys: Tensor, units: Sequence[int]) -> list[Tensor]:
        """Return the masks of every layer, `(R, words)`, given its number of units per row."""
        ...


@dataclass(frozen=True)
class Noise:
    """Randomness of one training step: a key for each agent, `(R,)`, and the dropout of built-in
    networks.
    """

    keys: Tensor
    dropout: Dropout


class Model(ABC):
    """A graph network as training and evaluation know it.

    A model holds no parameters: every call takes the weights of R agents, `(R, D)`, and their
    graphs. `layout` names the parameters within a row. There are two kinds: `StackedModel`, the
    built-in networks, which compute all rows at once, and `ModuleModel`, a PyG module of the user.

    Attributes:
        layout: Names and shapes of the parameters.
        task: What it predicts.
        width: Number of inputs of a node.
        hidden: Width H of the graph embeddings; 0 if it has none, and no prototypes.
    """

    summed_inputs: ClassVar[bool] = False  # whether the first layer reads closed-neighbourhood sums
    structure: ClassVar[bool] = False  # whether it reads structural inputs of the nodes
    recordable: ClassVar[bool] = True  # whether a pass can be recorded as a CUDA graph

    layout: Layout
    task: Task
    width: int
    hidden: int

    @property
    def distinct_layers(self) -> int:
        """Number of layers that can use `Batch.distinct`: none, or all."""
        return 0

    @abstractmethod
    def forward(
        self, weights: Tensor, batch: Batch, noise: Noise | None = None
    ) -> tuple[Tensor | None, Tensor]:
        """Return graph embeddings `(R, G, H)`, if it has any, and scores `(R, G, outputs)`.

        Scores are log-probabilities of classes, logits of binary tasks, or standardised numbers.
        With `noise` it is a pass of training, otherwise nothing is dropped.
        """

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Return what makes the network again, together with its inputs and its task, as JSON."""

    @abstractmethod
    def embed(self, weights: Tensor, batch: Batch) -> Tensor:
        """Return the graph embeddings f_ω(G), `(R, G, H)`, of a model that has some."""

    def predicted(self, scores: Tensor) -> Tensor:
        """Return probabilities for the scores of classes or binary tasks; numbers as they are."""
        if self.task.kind == CLASSES:
            return scores.exp()
        return scores.sigmoid() if self.task.kind == BINARY else scores


class StackedModel(Model):
    """A built-in network: node embeddings, sum pooling, linear, ReLU, dropout, linear.

    All rows are computed at once. A subclass implements `body` and `embed`. Where a method has
    `keep`, it is a dropout mask for each layer and a last one for the head; without it nothing is
    dropped.

    Args:
        width: Number of inputs of a node.
        classes: Number of classes, or of outputs of another task.
        hidden: Width H of all hidden layers.
        layers: Number of graph convolutions.
        task: What it predicts, by default classes.

    >>> from motifair.models import GIN
    >>> model = GIN(width=4, classes=2, hidden=8, layers=1)
    >>> model.layout.names[:3], model.layout.initial(seed=0, dtype=torch.float32).shape
    (('pre.weight', 'pre.bias', 'convs.0.nn.0.weight'), torch.Size([274]))
    """

    def __init__(
        self, width: int, classes: int, hidden: int, layers: int, *, task: Task | None = None
    ) -> None:
        self.task = Task(CLASSES, classes) if task is None else task
        self.width, self.classes, self.hidden, self.layers = width, classes, hidden, layers
        parts = [
            *linear_parts("pre", width, hidden),
            *self.body(),
            *linear_parts("post", hidden, hidden),
            *linear_parts("readout", hidden, classes),
        ]
        names, shapes = tuple(n for n, _ in parts), tuple(s for _, s in parts)
        # Sum pooling would otherwise learn a rare answer as "the larger the graph, the rarer".
        centres = {"readout.bias": self.task.log_odds} if self.task.log_odds else {}
        self.layout = Layout(names, shapes, self.initial_bounds(), centres)

    @abstractmethod
    def body(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return names and shapes of the parameters between the first layer and the head."""

    def initial_bounds(self) -> dict[str, float]:
        """Return bounds of initial weights by name, where not those of `torch.nn.Linear`."""
        return {}

    def forward(
        self, weights: Tensor, batch: Batch, noise: Noise | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return graph embeddings `(R, G, H)` and scores `(R, G, outputs)`."""
        keep = () if noise is None else self.masks(noise, batch)
        embedding = self.embed(weights, batch, keep)
        return embedding, self.classify(weights, embedding, keep, batch.allowed)

    def about(self) -> dict[str, Any]:
        """Return its sizes."""
        return {"hidden": self.hidden, "layers": self.layers}

    def masks(self, noise: Noise, batch: Batch) -> list[DropoutMask]:
        """Draw the dropout masks of one step: for the nodes of each layer, and for the graphs."""
        dropout, graphs = noise.dropout, batch.target.shape[1]
        if dropout.rate == 0:
            return [NO_DROPOUT] * (self.layers + 1)
        units = [batch.nodes * self.hidden] * self.layers + [graphs * self.hidden]
        return [DropoutMask(bits, dropout.scale) for bits in dropout(noise.keys, units)]

    @abstractmethod
    def embed(self, weights: Tensor, batch: Batch, keep: Sequence[DropoutMask] = ()) -> Tensor:
        """Return the graph embeddings f_ω(G), `(R, G, H)`."""

    def classify(
        self,
        weights: Tensor,
        embedding: Tensor,
        keep: Sequence[DropoutMask] = (),
        allowed: Tensor | None = None,
    ) -> Tensor:
        """Return the scores of graphs, `(R, G, H) -> (R, G, classes)`.

        Classes that are not `allowed (R, 1, classes)` have the probability 0; by default all are.
        """
        drop, normalised = layer_mask(keep, self.layers), self.task.kind == CLASSES
        result: Tensor = _Head.apply(weights, embedding, self.layout, drop, normalised, allowed)  # type: ignore[no-untyped-call]
        return result

    def first(self, weights: Tensor, batch: Batch) -> Tensor:
        """Apply the first linear layer to the distinct inputs, `(R, Q, H)`.

        The bias, which follows the matrix in a row, is the weight of the last input, so that one
        bag sum applies both.
        """
        both = weights[:, : (self.width + 1) * self.hidden].reshape(-1, self.hidden)
        return batch.inputs(both).view(batch.rows, -1, self.hidden)


class _Head(torch.autograd.Function):
    """linear, ReLU, dropout, linear and, if `normalised`, log-softmax; the backward pass is
    explicit.
    """

    @staticmethod
    def forward(
        ctx: Any,
        weights: Tensor,
        embedding: Tensor,
        layout: Layout,
        keep: DropoutMask,
        normalised: bool,
        allowed: Tensor | None,
    ) -> Tensor:
        post, post_bias, readout, readout_bias = layout.head(weights)
        x = dense(embedding, post, post_bias, *keep)
        scores = product(x, readout, readout_bias)
        if normalised:
            scores = torch.log_softmax(of_own_classes(scores, allowed), dim=-1)
        ctx.layout, ctx.scale, ctx.normalised = layout, keep.scale, normalised
        ctx.save_for_backward(weights, embedding, x, scores)
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weights, embedding, x, scores = ctx.saved_tensors
        body = weights.shape[1] - ctx.layout.tail(weights).shape[1]
        post, _, readout, _ = ctx.layout.head(weights)
        g = gradient
        if ctx.normalised:
            g = gradient - scores.exp() * gradient.sum(dim=-1, keepdim=True)
        of_x, *of_readout = linear_backward(g, x, readout)
        of_embedding, *of_post = dense_backward(of_x, x, embedding, post, ctx.scale)
        of_head = (*of_post, *of_readout)
        row = [weights.new_zeros(len(weights), body), *(tensor.flatten(1) for tensor in of_head)]
        return torch.cat(row, dim=1), of_embedding, None, None, None, None


def of_own_classes(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """Return the scores `(R, G, classes)` with those of classes that an agent does not have at
    `NEVER`; see `Batch.allowed`.
    """
    return scores if allowed is None else scores.masked_fill(~allowed, NEVER)


def linear_parts(name: str, inputs: int, outputs: int) -> list[tuple[str, tuple[int, ...]]]:
    """Return names and shapes of the parameters of a linear layer."""
    return [(f"{name}.weight", (inputs, outputs)), (f"{name}.bias", (outputs,))]


def linear(x: Tensor, parameters: Parameters, name: str) -> Tensor:
    """Apply each agent's own linear layer, `(R, n, in) -> (R, n, out)`."""
    return product(x, *pair(parameters, name))


def pair(parameters: Parameters, name: str) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a linear layer."""
    return parameters[f"{name}.weight"], parameters[f"{name}.bias"]


def layer_mask(keep: Sequence[DropoutMask], layer: int) -> DropoutMask:
    """Return the dropout mask of a layer."""
    return keep[layer] if keep else NO_DROPOUT
