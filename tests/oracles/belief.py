"""How many of the agents' graphs are believed: networkx, loops and enumerated walks."""

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

import networkx as nx
import numpy as np

from .naive import from_the_top, trusts

Signature = tuple[object, ...]


def signature(graph: nx.Graph) -> Signature:
    """The class and the sorted colours of the nodes, refined three times, written out in full."""
    colour: dict[int, Signature] = {
        v: (about.get("label"), tuple(about.get("x", ()))) for v, about in graph.nodes(data=True)
    }
    for _ in range(3):
        colour = {
            v: (colour[v], tuple(sorted((colour[u] for u in graph[v]), key=repr))) for v in graph
        }
    return graph.graph["y"], tuple(sorted(colour.values(), key=repr))


def owner_of(agents: Sequence[Sequence[object]]) -> list[int]:
    """The first agent that holds more than half of an agent's different graphs, which hold more
    than half of its own: that may be the agent itself.
    """
    sets = [set(mine) for mine in agents]

    def same(i: int, j: int) -> bool:
        return i == j or 2 * len(sets[i] & sets[j]) > max(len(sets[i]), len(sets[j]))

    return [next(j for j in range(len(agents)) if same(j, k)) for k in range(len(agents))]


def first_names(agents: Sequence[Sequence[object]]) -> list[int]:
    """The agents that are their own first names."""
    return [k for k, owner in enumerate(owner_of(agents)) if k == owner]


def rare_graphs(agents: Sequence[Sequence[object]]) -> list[list[object]]:
    """Each agent's graphs without those that more than one, and more than half of the owners hold,
    by their first names.
    """
    first = first_names(agents)
    holders = Counter(g for k in first for g in set(agents[k]))
    return [[g for g in mine if holders[g] <= max(1, len(first) / 2)] for mine in agents]


def distinct_counts(agents: Sequence[Sequence[object]]) -> list[float]:
    """For each agent, from what stands for each of its graphs: n min(1, c_i / c) / names.

    c_i is different graphs / graphs, o_ij the part of the different ones that agent j holds, too;
    names is 1 and for the first name of each other owner what o_ij is beyond o, by 1 - o, times the
    same for the other names of its own. c is that of the agent at
    the end of the best third, agents counting 1 / names, o twice the upper third of all o_ij of
    first names. `rare_graphs` alone are counted.
    """
    rare = rare_graphs(agents)
    sets = [set(mine) for mine in rare]
    once = [len(own) / len(mine) if mine else 1.0 for mine, own in zip(rare, sets, strict=True)]
    owner = owner_of(agents)
    first = [sets[k] for k in first_names(agents)]
    pairs = [len(a & b) / max(1, len(a)) for a in first for b in first if a is not b]
    chance = 2 * np.quantile(pairs or [0.0], 2 / 3)

    def beyond(own: set[object], others: list[set[object]]) -> float:
        alike = [len(own & other) / max(1, len(own)) for other in others]
        return 1 + sum(min(1.0, max(0.0, (o - chance) / max(1 - chance, 1e-9))) for o in alike)

    names = [
        beyond(own, [sets[j] for j in first_names(agents) if owner[j] != owner[k]])
        * beyond(own, [s for j, s in enumerate(sets) if j != k and owner[j] == owner[k]])
        for k, own in enumerate(sets)
    ]
    weights = [1 / x for x in names]
    usual = from_the_top(once, weights, sum(weights) / 3) if len(agents) > 1 else 1.0
    each = zip(agents, once, names, strict=True)
    return [len(mine) * min(1.0, c / usual) / x for mine, c, x in each]


def judging_shares(agents: Sequence[Sequence[object]]) -> list[list[float]]:
    """What each agent j counts as a judge of i: its counted graphs by the median's, at most 1; 0
    where one of them holds more than half of the other's different graphs.
    """
    counts = distinct_counts(agents)
    owner = owner_of(agents)
    usual = statistics.median(
        sum(n for n, o in zip(counts, owner, strict=True) if o == k) for k in set(owner)
    )
    sets = [set(mine) for mine in rare_graphs(agents)]

    def share(i: int, j: int) -> float:
        if i == j or len(sets[i] & sets[j]) > min(len(sets[i]), len(sets[j])) / 2:
            return 0.0
        return min(1.0, counts[j] / usual) if usual > 0 else 1.0

    return [[share(i, j) for j in range(len(agents))] for i in range(len(agents))]


def walks(graph: nx.Graph, start: int, length: int) -> Iterator[list[int]]:
    """All walks of a length that never take an edge straight back."""
    paths = [[start]]
    for _ in range(length):
        paths = [[*p, u] for p in paths for u in graph[p[-1]] if len(p) < 2 or u != p[-2]]
    yield from paths


def half_closed(graph: nx.Graph, first: int, second: int) -> int:
    """Pairs of such walks of these lengths with the same start and the same end."""
    pairs = 0
    for v in graph:
        ends = Counter(walk[-1] for walk in walks(graph, v, second))
        pairs += sum(ends[walk[-1]] for walk in walks(graph, v, first))
    return pairs


def measures(graph: nx.Graph) -> list[float]:
    """What describes the wiring of one graph."""
    nodes = graph.number_of_nodes()
    degree = [d for _, d in graph.degree]
    ends = max(sum(degree), 1)
    found = [half_closed(graph, *lengths) / ends for lengths in ((1, 2), (2, 2), (2, 3), (3, 3))]
    found += [degree.count(k) / nodes for k in range(7)]
    found.append(sum(d * d for d in degree) / nodes - (ends / nodes) ** 2)
    found.append(nx.number_connected_components(graph) / nodes)
    label = nx.get_node_attributes(graph, "label")
    if label:
        pairs, at = [0.0] * 64, [0.0] * 16
        for u, v in graph.to_directed().edges:
            low, high = sorted((label[u], label[v]))
            pairs[(low * 7919 + high * 104_729) % 64] += 1 / ends
            at[label[u] % 16] += 1 / ends
        found += pairs + at
    return found


def consistency(graphs: Sequence[nx.Graph], copies: Sequence[nx.Graph]) -> list[float]:
    """Of each measure sum d / sqrt(n sum d^2), d the difference between a graph and its copy."""
    rows = [
        [a - b for a, b in zip(measures(g), measures(c), strict=True)]
        for g, c in zip(graphs, copies, strict=True)
    ]
    found = []
    for column in zip(*rows, strict=True):
        size = math.sqrt(len(column) * sum(d * d for d in column))
        found.append(sum(column) / size if size > 1e-12 else 0.0)
    return found


def wiring_trusts(
    wiring: Sequence[Sequence[float]], first: Sequence[int] | None = None
) -> list[float]:
    """Trust by the component along the first principal axis (not centred) of the rows of the first
    names, by default all, cut to the second-largest length; the sign is that of the clear majority,
    else that of rings.
    """
    first = range(len(wiring)) if first is None else first
    if len(first) == 1:
        return [1.0] * len(wiring)
    lengths = [math.hypot(*row) for row in wiring]
    cap = sorted(lengths[k] for k in first)[-2]
    rows = [
        [x * min(1.0, cap / length) if length > 0 else 0.0 for x in row]
        for row, length in zip(wiring, lengths, strict=True)
    ]
    table = np.array([rows[k] for k in first])
    axis = np.linalg.eigh(table.T @ table).eigenvectors[:, -1].tolist()
    along = [sum(a * b for a, b in zip(row, axis, strict=True)) for row in rows]
    total, size = sum(along[k] for k in first), sum(abs(along[k]) for k in first)
    sign = total if abs(total) > size / 2 else sum(a * abs(a) for a in axis[:4])
    here = [float(k in first) for k in range(len(along))]
    return trusts([a if sign >= 0 else -a for a in along], [0.1] * len(along), here)


def believed(
    agents: Sequence[Sequence[nx.Graph]], copies: Sequence[Sequence[nx.Graph]]
) -> tuple[list[float], list[list[float]]]:
    """For each agent how many of its graphs count, beside random copies of them, and what each
    other agent counts as its judge.
    """
    signatures = [[signature(g) for g in graphs] for graphs in agents]
    counts = distinct_counts(signatures)
    wiring = [consistency(g, c) for g, c in zip(agents, copies, strict=True)]
    real = wiring_trusts(wiring, first_names(signatures))
    trusted = [n * t for n, t in zip(counts, real, strict=True)]
    return trusted, judging_shares(signatures)
