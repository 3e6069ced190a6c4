"""FedProx: federated averaging that does not let agents drift far in a round."""

from __future__ import annotations

from motifair.config import option
from motifair.learning.objective import ProximalTerm, Term, supervised
from motifair.methods.base import Method


class FedProx(Method):
    """FedAvg with (μ/2)·|w − w_received|² over the shared parameters in the local objective."""

    name = "fedprox"
    stacked = True
    summary = "federated averaging with a proximal term"
    mu: float = option(0.01, "weight of the proximal term [μ]", least=0)

    def terms(self, shared: slice) -> tuple[Term, ...]:
        """Return loss and proximal term."""
        return supervised, ProximalTerm(self.mu, shared)
