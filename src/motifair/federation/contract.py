"""What a method must return in every round, and what training must not run into.

Shapes are checked at once. Numbers are checked when the record of a round is on the host, since a
round recorded as a CUDA graph cannot be looked into; nothing is saved or paid before that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from motifair.errors import MotifairError
from motifair.methods import Method

TOLERANCE = 1e-6  # what rounding of values to 1e-12 can add up to, over many agents and rounds


def shaped(method: Method, hook: str, answer: Any, *shapes: tuple[int, ...]) -> Tensor:
    """Return what a hook of a method returned, if it is a tensor of one of these shapes."""
    if isinstance(answer, Tensor) and tuple(answer.shape) in shapes:
        return answer
    what = f"shape {tuple(answer.shape)}" if isinstance(answer, Tensor) else type(answer).__name__
    wanted = " or ".join(str(shape) for shape in shapes)
    raise MotifairError(
        f"Method '{method.name}' returned {what} from `{hook}`; "
        f"it must return a tensor of shape {wanted}."
    )


def two_shaped(
    method: Method, hook: str, answer: Any, shape: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """Return the two tensors that a hook of a method returned, if they have this shape."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        what = f"{len(answer)} results" if isinstance(answer, tuple) else type(answer).__name__
        raise MotifairError(
            f"Method '{method.name}' returned {what} from `{hook}`; "
            f"it must return two tensors of shape {shape}."
        )
    first, second = (shaped(method, hook, part, shape) for part in answer)
    return first, second


def check_round(
    method: Method, round: int, names: Sequence[str], row: Mapping[str, np.ndarray]
) -> None:
    """Stop where training diverged, or where the method broke its contract; `row` is the record.

    `kept` is NaN for an agent whose reward is not finite. Alignments may be NaN.
    """
    for column, what in (("loss", "loss"), ("update_norm", "update")):
        bad = ~np.isfinite(row[column])
        if bad.any():
            raise MotifairError(
                f"The {what} of {names[int(bad.argmax())]} is not finite in round {round}; "
                f"lower learning_rate ({method.config.learning_rate:g})."
            )
    budget, payoff = method.config.budget, row["payoff"]
    if not abs(row["value"].sum() - 1) <= TOLERANCE:  # nor where it is NaN
        rule = "`valuate` must return values that add up to 1"
        raise _broken(method, round, "values", row["value"], rule)
    if not (np.isfinite(payoff).all() and payoff.sum() <= budget * (1 + TOLERANCE)):
        rule = f"`settle` must return payoffs that add up to the budget ({budget:g}) or less"
        raise _broken(method, round, "payoffs", payoff, rule)
    if not np.isfinite(row["compensation"]).all():
        rule = "`settle` must return finite compensations"
        raise _broken(method, round, "compensations", row["compensation"], rule)
    if not np.isfinite(row["kept"]).all():
        rule = "`weigh`, `ratio`, `adjust` and `retain` must return finite numbers"
        raise _broken(method, round, "rewards", row["kept"], rule)


def _broken(method: Method, round: int, what: str, answer: np.ndarray, rule: str) -> MotifairError:
    how = f"add up to {answer.sum():g}" if np.isfinite(answer).all() else "are not finite"
    return MotifairError(
        f"Method '{method.name}' returned {what} that {how} in round {round}; {rule}."
    )
