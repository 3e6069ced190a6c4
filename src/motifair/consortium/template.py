"""Templates of `federation.toml`: for a new federation, and for its members."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from motifair.graphs.csv_file import BY_NAME, Columns
from motifair.graphs.molecules import LARGEST_RING
from motifair.graphs.schema import Schema

_TEXT = """\
# The terms of a federation. Every member gets a copy in its startup kit, without comments and
# without the location of the ledger, and agrees to it by starting its agent, which refuses a server
# with other terms.

[federation]
name = "{name}"
members = [{members}]
quorum = {quorum}        # a round waits until so many uploads are valid
deadline = 60.0    # seconds the server waits for uploads in a round
max_norm = 1000.0  # an update longer than this counts as absent
max_size_ratio = 2.0  # a member's graphs count at most as so many times the median's
# max_time_ratio = 10.0  # a member that takes longer than so many times the median is not paid
# members_key = ""  # what a member's `motifair federation members-key` prints: motifs are hashed

[server]
host = "localhost"          # as members connect to it
port = 8002
ledger = "ledger.sqlite"    # or postgresql://user:password@host/database
retain_uploads = true       # keep them for an audit, which recomputes every value

[money]
currency = "EUR"
budget = "1000.00"              # paid out in a round; a round that is not settled leaves its
                                # budget to the next, the last one to the operator
max_penalty = "100.00"          # the most a member pays in a round
max_total_penalty = "1000.00"   # and in total
reserve = "the operator"        # who holds what absent members miss; without it the others get it

[audit]            # of claims, after the last round; see docs/manipulation.md
share = 0.25       # the probability with which a member is drawn, by the ledger's last hash
graphs = 20        # how many of the graphs that it claimed it then has to show
fine = 5           # so many times what the run paid it, if one is not shown; share x fine >= 1
days = 30          # that it has for it

[training]         # any option of motifair run
method = "motifair"
profile = "default"
rounds = 200
{training}
# [privacy]          # differential privacy of uploads; see docs/privacy.md for guarantee and cost
#                    # (what the default also sends cannot be protected by noise: set
#                    # size = "claimed", trial_rounds = 0 and, for binary tasks, moments = "own"
#                    # in [training], and remove [audit])
# clip_update = 0.03       # largest norm of an update
# noise_update = 20.0      # noise in each component, as a multiple of that
# clip_prototype = 100.0   # largest norm of all prototypes of an upload together
# noise_prototype = 20.0
# delta = 1e-5             # for which epsilon is stated

[schema]           # of the graphs; made from a sample by: motifair federation init --like
features = "{features}"
columns = {columns}   # node labels
classes = {classes}
width = {width}
edges = {edges}   # edge labels that the model reads; [] for none
{scaling}{task}"""
_SCALING = """\
mean = {mean}    # of each attribute, which is standardised by mean and scale; from the
scale = {scale}    # members' own sums, where init has --sums, else from the sample
"""
OPERATOR_ONLY = {"server": frozenset({"ledger"})}


def federation_toml(
    name: str, members: Sequence[str], schema: Schema, columns: Columns = BY_NAME
) -> str:
    """Return commented terms, ready to edit."""
    return _TEXT.format(
        name=name,
        members=", ".join(f'"{m}"' for m in members),
        quorum=max(2, -(-2 * len(members) // 3)),
        training=_columns(columns),
        features=schema.features,
        columns=list(schema.columns),
        classes=list(schema.classes),
        width=schema.width,
        edges=list(schema.edges),
        scaling=_SCALING.format(mean=list(schema.mean), scale=list(schema.scale))
        if schema.mean
        else "",
        task=""
        if schema.task is None
        else f"task = {_value(schema.task.to_json())}   # what is predicted, in place of classes\n",
    )


def _columns(columns: Columns) -> str:
    """Return which columns of their CSV files members read, and which rings of molecules count."""
    read = {"smiles": columns.smiles, "targets": columns.targets}
    given = {name: column for name, column in read.items() if column}
    rings = {"max_ring": LARGEST_RING} if columns.smiles else {}
    return "".join(f"{name} = {_value(value)}\n" for name, value in {**given, **rings}.items())


def members_toml(given: Mapping[str, Any]) -> str:
    """Return the terms for members, with the same digest.

    They are written from the parsed values: a comment may also hold a password.
    """
    lines = ["# The terms of a federation, which a member agrees to by starting its agent."]
    for section, values in given.items():
        hidden = OPERATOR_ONLY.get(section, frozenset())
        lines += ["", f"[{section}]"]
        lines += [f"{_key(k)} = {_value(v)}" for k, v in values.items() if k not in hidden]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """Return a value as TOML.

    >>> print(_value([1, 2.5, float("inf"), True, "a\\n\\x7f", {"b": "ü"}]))
    [1, 2.5, inf, true, "a\\n\\u007f", {b = "ü"}]
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    """Return a key as TOML, in quotes only if needed."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)
