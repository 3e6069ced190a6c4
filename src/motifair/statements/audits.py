"""Audits of claims: what the terms say of them, whom they draw, and why claiming does not pay.

Members say before the first round which graphs they have, and are paid by them. After the last
round some members, whom nobody chooses, show some of these graphs, which nobody chooses either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

MOST_FINE, MOST_GRAPHS, MOST_DAYS = 1000, 10_000, 3650


@dataclass(frozen=True)
class AuditTerms:
    """After the last round each member is drawn with probability `share`. It shows `graphs` of
    those that it claimed, drawn as well, within `days`; if one is not shown, it pays `fine` times
    what the run paid it.

    >>> AuditTerms().expected_gain(invented=0.5) < 0
    True
    """

    share: float = 0.25
    graphs: int = 20
    fine: int = 5
    days: int = 30

    def flaws(self) -> Iterator[str]:
        """Yield a sentence for each invalid value."""
        share: Any = self.share
        if type(share) not in (int, float) or not 0 < share <= 1:
            yield f"share must be a number above 0 and up to 1, not {share}"
        for name, most in (("graphs", MOST_GRAPHS), ("fine", MOST_FINE), ("days", MOST_DAYS)):
            number = getattr(self, name)
            if type(number) is not int or not 1 <= number <= most:
                yield f"{name} must be a whole number from 1 to {most}, not {number}"

    def draws(self, head: str, member: str) -> bool:
        """Return whether a member is drawn by the hash of the last entry, which nobody chooses.

        The first 32 bits of the SHA-256 of `HEAD/MEMBER` are below the share of 2^32.
        """
        word = int(sha256(f"{head}/{member}".encode()).hexdigest()[:8], 16)
        return word < self.share * 2**32

    def expected_gain(self, invented: float, brought: float | None = None) -> float:
        """Return what a claim of which the share f is invented is expected to bring, as a part of
        the pay with it: `brought` − q·(1 − (1 − f)^m)·F.

        `brought` is the part of the pay that the invented graphs brought, by default f: pay grows
        at most in proportion to claimed graphs. The fine is at least q·F·f, so that where q·F ≥ 1
        no claim pays, whatever f is.
        """
        return (invented if brought is None else brought) - self.expected_fine(invented)

    def expected_fine(self, invented: float) -> float:
        """Return q·(1 − (1 − f)^m)·F, the fine that is expected, as a part of the pay."""
        return self.share * found_out(invented, self.graphs) * self.fine


def found_out(invented: float, asked: int) -> float:
    """Return the probability 1 − (1 − f)^m that a question of m graphs finds a claim of which the
    share f is invented.

    >>> round(found_out(0.5, 5), 3), found_out(0.0, 5)
    (0.969, 0.0)
    """
    return 1.0 - (1.0 - invented) ** asked
