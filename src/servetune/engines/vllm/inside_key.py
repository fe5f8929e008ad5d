"""The door of a server: an ASGI middleware that asks for the key of the launch.

It runs in the engine's environment (`vllm serve --middleware`) and needs the standard library
alone. vLLM asks for its own key below a few prefixes only, and never on OPTIONS; with the
developer's paths that servetune uses, anyone on the host could pause a server or have it write
files.
"""

import os
import secrets
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

KEY_VARIABLE = "SERVETUNE_KEY"
"""Not one of vLLM's: 0.26 counts all of those among what its compiled graphs depend on."""

OPEN_PATH = "/health"

REPLICA_VARIABLE, REPLICA_HEADER = "SERVETUNE_REPLICA", b"x-servetune-replica"
"""The number of one of several servers, which its answers then name: gateways pass headers on."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class RequireKey:
    """Refuses what comes without the key, but for `/health`, and what a foreign page sends."""

    def __init__(self, app: App) -> None:
        """Wrap an application; raises KeyError where the launch was given no key."""
        self._app = app
        self._expected = f"Bearer {os.environ[KEY_VARIABLE]}".encode()
        self._replica = os.environ.get(REPLICA_VARIABLE, "").encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer 403 to a foreign origin and 401 without the key; pass on all else."""
        status = self._refusal(scope) if scope["type"] in ("http", "websocket") else None
        if status is None:
            await self._app(scope, receive, self._named(send) if self._replica else send)
        elif scope["type"] == "http" or "websocket.http.response" in scope.get("extensions", {}):
            kind = "http" if scope["type"] == "http" else "websocket.http"
            headers = [(b"content-length", b"0"), (b"www-authenticate", b"Bearer")]
            await send({"type": f"{kind}.response.start", "status": status, "headers": headers})
            await send({"type": f"{kind}.response.body", "body": b""})
        else:
            # Closed before it is accepted: the client gets a 403.
            await send({"type": "websocket.close", "code": 1008})

    def _named(self, send: Send) -> Send:
        """Have an answer say which replica gives it."""

        async def with_name(message: Message) -> None:
            if message["type"] == "http.response.start":
                named = [*message.get("headers", ()), (REPLICA_HEADER, self._replica)]
                message = {**message, "headers": named}
            await send(message)

        return with_name

    def _refusal(self, scope: Message) -> int | None:
        host, port = scope.get("server") or ("", None)
        own = f"http://{host}:{port}".encode()
        if any(origin != own for origin in _values(scope, b"origin")):
            return 403
        if scope["type"] == "http" and scope["path"] == OPEN_PATH:
            return None
        sent = next(_values(scope, b"authorization"), b"")
        return None if secrets.compare_digest(sent, self._expected) else 401


def _values(scope: Message, name: bytes) -> Iterator[bytes]:
    return (value for header, value in scope["headers"] if header.lower() == name)
