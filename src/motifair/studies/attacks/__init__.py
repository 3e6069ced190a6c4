"""Attacks of one agent or a few: what they change, and the list of those that are studied."""

from motifair.studies.attacks.catalogue import ATTACKS
from motifair.studies.attacks.contract import (
    HONEST,
    Attack,
    AttackContext,
    Cast,
    PreviousRound,
)

__all__ = ["ATTACKS", "HONEST", "Attack", "AttackContext", "Cast", "PreviousRound"]
