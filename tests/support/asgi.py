"""A request to an app without a server."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.types import ASGIApp


def ask(app: ASGIApp, path: str) -> tuple[int, dict[str, str], bytes]:
    """(status, headers, body) of its answer to a GET."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [], "root_path": ""}
    asyncio.run(app(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:])
