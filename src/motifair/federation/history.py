"""History of a run: what was recorded of every agent in every round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

COLUMNS = (
    "value", "alignment", "diversity", "kept", "payoff", "compensation", "update_norm", "loss",
    "accuracy", "one_class", "uploaded", "downloaded", "contribution", "shapley",
)  # fmt: skip


# Columns of the rounds that are evaluated.
EVALUATED = ("accuracy", "one_class", "contribution", "shapley")


class History:
    """A table `(rounds, agents)` for each of `COLUMNS`, and the server model's accuracy.

    `one_class` is 1 where an agent predicts the same class for all its test graphs; `uploaded` and
    `downloaded` are bytes. Rounds not yet run, and what was not evaluated or measured, are NaN.
    `side_by_side` is the number of federations in the stack.
    """

    def __init__(self, names: Sequence[str], rounds: int, *, side_by_side: int = 1) -> None:
        self.names = tuple(names)
        self.side_by_side = side_by_side
        self.columns = {c: np.full((rounds, len(names)), np.nan) for c in COLUMNS}
        self.global_accuracy = np.full(rounds, np.nan)

    def __repr__(self) -> str:
        done = int(np.isfinite(self.columns["loss"]).all(axis=1).sum())
        return f"History({done} rounds of {len(self.names)} agents)"

    def record(self, round: int, row: Mapping[str, np.ndarray]) -> None:
        """Write what is known of a round (counted from 1)."""
        for column, values in row.items():
            self.columns[column][round - 1] = values

    def lengthen(self, rounds: int, eval_every: int) -> None:
        """Add empty rounds at the end, so that a run can continue to round `rounds`.

        The last round of a run is always evaluated; as a round in between it is so only every
        `eval_every` rounds.
        """
        last = len(self.global_accuracy)
        if rounds <= last:
            return
        self.global_accuracy = _lengthened(self.global_accuracy, rounds)
        self.columns = {c: _lengthened(v, rounds) for c, v in self.columns.items()}
        if last % eval_every:
            self.global_accuracy[last - 1] = np.nan
            self.record(last, dict.fromkeys(EVALUATED, np.array(np.nan)))

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each round and agent."""
        rounds = len(self.global_accuracy)
        frame = pd.DataFrame(
            {
                "round": np.repeat(np.arange(1, rounds + 1), len(self.names)),
                "agent": np.tile(np.array(self.names), rounds),
                **{c: self.columns[c].ravel() for c in COLUMNS},
                "global_accuracy": np.repeat(self.global_accuracy, len(self.names)),
            }
        )
        return frame.astype({"kept": "Int64"})


def _lengthened(rows: np.ndarray, rounds: int) -> np.ndarray:
    more = np.full((rounds - len(rows), *rows.shape[1:]), np.nan)
    return np.concatenate([rows, more])
