"""What the server learns from uploaded keys: their union and who keeps what."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motifair.motifs.vocabulary import MotifIndex

VOCABULARIES = st.lists(
    st.sets(st.sampled_from("abcdefg"), min_size=1).map(sorted), min_size=1, max_size=5
)


@given(VOCABULARIES)
def test_every_key_of_every_agent_is_one_entry_in_order(vocabularies: list[list[str]]) -> None:
    index = MotifIndex.of(vocabularies)
    entries = [(int(a), index.keys[m]) for a, m in zip(index.agent, index.motif, strict=True)]
    assert entries == [(a, key) for a, keys in enumerate(vocabularies) for key in keys]


@given(VOCABULARIES)
def test_the_union_is_sorted_and_at_least_as_large_as_any_agents_share(
    vocabularies: list[list[str]],
) -> None:
    index = MotifIndex.of(vocabularies)
    assert list(index.keys) == sorted(set().union(*vocabularies))
    assert index.sizes.tolist() == [len(keys) for keys in vocabularies]
    assert 0 < index.sizes.max() <= len(index.keys)


@given(VOCABULARIES, VOCABULARIES)
def test_more_agents_never_shrink_the_union(some: list[list[str]], others: list[list[str]]) -> None:
    assert set(MotifIndex.of(some).keys) <= set(MotifIndex.of(some + others).keys)


def test_an_agent_without_motifs_has_size_0() -> None:
    assert MotifIndex.of([["a"], [], ["a", "b"], []]).sizes.tolist() == [1, 0, 2, 0]
