"""Files are either whole or not there."""

from __future__ import annotations

import errno
import json
import math
import os
import resource
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motifair.errors import MotifairError
from motifair.files import (
    cache_folder,
    check_target,
    file_errors,
    finite,
    read_json,
    write_atomic,
    write_json,
)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("content", [b"\x00\xff bytes", "text, Σ ünïcode", "", b""])
def test_content_is_written_and_nothing_else_is_left(tmp_path: Path, content: bytes | str) -> None:
    write_atomic(tmp_path / "file", content)
    expected = content.encode() if isinstance(content, str) else content
    assert (tmp_path / "file").read_bytes() == expected
    assert names(tmp_path) == ["file"]


def test_content_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, "a long first content")
    with path.open() as reader:
        write_atomic(path, "short")
        assert reader.read() == "a long first content"
    assert path.read_text() == "short"


def test_a_target_that_is_a_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(MotifairError, match="cannot be written"):
        write_atomic(tmp_path / "folder", "content")
    assert names(tmp_path) == ["folder"]
    assert names(tmp_path / "folder") == []


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MotifairError, match="cannot be written"):
        write_atomic(tmp_path / "missing" / "file", "content")
    assert names(tmp_path) == []


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(MotifairError, match="cannot be written"):
        write_atomic(tmp_path / "file" / "inner", "content")
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("place", ["folder", "missing/file", "file/inner", "/proc/file"])
def test_a_place_where_nothing_can_be_written_is_refused_at_once(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(MotifairError, match="cannot be written"):
        check_target(tmp_path / place)
    check_target(tmp_path / "file")
    check_target(tmp_path / "folder" / "new")
    assert names(tmp_path / "folder") == []


def test_only_errors_about_files_become_sentences(tmp_path: Path) -> None:
    with (
        pytest.raises(MotifairError, match=r"missing cannot be used \(No such file"),
        file_errors(),
    ):
        (tmp_path / "missing").read_bytes()
    with pytest.raises(MotifairError, match=r"A file cannot be used \(No space"), file_errors():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(BrokenPipeError), file_errors():
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_write_that_fails_half_way_keeps_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(MotifairError, match=r"[Tt]oo large"):
            write_atomic(path, b"x" * (2 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_have_the_rights_the_user_asks_for(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_atomic(tmp_path / "file", "content")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == mode


def test_json_has_no_nan_and_names_infinities(tmp_path: Path) -> None:
    content = {"a": math.nan, "b": [1.5, (math.inf, -math.inf)], 3: {"c": math.nan}, "d": None}
    write_json(tmp_path / "file.json", content)
    text = (tmp_path / "file.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert read_json(tmp_path / "file.json") == {
        "a": None,
        "b": [1.5, ["inf", "-inf"]],
        "3": {"c": None},
        "d": None,
    }


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_plain_content_stays_as_it_is(content: Any) -> None:
    assert finite(content) == content
    assert json.loads(json.dumps(finite(content), allow_nan=False)) == content


def test_json_is_readable_and_stable(tmp_path: Path) -> None:
    write_json(tmp_path / "file.json", {"β": 1, "a": [2]})
    assert (tmp_path / "file.json").read_text() == '{\n  "β": 1,\n  "a": [\n    2\n  ]\n}\n'


def test_the_cache_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTIFAIR_CACHE", str(tmp_path / "named"))
    assert cache_folder("room") == tmp_path / "named" / "room"
    assert (tmp_path / "named" / "room").is_dir()
    monkeypatch.delenv("MOTIFAIR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder("room") == tmp_path / "xdg" / "motifair" / "room"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder("room") == tmp_path / "home" / ".cache" / "motifair" / "room"
