"""Damaged and odd files: how they are made, and what reading them may do."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from random import Random
from typing import Any

from motifair.errors import MotifairError
from motifair.files import file_errors

CASES = 200
LONGEST = 5.0  # seconds of work that a case may take
WORDS = (
    "", "0", "-1", "1e400", "nan", "inf", "1.5", "9" * 25, str(2**63), "\x00", "ü", "{}", "[]",
    "null", "true", '"', "\ud800", "x" * 3000, "[" * 2000,
)  # fmt: skip


def mangled(content: bytes, random: Random) -> bytes:
    """Damage bytes: flip, cut, drop, double, or replace a word by an odd one."""
    kind, place = random.randrange(6), random.randrange(max(1, len(content)))
    if kind == 0:
        return content[:place] + bytes([random.randrange(256)]) + content[place + 1 :]
    if kind == 1:
        return content[:place]
    if kind == 2:
        return content[:place] + content[place + random.randrange(1, 99) :]
    if kind == 3:
        return content[:place] + content[max(0, place - 50) :]
    words = list(re.finditer(rb"[\w.+-]+", content))
    if not words:
        return b"\xff"
    word = random.choice(words)
    odd = random.choice(WORDS).encode(errors="surrogatepass")
    return content[: word.start()] + odd + content[word.end() :]


def refused_or_read(read: Callable[[], Any]) -> bool:
    """Return whether something was read; only a MotifairError may be raised."""
    began = time.process_time()
    try:
        with file_errors():  # as every command does
            read()
    except MotifairError:
        return False
    finally:
        assert time.process_time() - began < LONGEST
    return True
