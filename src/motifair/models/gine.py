"""GIN with edge labels (GINE)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from motifair.bag_sum import BagSum
from motifair.graphs.batch import Batch, DistinctNodes
from motifair.graphs.messages import Messages
from motifair.graphs.task import Task
from motifair.models import message_sum
from motifair.models.gin import GIN, Convolution
from motifair.models.perceptron import Mlp, sum_rows


class GINE(GIN):
    """layers × {MLP of x_i + Σ_j ReLU(x_j + t(e_ij)), ReLU, dropout}, then sum pooling.

    t is a linear layer of each convolution on the one-hot labels of the edges. The first
    convolution uses distinct neighbourhoods, where the batch has them.

    Args:
        width: Number of inputs of a node.
        classes: Number of classes, or of outputs of another task.
        hidden: Width H of all hidden layers.
        layers: Number of graph convolutions.
        edges: Number of edge labels.
        task: What it predicts, by default classes.
    """

    summed_inputs = False

    def __init__(
        self,
        width: int,
        classes: int,
        hidden: int,
        layers: int,
        edges: int,
        *,
        task: Task | None = None,
    ) -> None:
        self.edges = edges
        super().__init__(width, classes, hidden, layers, task=task)
        self.tables = [self.layout.span(f"convs.{k}.lin.") for k in range(layers)]

    def convolutions(self, weights: Tensor) -> list[Convolution]:
        """Return the parameters of every convolution, as views of the weights."""
        parts = self.layout.split(weights)[2:-4]
        tables = [weights[:, span].view(len(weights), -1, self.hidden) for span in self.tables]
        return [Convolution(Mlp(*parts[6 * k : 6 * k + 4]), t) for k, t in enumerate(tables)]

    def gather(self, layer: int, x: Tensor, table: Tensor, batch: Batch) -> tuple[Tensor, ...]:
        """Return the sums of messages, and the messages."""
        if layer == 0 and batch.first is None:
            x = sum_rows(batch.spread.forward, x)
        return message_sum.forward(x, table, _messages(layer, batch))

    def gather_backward(
        self, layer: int, g: Tensor, saved: Sequence[Tensor], table: Tensor, batch: Batch
    ) -> tuple[Tensor, ...]:
        """Return the gradients of x and of the table."""
        g, of_table = message_sum.backward(g, saved[0], table, _messages(layer, batch))
        if layer == 0 and batch.first is None:
            g = sum_rows(batch.spread.backward, g)
        return g, of_table

    def gather_distinct(
        self, layer: int, x: Tensor, table: Tensor, distinct: DistinctNodes
    ) -> Tensor:
        """Return the sums of messages of a layer's distinct nodes."""
        return message_sum.forward(x, table, distinct.messages[layer]).y

    def spread(self, layer: int, batch: Batch) -> BagSum | None:
        """Return the map of distinct neighbourhoods to nodes, if there is one."""
        return batch.first.spread if layer == 0 and batch.first is not None else None


def _messages(layer: int, batch: Batch) -> Messages:
    if layer == 0 and batch.first is not None:
        return batch.first.messages
    assert batch.messages is not None
    return batch.messages
