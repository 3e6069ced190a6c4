"""Sums of messages along labelled edges, x_i + Σ_j ReLU(x_j + t(e_ij)), and their gradients."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from motifair.graphs.messages import Messages
from motifair.kernels import rectify_, rectify_backward, send, send_backward
from motifair.models.perceptron import NO_DROPOUT, sum_rows


class MessageSum(NamedTuple):
    """Sums `y (R, m, H)`, and the messages `(R, P, H)` for the backward pass."""

    y: Tensor
    message: Tensor


def forward(x: Tensor, table: Tensor, maps: Messages) -> MessageSum:
    """Return the sums for inputs x, `(R, n, H) -> (R, m, H)`.

    `table (R, K + 1, H)` is the layer t of the edge labels, its bias last.
    """
    if x.device.type == "cpu":
        labels = (table + table[:, -1:]).flatten(0, 1)
        message = send(x.flatten(0, 1), labels, maps.senders).view(len(x), -1, x.shape[2])
    else:
        message = send_by_bag_sums(x, table, maps)
    own = x if maps.own is None else sum_rows(maps.own.forward, x)
    return MessageSum(sum_rows(maps.total.forward, message).add_(own), message)


def backward(g: Tensor, message: Tensor, table: Tensor, maps: Messages) -> tuple[Tensor, Tensor]:
    """Return the gradients of the inputs and of the table."""
    own = g if maps.own is None else sum_rows(maps.own.backward, g)
    g = sum_rows(maps.total.backward, g)
    if g.device.type != "cpu":
        return backward_by_bag_sums(g, message, own, maps)
    agents, labels, _ = table.shape
    g, message, of_own = (tensor.flatten(0, 1) for tensor in (g, message, own))
    of_x, of_labels = send_backward(g, message, of_own, maps.senders, agents * labels, agents)
    of_table = of_labels.view_as(table)
    of_table[:, -1] = of_table[:, :-1].sum(dim=1)
    return of_x.view_as(own), of_table


def send_by_bag_sums(x: Tensor, table: Tensor, maps: Messages) -> Tensor:
    """Return the messages, on any device."""
    of_edge = sum_rows(maps.inputs.forward, table)
    return rectify_(sum_rows(maps.source.forward, x) + of_edge, None, *NO_DROPOUT)


def backward_by_bag_sums(
    g: Tensor, message: Tensor, own: Tensor, maps: Messages
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the inputs, added to `own`, and of the table, on any device."""
    g = rectify_backward(g, message, 1.0)[0]
    return own + sum_rows(maps.source.backward, g), sum_rows(maps.inputs.backward, g)
