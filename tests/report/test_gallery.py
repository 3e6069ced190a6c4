"""The gallery: every motif is drawn or said to be left out, and who brings it alone is named."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motifair.report.gallery import MOST, SIZE, draw, gallery
from motifair.report.static import gallery_figure

LABELS = st.integers(0, 10**8).map(str)


@given(st.lists(LABELS, min_size=3, max_size=40))
def test_a_ring_is_a_polygon_inside_its_square(labels: list[str]) -> None:
    drawing = draw("ring " + " ".join(labels))
    assert drawing is not None
    assert len(drawing.nodes) == len(drawing.edges) == len(labels)
    for node in drawing.nodes:
        assert drawing.radius <= node.x <= SIZE - drawing.radius
        assert drawing.radius <= node.y <= SIZE - drawing.radius
    ends = {(e.x2, e.y2) for e in drawing.edges}
    assert ends == {(e.x1, e.y1) for e in drawing.edges}


def test_labels_of_nodes_and_edges_are_written_where_there_is_room() -> None:
    ring = draw("ring 0/1 2/3 4/5")
    bond = draw("bond 6 7/8")
    long = draw("ring " + " ".join(["1"] * 30))
    assert ring is not None
    assert bond is not None
    assert long is not None
    assert [n.label for n in ring.nodes] == ["0", "2", "4"]
    assert [e.label for e in ring.edges] == ["1", "3", "5"]
    assert ([n.label for n in bond.nodes], bond.edges[0].label) == (["6", "7"], "8")
    assert {n.label for n in long.nodes} == {""}


@given(st.text(max_size=30))
def test_what_is_no_motif_is_not_drawn(key: str) -> None:
    assert draw(key) is None or key.startswith(("bond ", "ring "))


def test_keys_that_pretend_to_be_motifs_are_not_drawn() -> None:
    for key in ("bond 1", "bond 1 2 3", "ring 1 2", "ring <b>", "ring 1 2 3 ", "bond 0 1\n"):
        assert draw(key) is None, key


def test_motifs_are_grouped_by_who_has_them() -> None:
    motifs = {
        "a": ("bond 0 0", "ring 1 1 1", "ring 5 5 5"),
        "b": ("bond 0 0", "ring 1 1 1"),
        "c": ("bond 0 0",),
    }
    alone, some, everybody = gallery(motifs)
    assert [c.owners for c in alone.cards] == ["only a"]
    assert alone.alone
    assert [(c.key, c.owners) for c in some.cards] == [("ring 1 1 1", "2 agents")]
    assert [c.key for c in everybody.cards] == ["bond 0 0"]
    assert not gallery({})


def test_of_five_hundred_motifs_some_of_every_agent_are_shown_and_the_rest_are_counted() -> None:
    motifs = {f"agent-{a}": [f"ring {a} {k} 1" for k in range(50)] for a in range(10)}
    (alone,) = gallery(motifs)
    assert len(alone.cards) == MOST
    assert alone.hidden == 500 - MOST
    assert {c.owners for c in alone.cards} == {f"only agent-{a}" for a in range(10)}


def test_a_single_agent_brings_nothing_alone() -> None:
    (group,) = gallery({"a": ["bond 0 1"]})
    assert not group.alone


def test_the_gallery_is_a_figure_too() -> None:
    (alone,) = gallery({"a": ["bond 0 1/2", "<i>"], "b": []})
    figure = gallery_figure(alone.cards)
    assert len(figure.axes) == 6
    assert figure.axes[0].get_title() == "only a"
