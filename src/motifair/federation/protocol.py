"""What travels between agents and server, as rows: one row for each agent, in order of name."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Uploads:
    """What agents send after local training.

    `update (A, D)` is the change of the shared parameters, `gradient (A, D)` the mean raw gradient
    where the method aligns gradients, `gradient_norm (A,)` the norm of the last one,
    `prototypes (M, H)` the local prototypes of all agents one after another, `loss (A,)` for the
    record, and `agreement (A,)`, how well the received model told the agent's classes apart
    (`discrimination`), where the method uses it, else NaN.
    """

    update: Tensor
    gradient: Tensor | None
    gradient_norm: Tensor
    prototypes: Tensor | None
    loss: Tensor
    agreement: Tensor


@dataclass(frozen=True)
class Downloads:
    """What the server sends back: to each agent its own reward and its own motifs' prototypes.

    `reward (A, D)`, `retained (A,)` the share of its own step an agent keeps; `prototypes (M, H)`
    and `active (M,)` in the order of the uploads.
    """

    reward: Tensor
    retained: Tensor
    prototypes: Tensor | None
    active: Tensor | None
