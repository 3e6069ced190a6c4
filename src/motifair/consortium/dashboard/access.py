"""Who may see what: tokens, sessions, and the hosts a browser may call us by.

Tokens are kept as SHA-256 only, and are compared in constant time. They come in a header or through
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

SHORTEST = 20  # characters of a token: nobody guesses it
HOW = "make one with: openssl rand -hex 32"
HASH = re.compile(r"sha256:[0-9a-f]{64}")
LASTS = 12 * 3600.0  # seconds of a session
SESSIONS = 10_000
MOST_FAILED, WITHIN = 10, 60.0  # failed tries from one address, and in how many seconds


@dataclass(frozen=True)
class Viewer:
    """The operator, or one agent."""

    agent: str | None = None

    @property
    def is_operator(self) -> bool:
        """Whether it may see everything."""
        return self.agent is None

    def may_see(self, agent: str) -> bool:
        """Whether what is an agent's own may be shown."""
        return self.agent in (None, agent)


OPERATOR = Viewer()


class Access:
    """Knows viewers by their tokens; without any token everybody who gets here is the operator."""

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
        self.failed: dict[str, deque[float]] = {}

    @property
    def is_open(self) -> bool:
        """Whether nobody needs a token."""
        return not self.hashes

    def by_token(self, token: str) -> Viewer | None:
        """Tell whose token it is. All are compared, so that the time tells nothing."""
        digest, found = _digest(token), None
        for viewer, known in self.hashes.items():
            if hmac.compare_digest(digest, known):
                found = viewer
        return found

    def by_session(self, session: str) -> Viewer | None:
        """Tell who logged in with this cookie."""
        viewer, ends = self.sessions.get(_digest(session), (None, 0.0))
        return viewer if time.monotonic() < ends else None

    def log_in(self, viewer: Viewer) -> str:
        """Begin a session; return what its cookie holds."""
        now, session = time.monotonic(), secrets.token_urlsafe(32)
        self.sessions = {k: v for k, v in self.sessions.items() if v[1] > now}
        while len(self.sessions) >= SESSIONS:
            self.sessions.pop(next(iter(self.sessions)))
        self.sessions[_digest(session)] = (viewer, now + LASTS)
        return session

    def log_out(self, session: str) -> None:
        """End a session."""
        self.sessions.pop(_digest(session), None)

    def too_often(self, address: str) -> bool:
        """Whether too many tries from an address failed just now."""
        tries = self.failed.get(address, deque())
        return len(tries) >= MOST_FAILED and time.monotonic() - tries[0] < WITHIN

    def note_failure(self, address: str) -> None:
        """Remember a try that failed."""
        if len(self.failed) > SESSIONS:
            self.failed.clear()
        self.failed.setdefault(address, deque(maxlen=MOST_FAILED)).append(time.monotonic())


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
    """Tell whether only this machine can call a host's address.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def check_access(access: Access, host: str, names: Sequence[str]) -> None:
    """Refuse to be seen from elsewhere without a token."""
    if access.is_open and (names or not is_loopback(host)):
        raise MotifairError(
            "Who can be reached from other machines needs a token: put one into a file "
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
