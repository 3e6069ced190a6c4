"""Drawings of the agents' motifs, grouped by how many agents have them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from motifair.motifs.fragments import fragment
from motifair.motifs.vocabulary import plain_key
from motifair.report.charts import short
from motifair.report.colours import CURVES

MOST = 36  # motifs that are drawn in a group
MOST_LABELLED = 10  # nodes of a ring that still have room for their labels
SIZE, RADIUS = 100.0, 11.0
SHAPES = {3: "triangle", 4: "square", 5: "pentagon", 6: "hexagon"}
# Labels come from agents: what is not of the form that `motifs.extract` writes is not drawn.
KEY = re.compile(r"(bond|ring)((?: -?\d{1,9}(?:/-?\d{1,9})?)+)")


@dataclass(frozen=True)
class Node:
    """A node of a drawing; without a label where there is no room for one."""

    x: float
    y: float
    label: str
    colour: str


@dataclass(frozen=True)
class Edge:
    """An edge of a drawing, and its label next to the middle."""

    x1: float
    y1: float
    x2: float
    y2: float
    x: float
    y: float
    label: str


@dataclass(frozen=True)
class Drawing:
    """A motif in a square of `size`, with nodes of `radius`."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    size: float = SIZE
    radius: float = RADIUS


@dataclass(frozen=True)
class Card:
    """A motif, how it looks (None where its key cannot be read) and who has it, in words.

    `key` is shortened, `motif` is not; `svg` draws a fragment of a molecule, and is else empty.
    """

    key: str
    drawing: Drawing | None
    owners: str
    title: str
    motif: str
    svg: str = ""


@dataclass(frozen=True)
class Group:
    """Motifs that are held by equally many; `hidden` of them are not shown."""

    name: str
    what: str
    cards: tuple[Card, ...]
    hidden: int
    alone: bool = False


def gallery(motifs: Mapping[str, Sequence[str]], *, molecules: bool = False) -> list[Group]:
    """Group motifs by who has them: one agent alone, some, all.

    Those of `molecules` are shown as fragments, with their SMILES.

    >>> groups = gallery({"a": ["bond 0 1", "ring 1 1 2"], "b": ["bond 0 1"]})
    >>> [(group.name, len(group.cards)) for group in groups]
    [('Brought by one agent alone', 1), ('Held by all agents', 1)]
    """
    owners: dict[str, list[str]] = {}
    for agent, keys in motifs.items():
        for key in keys:
            owners.setdefault(key, []).append(agent)
    agents = len(motifs)
    alone = _turns({k: o[0] for k, o in owners.items() if len(o) == 1 < agents})
    shared = sorted((k for k, o in owners.items() if 1 < len(o) < agents), key=_telling)
    shared.sort(key=lambda k: -len(owners[k]))
    common = sorted((k for k, o in owners.items() if len(o) == agents), key=_telling)
    groups = (
        _group(
            "Brought by one agent alone",
            "Only one agent has them, so no other can confirm them.",
            alone,
            owners,
            alone=True,
        ),
        _group("Held by some agents", "Those held by most come first.", shared, owners),
        _group("Held by all agents", "Rings come first: they say more.", common, owners),
    )
    shown = [g for g in groups if g.cards]
    return [replace(g, cards=tuple(map(_chemical, g.cards))) for g in shown] if molecules else shown


def draw(key: str) -> Drawing | None:
    """Draw a bond as two nodes, a ring as a polygon; None for what is neither.

    >>> len(draw("ring 0/1 0/1 1/0").nodes), draw("bond 0 1/2").edges[0].label, draw("<b>")
    (3, '2', None)
    """
    match = KEY.fullmatch(plain_key(key))
    if match is None:
        return None
    words = [w.partition("/") for w in match[2].split()]
    nodes, edges = [w[0] for w in words], [w[2] for w in words]
    if match[1] == "bond":
        return _polygon(nodes, edges[1:], closed=False) if len(nodes) == 2 else None
    return _polygon(nodes, edges, closed=True) if len(nodes) > 2 else None


def name_of(key: str) -> str:
    """Name a motif by its shape and the labels of its nodes; a key that cannot be drawn is itself.

    >>> name_of("bond 0 1/2"), name_of("ring 1 1 2"), name_of("ring 0 0 0 0 0 0 0")
    ('edge 0–1', 'triangle 1–1–2', 'ring of 7 0–0–0–0–0–0–0')
    """
    if draw(key) is None:
        return short(key)
    motif = plain_key(key)
    kind, *words = motif.split()
    shape = SHAPES.get(len(words), f"ring of {len(words)}") if kind == "ring" else "edge"
    name = f"{shape} {'–'.join(word.partition('/')[0] for word in words)}"
    return short(f"{key.removesuffix(motif)}{name}")


def _polygon(labels: Sequence[str], edge_labels: Sequence[str], *, closed: bool) -> Drawing:
    count, middle = len(labels), SIZE / 2
    # A single edge lies flat; polygons stand on a side, or point upwards if odd.
    turn = math.pi if count == 2 else -math.pi / 2 + (math.pi / count if count % 2 == 0 else 0)
    reach = middle - RADIUS - 2
    places = [
        (
            middle + reach * math.cos(turn + 2 * math.pi * k / count),
            middle + reach * math.sin(turn + 2 * math.pi * k / count),
        )
        for k in range(count)
    ]
    room = count <= MOST_LABELLED
    nodes = tuple(
        Node(round(x, 1), round(y, 1), label if room else "", node_colour(label))
        for (x, y), label in zip(places, labels, strict=True)
    )
    pairs = [(k, (k + 1) % count) for k in range(count if closed else 1)]
    lines = tuple(
        _edge(nodes[a], nodes[b], label if room else "")
        for (a, b), label in zip(pairs, edge_labels, strict=True)
    )
    return Drawing(nodes, lines, radius=RADIUS if room else max(1.5, 2 * reach / count))


def _edge(a: Node, b: Node, label: str) -> Edge:
    """Join two nodes; the label stands a little outside of the middle."""
    x, y = (a.x + b.x) / 2, (a.y + b.y) / 2
    dx, dy = x - SIZE / 2, y - SIZE / 2
    far = math.hypot(dx, dy)
    out = 9.0
    dx, dy = (0.0, -out) if far < 1 else (out * dx / far, out * dy / far)
    return Edge(a.x, a.y, b.x, b.y, round(x + dx, 1), round(y + dy, 1), label)


def node_colour(label: str) -> str:
    """Return the name of a label's colour; beyond seven labels colours come again."""
    return CURVES[int(label) % len(CURVES)]


def _group(
    name: str, what: str, keys: Sequence[str], owners: Mapping[str, list[str]], alone: bool = False
) -> Group:
    cards = tuple(_card(k, owners[k], alone) for k in keys[:MOST])
    return Group(name, what, cards, len(keys) - len(cards), alone)


def _card(key: str, owners: Sequence[str], alone: bool) -> Card:
    words = f"only {owners[0]}" if alone else f"{len(owners)} agents"
    names = ", ".join(owners[:20]) + (f" and {len(owners) - 20} more" if len(owners) > 20 else "")
    return Card(short(key), draw(key), words, f"{key[:200]}: {names}", key)


def _chemical(card: Card) -> Card:
    """Show a motif as a fragment of a molecule, if its key is one."""
    known = fragment(plain_key(card.motif))
    if known is None:
        return card
    return replace(
        card, key=short(known.smiles), title=f"{known.smiles}, {card.title}", svg=known.svg
    )


def _telling(key: str) -> tuple[bool, int, str]:
    """Order rings before bonds, short ones first."""
    motif = plain_key(key)
    return not motif.startswith("ring"), motif.count(" "), key


def _turns(owner: Mapping[str, str]) -> list[str]:
    """Alternate between agents, so that none fills the gallery with its own motifs."""
    queues: dict[str, list[str]] = {}
    for key in sorted(owner, key=_telling):
        queues.setdefault(owner[key], []).append(key)
    turns = [
        (place, agent, key) for agent, q in sorted(queues.items()) for place, key in enumerate(q)
    ]
    return [key for _, _, key in sorted(turns)]
