"""Which inputs all agents have in common."""

from __future__ import annotations

from motifair.errors import MotifairError
from motifair.graphs.dataset import Dataset, Source
from motifair.graphs.features import resolve_features


def choose_features(data: Dataset, kind: str) -> str:
    """Turn `auto` into what the nodes of all agents have; refuse what some of them lack."""
    labels = {source.node_labels for source in data.sources}
    widths = {source.attributes for source in data.sources}
    needs_attributes = kind == "attributes" or (kind == "auto" and labels == {False})
    if (kind in ("auto", "label") and len(labels) > 1) or (needs_attributes and len(widths) > 1):
        has: dict[str, list[str]] = {}
        for agent, source in zip(data.owners, data.sources, strict=True):
            has.setdefault(_words(source), []).append(agent)
        raise MotifairError(
            "The nodes of the agents do not have the same ("
            + "; ".join(f"{', '.join(agents)}: {words}" for words, agents in has.items())
            + "); give all agents the same, or use features=degree."
        )
    return resolve_features(data.graphs, kind)


def _words(source: Source) -> str:
    found = ["labels"] if source.node_labels else []
    found += [f"{source.attributes} attributes"] if source.attributes else []
    return " and ".join(found) or "neither labels nor attributes"
