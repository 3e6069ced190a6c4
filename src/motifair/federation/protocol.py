"""What travels between agents and server, as rows: one row for each agent, in order of name."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Judgement:
    """What agents say of their peers' own models before the first round.

    `loss[..., i, j]` is the loss of i's model on the graphs of j, `told[..., i, j]` how well it
    tells their classes apart (`discrimination`), `(..., A, A)` each; NaN where j does not judge i.
    """

    loss: Tensor
    told: Tensor


@dataclass(frozen=True)
class Uploads:
    """What agents send after local training.

    `update (A, D)` is the change of the shared parameters, `gradient (A, D)` the mean raw gradient
    where the method aligns gradients, `gradient_norm (A,)` the norm of the last one,
    `prototypes (M, H)` the local prototypes of all agents one after another, `loss (A,)` for
    the record, and `moments (A, U)` the mean second moments of units where they are made common.
    """

    update: Tensor
    gradient: Tensor | None
    gradient_norm: Tensor
    prototypes: Tensor | None
    loss: Tensor
    moments: Tensor | None = None

    def with_rows(
        self, rows: Tensor, *, update: Tensor | None = None, gradient: Tensor | None = None
    ) -> Uploads:
        """Return the uploads with another update or gradient in some rows; None leaves it.

        Gradients that the method does not ask for are still not sent.
        """
        return replace(
            self,
            update=self.update if update is None else with_rows(self.update, rows, update),
            gradient=(
                self.gradient
                if self.gradient is None or gradient is None
                else with_rows(self.gradient, rows, gradient)
            ),
        )

    def silent(self, rows: Tensor) -> Uploads:
        """Return the uploads in which the agents in some rows send zeros."""
        nothing = torch.zeros_like(self.update[rows])
        norm = with_rows(self.gradient_norm, rows, nothing.new_zeros(len(rows)))
        moments = self.moments
        if moments is not None:
            moments = with_rows(moments, rows, torch.zeros_like(moments[rows]))
        silent = self.with_rows(rows, update=nothing, gradient=nothing)
        return replace(silent, gradient_norm=norm, moments=moments)


def with_rows(table: Tensor, rows: Tensor, new: Tensor) -> Tensor:
    """Return a table with new rows in some places; the given one is left as it was."""
    changed = table.clone()
    changed[rows] = new.to(table.dtype)
    return changed


@dataclass(frozen=True)
class Downloads:
    """What the server sends back: to each agent its own reward and its own motifs' prototypes.

    `reward (A, D)`, `retained (A,)` the share of its own step an agent keeps; `prototypes (M, H)`
    and `active (M,)` in the order of the uploads; `moments (A, U)` those that are common, 0 where
    nobody has any.
    """

    reward: Tensor
    retained: Tensor
    prototypes: Tensor | None
    active: Tensor | None
    moments: Tensor | None = None
