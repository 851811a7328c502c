"""Requests to an ASGI app without a server."""

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp


def ask(app: ASGIApp, path: str) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of a GET response."""
    sent: list[dict[str, Any]] = []

    requests = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        return requests.pop() if requests else await asyncio.Future()  # the connection stays

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [], "root_path": ""}
    asyncio.run(app(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:])


class Line:
    """The client side of a WebSocket, without a server.

    received  texts from the server
    closed    close code of the server, None while the connection is open
    """

    def __init__(self, app: ASGIApp, path: str, headers: Mapping[str, str] | None = None) -> None:
        self._to_server: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.received: asyncio.Queue[str] = asyncio.Queue()
        self.accepted = asyncio.Event()
        self.closed: int | None = None
        named = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        scope = {
            "type": "websocket", "path": path, "query_string": b"", "headers": named, "root_path": "", "subprotocols": [],
        }  # fmt: skip
        self._to_server.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.create_task(self._run(app, scope))

    async def _run(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        async def send(message: Any) -> None:
            if message["type"] == "websocket.accept":
                self.accepted.set()
            elif message["type"] == "websocket.send":
                self.received.put_nowait(message["text"])
            elif message["type"] == "websocket.close":
                self.closed = message.get("code", 1000)

        await app(scope, self._to_server.get, send)

    def send_text(self, text: str) -> None:
        self._to_server.put_nowait({"type": "websocket.receive", "text": text})

    async def hang_up(self) -> None:
        self._to_server.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await self.task
