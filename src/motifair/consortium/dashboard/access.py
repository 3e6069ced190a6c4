"""Authentication: tokens and sessions, and what each viewer may see.

Only the SHA-256 of tokens is kept, and compared in constant time. A token comes in a header or from
the form of `/login`, never in an address, which would end up in logs.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import time
import tomllib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from motifair.errors import MotifairError

SHORTEST = 20  # characters of a token
HOW = "make one with: openssl rand -hex 32"
HASH = re.compile(r"sha256:[0-9a-f]{64}")
LASTS = 12 * 3600.0  # seconds of a session
SESSIONS = 10_000
MOST_FAILED, WITHIN = 10, 60.0  # failed attempts in all, and in how many seconds


@dataclass(frozen=True)
class Viewer:
    """The operator, or one agent."""

    agent: str | None = None

    @property
    def is_operator(self) -> bool:
        """Whether the viewer may see everything."""
        return self.agent is None

    def may_see(self, agent: str) -> bool:
        """Whether the viewer may see an agent's own data."""
        return self.agent in (None, agent)


OPERATOR = Viewer()


class Access:
    """Tokens and sessions of all viewers; without tokens every request is the operator's."""

    def __init__(
        self, operator: str | None = None, agents: Mapping[str, str] | None = None
    ) -> None:
        named = {} if operator is None else {OPERATOR: _hash(operator, "The operator's token")}
        for agent, token in (agents or {}).items():
            named[Viewer(agent)] = _hash(token, f"The token of '{agent}'")
        if len(set(named.values())) < len(named):
            raise MotifairError(f"Two viewers have the same token; give each its own ({HOW}).")
        if named and OPERATOR not in named:
            raise MotifairError(f"The agents have tokens, but not the operator: {HOW}.")
        self.hashes = named
        self.sessions: dict[bytes, tuple[Viewer, float]] = {}
        self.failed: deque[float] = deque(maxlen=MOST_FAILED)

    @property
    def is_open(self) -> bool:
        """Whether no token is needed."""
        return not self.hashes

    def by_token(self, token: str) -> Viewer | None:
        """Return the owner of a token; all are compared, so that the time reveals nothing."""
        digest, owner = _digest(token), None
        for viewer, known in self.hashes.items():
            if hmac.compare_digest(digest, known):
                owner = viewer
        return owner

    def by_session(self, session: str) -> Viewer | None:
        """Return the viewer of a session that has not expired."""
        viewer, ends = self.sessions.get(_digest(session), (None, 0.0))
        return viewer if time.monotonic() < ends else None

    def log_in(self, viewer: Viewer) -> str:
        """Start a session; return the content of its cookie."""
        now, session = time.monotonic(), secrets.token_urlsafe(32)
        self.sessions = {k: v for k, v in self.sessions.items() if v[1] > now}
        while len(self.sessions) >= SESSIONS:
            self.sessions.pop(next(iter(self.sessions)))
        self.sessions[_digest(session)] = (viewer, now + LASTS)
        return session

    def log_out(self, session: str) -> None:
        """End a session."""
        self.sessions.pop(_digest(session), None)

    def too_often(self) -> bool:
        """Record a failed attempt; return whether there were too many in the last minute.

        They are counted in all, not by address: behind a proxy or a shared line an address is not
        one person, and a header can claim any. A right token is let in whatever others tried.
        """
        self.failed.append(time.monotonic())
        return len(self.failed) >= MOST_FAILED and self.failed[-1] - self.failed[0] < WITHIN


def read_token(path: Path) -> str:
    """Read a token, or the hash of one, from a file's first line."""
    lines = _text(path).splitlines()
    if not lines or not lines[0].strip():
        raise MotifairError(f"{path} is empty; {HOW} > {path}")
    return lines[0].strip()


def read_agent_tokens(path: Path) -> dict[str, str]:
    """Read the agents' tokens: TOML, one `agent = "token"` or `"sha256:..."` in a line."""
    try:
        content = tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        raise MotifairError(f"{path} is not valid TOML: {error}.") from error
    for agent, token in content.items():
        if not isinstance(token, str):
            raise MotifairError(f'{path}: write {agent} = "token" on a line of its own.')
    return content


def is_loopback(host: str) -> bool:
    """Tell whether a host can be reached from this machine only.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def check_access(access: Access, host: str, names: Sequence[str]) -> None:
    """Raise where other machines could reach a dashboard without tokens."""
    if access.is_open and (names or not is_loopback(host)):
        raise MotifairError(
            "A dashboard that other machines can reach needs a token: put one into a file "
            "(openssl rand -hex 32 > token) and name it with --token-file, or in MOTIFAIR_TOKEN."
        )


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise MotifairError(f"{path} cannot be read: {reason}; {HOW}.") from error


def _hash(token: str, whose: str) -> bytes:
    if HASH.fullmatch(token):
        return bytes.fromhex(token.removeprefix("sha256:"))
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise MotifairError(
            f"{whose} must be {SHORTEST} letters or digits at least, or sha256: and 64 hex digits; "
            f"{HOW}."
        )
    return _digest(token)


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
