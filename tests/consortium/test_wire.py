"""Encoding of records is deterministic, and invalid bytes are refused."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load, save

from motifair.consortium.wire import (
    BadRecordError,
    Download,
    Upload,
    digest,
    seal,
    unseal,
)

words = st.text(max_size=20)
floats = st.floats(allow_nan=False)
vectors = st.none() | hnp.arrays(
    np.float32, st.integers(0, 30), elements=st.just(0.0) | st.floats(width=32)
)
tables = st.none() | hnp.arrays(
    np.float32, st.tuples(st.integers(0, 5), st.integers(1, 4)), elements=st.floats(width=32)
)
about = {"run": words, "round": st.integers(0, 10**9), "agent": words, "task": words}
downloads = st.builds(
    Download,
    **about,
    terms=words,
    head=words,
    retained=floats,
    reward=vectors,
    prototypes=tables,
    active=st.none() | hnp.arrays(np.bool_, st.integers(0, 5)),
    weights=vectors,
    models=tables,
)
uploads = st.builds(
    Upload,
    **about,
    graphs=st.integers(0, 10**9),
    motifs=st.lists(words, max_size=5).map(tuple),
    gradient_norm=floats,
    loss=floats,
    accuracy=floats,
    update=vectors,
    gradient=vectors,
    prototypes=tables,
    fingerprints=st.none() | hnp.arrays(np.uint64, st.integers(0, 9)),
    wiring=st.none() | hnp.arrays(np.float64, st.integers(0, 9)),
    trial=vectors,
    judgement=st.none()
    | hnp.arrays(np.float64, st.tuples(st.integers(0, 5), st.just(2)), elements=st.floats()),
)

DOWNLOAD = Download(
    run="r-1", round=3, agent="a", task="train", terms="t", head="h",
    reward=np.array([0, 1.5, 0, 0, -2, 0, 0, 0], np.float32),
    prototypes=np.ones((2, 3), np.float32), active=np.array([True, False]),
    models=np.ones((2, 3), np.float32),
)  # fmt: skip
UPLOAD = Upload(
    run="r-1", round=3, agent="a", task="train", graphs=4, motifs=("bond 0 1", "ring 2 2 3"),
    update=np.arange(5, dtype=np.float32), prototypes=np.ones((2, 3), np.float32), loss=0.5,
    fingerprints=np.array([0, 2**64 - 1], np.uint64), wiring=np.array([-1, 0.5]),
    trial=np.ones(3, np.float32), judgement=np.array([[0.5, np.nan]]),
)  # fmt: skip


def assert_same(record: Any, wanted: Any) -> None:
    assert type(record) is type(wanted)
    for f in fields(wanted):
        ours, theirs = getattr(record, f.name), getattr(wanted, f.name)
        if isinstance(theirs, np.ndarray):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
        else:
            assert ours == theirs or (ours != ours and theirs != theirs), f.name
            assert type(ours) is type(theirs), f.name


@given(downloads | uploads)
def test_a_record_comes_back_as_it_was(record: Download | Upload) -> None:
    assert_same(type(record).decode(record.encode()), record)


@given(downloads | uploads)
def test_the_same_record_is_the_same_bytes(record: Download | Upload) -> None:
    arrays = {n: None if (a := getattr(record, n)) is None else a.copy() for n in record.ARRAYS}
    assert replace(record, **arrays).encode() == record.encode()
    assert type(record).decode(record.encode()).encode() == record.encode()


def test_arrays_that_are_views_are_the_same_bytes_as_copies() -> None:
    table = np.arange(20, dtype=np.float32).reshape(5, 4)
    view = replace(UPLOAD, update=table[:, 1])
    assert view.encode() == replace(UPLOAD, update=table[:, 1].copy()).encode()


@given(downloads, st.integers(0, 2**31))
def test_another_record_has_another_digest(record: Download, round: int) -> None:
    other = replace(record, round=round)
    assert (digest(other.encode()) == digest(record.encode())) == (round == record.round)


@given(st.integers(0, 600), st.integers(1, 2000))
def test_a_sparse_reward_comes_back_exactly_and_takes_no_more_bytes_than_it_must(
    kept: int, size: int
) -> None:
    kept = min(kept, size)
    rng = np.random.default_rng(kept)
    reward = np.zeros(size, np.float32)
    reward[rng.permutation(size)[:kept]] = rng.standard_normal(kept).astype(np.float32)
    sent = replace(DOWNLOAD, reward=reward).encode()
    back = Download.decode(sent).reward
    assert back is not None
    np.testing.assert_array_equal(back, reward)
    nothing = len(replace(DOWNLOAD, reward=np.zeros(1, np.float32)).encode())
    assert len(sent) <= nothing + 4 * min(2 * kept, size) + 64


def test_a_reward_of_one_in_a_hundred_takes_a_tenth_of_the_bytes() -> None:
    full = np.ones(10_000, np.float32)
    sparse = np.where(np.arange(10_000) % 100 == 0, full, 0)
    sizes = [len(replace(DOWNLOAD, reward=r).encode()) for r in (full, sparse)]
    assert sizes[1] < sizes[0] / 10


def refused(kind: type[Download | Upload], content: bytes) -> str:
    with pytest.raises(BadRecordError) as error:
        kind.decode(content)
    return str(error.value)


def decoded_or_refused(kind: type[Download | Upload], content: bytes) -> None:
    with suppress(BadRecordError):
        kind.decode(content)


@given(st.binary(max_size=300))
@example(b"")
@example(b"\x02\0\0\0\0\0\0\0{}")
@example(b"\xff" * 8 + b"{}")
def test_random_bytes_are_no_record(content: bytes) -> None:
    refused(Upload, content)
    refused(Download, content)


@pytest.mark.parametrize("record", [DOWNLOAD, UPLOAD], ids=["download", "upload"])
def test_bytes_cut_anywhere_are_no_record(record: Download | Upload) -> None:
    whole = record.encode()
    for end in range(len(whole)):
        refused(type(record), whole[:end])
    refused(type(record), whole + b"\0")


@pytest.mark.parametrize("record", [DOWNLOAD, UPLOAD], ids=["download", "upload"])
def test_a_flipped_bit_is_another_record_or_none(record: Download | Upload) -> None:
    whole = record.encode()
    for place in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        decoded_or_refused(type(record), bytes(changed))


def with_about(record: Download | Upload, **changes: Any) -> bytes:
    """A record with other values; `...` removes one."""
    whole = record.encode()
    length = int.from_bytes(whole[:8], "little")
    plain = json.loads(json.loads(whole[8 : 8 + length])["__metadata__"]["record"])
    plain = {k: v for k, v in (plain | changes).items() if v is not ...}
    return save(load(whole), {"record": json.dumps(plain)})


def with_array(record: Download | Upload, name: str, array: np.ndarray) -> bytes:
    whole = record.encode()
    length = int.from_bytes(whole[:8], "little")
    metadata = json.loads(whole[8 : 8 + length])["__metadata__"]
    return save(load(whole) | {name: array}, metadata)


def test_another_version_is_refused_by_its_number() -> None:
    for version in (0, 1, 2, "3", None):
        assert refused(Upload, with_about(UPLOAD, schema=version)) == (
            f"version {version!r} of the format instead of 3; the server and all agents need the "
            "same version of motifair"
        )
    assert refused(Upload, with_about(UPLOAD, schema=...)).startswith("version None of the format")
    assert len(refused(Upload, with_about(UPLOAD, schema=1000 * "x"))) < 200


def test_a_record_of_another_kind_is_refused() -> None:
    assert refused(Upload, DOWNLOAD.encode()) == "not of the kind upload"
    assert refused(Download, UPLOAD.encode()) == "not of the kind download"


@pytest.mark.parametrize(
    "changes",
    [
        {"round": "3"}, {"round": 3.0}, {"round": None}, {"agent": 7}, {"run": ["r-1"]},
        {"motifs": "bond 0 1"}, {"motifs": {}}, {"loss": "low"}, {"graphs": 4.5}, {"graphs": None},
        {"accuracy": None}, {"accuracy": "1"},
    ],
    ids=str,
)  # fmt: skip
def test_a_value_of_another_type_is_refused_by_its_name(changes: dict[str, Any]) -> None:
    assert refused(Upload, with_about(UPLOAD, **changes)).startswith(next(iter(changes)))


@pytest.mark.parametrize("changes", [{"extra": 1}, {"loss": ...}, {"run": ...}], ids=str)
def test_other_fields_are_refused(changes: dict[str, Any]) -> None:
    assert refused(Upload, with_about(UPLOAD, **changes)) == "other fields than expected"


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(json.loads(json.dumps(vars(UPLOAD), default=str)))), plain)
def test_any_plain_value_in_any_field_is_read_or_refused(name: str, value: Any) -> None:
    decoded_or_refused(Upload, with_about(UPLOAD, **{name: value}))


@given(
    hnp.arrays(
        st.sampled_from(
            [np.float32, np.float64, np.int64, np.uint64, np.uint8, np.bool_, np.float16]
        ),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    ),
    st.sampled_from(
        [
            "update",
            "reward",
            "place",
            "kept",
            "size",
            "fingerprints",
            "wiring",
            "models",
            "trial",
            "judgement",
            "other",
        ]
    ),
)
def test_any_array_under_any_name_is_read_or_refused(array: np.ndarray, name: str) -> None:
    for record in (DOWNLOAD, UPLOAD):
        decoded_or_refused(type(record), with_array(record, name, array))


@pytest.mark.parametrize("size", [np.array([np.inf]), np.array([2**45], np.uint64)], ids=str)
def test_a_sparse_reward_of_an_impossible_size_is_refused(size: np.ndarray) -> None:
    refused(Download, with_array(DOWNLOAD, "size", size))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"record":' * 100_000], ids=["lists", "dicts"])
def test_json_nested_without_end_is_no_record(text: str) -> None:
    refused(Upload, len(text).to_bytes(8, "little") + text.encode())
    header = json.dumps({"__metadata__": {"record": text}}).encode()
    refused(Upload, len(header).to_bytes(8, "little") + header)


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_a_seal_opens_to_what_was_sealed(content: bytes, signature: bytes) -> None:
    assert unseal(seal(content, signature)) == (content, signature)


@given(st.binary(max_size=100), st.binary(min_size=1, max_size=100), st.data())
def test_a_seal_cut_within_the_signature_does_not_open(
    content: bytes, signature: bytes, data: st.DataObject
) -> None:
    end = data.draw(st.integers(0, 1 + len(signature)))
    with pytest.raises(BadRecordError, match="cut off"):
        unseal(seal(content, signature)[:end])
