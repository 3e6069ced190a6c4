"""Named sets of options: scenarios, and the profiles that have the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCENARIOS: Mapping[str, Mapping[str, str]] = {
    "none": {},
    "iid": {"partition": "iid", "perturbation": "none"},
    "sizes": {"partition": "sizes", "perturbation": "none"},
    "dirichlet": {"partition": "dirichlet", "perturbation": "none"},
    "rewired": {"partition": "iid", "perturbation": "tiers"},
    "label-noise": {"partition": "iid", "perturbation": "label-noise"},
    "inverted": {"partition": "iid", "perturbation": "inverted"},
    "duplicates": {"partition": "iid", "perturbation": "duplicates"},
    "twins": {"partition": "iid", "perturbation": "twins"},
    "exclusive-structure": {"partition": "exclusive-structure", "perturbation": "none"},
    "exclusive-class": {"partition": "exclusive-class", "perturbation": "none"},
    "free-riders": {"partition": "iid", "perturbation": "free-riders"},
}

PROFILES: Mapping[str, Mapping[str, Any]] = {
    "paper": {},
    "default": {
        "features": "auto",
        "rings": "chordless",
        "max_ring": 4,
        "chance": True,
        "vocabulary_fraction": 1.0,
        "alignment_against": "coverage",
        "size": "believed",
        "initial_value": "evidence",
        "trial_rounds": 100,
        "bounded": True,
        "moments": "auto",
        "corroboration": 2,
        "value_guard": True,
        "value_rate": 0.2,
        "diversity_weight": 0.0,
        "aggregation": "trusted",
        "aggregate_length": "typical",
        "reward_for": "relative-value",
        "own_weight": 0.3,
        "own_prior": 4.0,
        "prototype_distance": "unit",
        "prototype_reduce": "mean",
    },
}
