"""Results in a notebook: whole tables, nothing that a browser could take for more than text."""

from __future__ import annotations

from html.parser import HTMLParser

import networkx as nx
import pytest

import motifair

QUICK = {"rounds": 2, "hidden": 16, "threads": 1, "device": "cpu"}
NASTY = "<script>alert('x')</script>&"


class Tables(HTMLParser):
    """Collects the rows of tables, and which tags there are; refuses tags that do not close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        if tag != "br":
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def parties(names: list[str]) -> dict[str, list[nx.Graph]]:
    graphs = []
    for k in range(10):
        graph = nx.cycle_graph(3 + k % 4)
        graph.graph["y"] = k % 2
        graphs.append(graph)
    return dict.fromkeys(names, graphs)


def test_one_split_is_a_row_for_each_agent() -> None:
    result = motifair.run(agents=4, **QUICK)
    html = result._repr_html_()
    header, *rows = Tables(html).rows
    frame = result.to_frame()
    assert header[:3] == ["agent", "role", "graphs"]
    assert [row[0] for row in rows] == list(frame["agent"])
    place = header.index("paid in all")
    assert [row[place] for row in rows] == [f"{v:.3f}" for v in frame["payoff"]]
    assert "motifair on planted: 4 agents, 2 rounds" in html
    assert f"bound {result.fairness_bound:.3f}" in html


def test_several_splits_are_a_row_each() -> None:
    result = motifair.run(agents=3, splits=2, **QUICK)
    header, *rows = Tables(result._repr_html_()).rows
    assert [row[0] for row in rows] == ["0", "1"]
    found = [f"{s.metrics()['personalised_accuracy']:.3f}" for s in result.splits]
    assert [row[header.index("accuracy")] for row in rows] == found


def test_names_are_text_whatever_they_hold() -> None:
    html = motifair.run(parties(["a", NASTY]), method="fedavg", **QUICK)._repr_html_()
    found = Tables(html)
    assert "script" not in found.tags
    assert {row[0] for row in found.rows[1:]} == {"a", NASTY}


def test_a_great_many_agents_are_cut_and_it_is_said() -> None:
    names = [f"agent-{k:02d}" for k in range(33)]
    html = motifair.run(parties(names), method="fedavg", **QUICK)._repr_html_()
    assert len(Tables(html).rows) == 1 + 30
    assert "and 3 more" in html


@pytest.fixture(scope="module")
def comparison() -> motifair.Comparison:
    return motifair.compare(methods="fedavg,motifair", agents=3, splits=2, **QUICK)


def test_a_comparison_is_a_row_for_each_method(comparison: motifair.Comparison) -> None:
    html = comparison._repr_html_()
    header, *rows = Tables(html).rows
    assert header[0] == "method"
    assert [row[0] for row in rows] == ["fedavg", "motifair"]
    assert all(len(row) == len(header) for row in rows)
    assert "paired difference to fedavg" in html
    assert "script" not in Tables(html).tags
