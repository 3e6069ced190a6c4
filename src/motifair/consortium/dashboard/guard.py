"""Middleware around every request: allowed hosts, and security headers."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "::1")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'none'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "via")


class Guard:
    """Refuse requests for other hosts, and add the security headers to every answer.

    A page on another site can let its own name point to this machine, and a browser then sends
    requests here (DNS rebinding); the Host header gives that away. `hosts` are the allowed names,
    empty for any. `alone` is true where no token is needed: then what a proxy forwards is refused.

    starlette's TrustedHostMiddleware would answer "Invalid host header" without naming the fix,
    and reads `[::1]:8080` wrongly in versions that we allow.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str], alone: bool) -> None:
        self.app, self.hosts, self.alone = app, frozenset(hosts), alone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = self._refusal(Headers(scope=scope))
        app = PlainTextResponse(refused, 400) if refused else self.app
        await app(scope, receive, headed)

    def _refusal(self, headers: Headers) -> str:
        if self.hosts and host_name(headers.get("host", "")) not in self.hosts:
            return "This host is not served here. Start the dashboard with --allow-host NAME."
        if self.alone and any(name in headers for name in FORWARDED):
            return "Behind a proxy the dashboard needs a token. Start it with --token-file FILE."
        return ""


def host_name(header: str) -> str:
    """Return the name in a Host header, without its port.

    >>> host_name("LocalHost:8080"), host_name("[::1]:8080")
    ('localhost', '::1')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0].lower() if ":" in header else header.lower()
