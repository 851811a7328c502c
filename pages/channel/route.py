"""The address of the live channel: one WebSocket per visitor, below the session's token.

The token has 24 random bytes, and pages of other sites are refused. Messages of a browser are bounded in size and number.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from urllib.parse import urlsplit

import streamlit as st
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from gdm_core.errors import DataError
from pages.channel import messages
from pages.channel.visitor import ROUTE, Channel, find_channel, wake_from_any_thread

log = logging.getLogger(__name__)

MANY_S, BURST = 40.0, 120.0  # messages per second from one browser, and at once
STRANGE, FLOOD, UNKNOWN, ELSEWHERE, RENEWED = 4400, 4429, 4404, 4403, 4409  # codes of closed connections


def routes() -> list[WebSocketRoute]:
    """Return the route of the channel, below server.baseUrlPath."""
    base = str(st.get_option("server.baseUrlPath")).strip("/")
    below = f"/{base}" if base else ""
    return [WebSocketRoute(f"{below}{ROUTE}/{{token}}", serve)]


async def serve(socket: WebSocket) -> None:
    """Serve one connection until it ends."""
    channel = find_channel(str(socket.path_params["token"]))
    if not _from_here(socket):
        await socket.close(ELSEWHERE)
    elif channel is None:
        await socket.close(UNKNOWN)
    else:
        await socket.accept()
        await _talk(socket, channel)


def _from_here(socket: WebSocket) -> bool:
    """Return whether a page of this server opens the connection, or a program, which sends no origin."""
    origin = socket.headers.get("origin")
    if origin is None:
        return True
    allowed = {socket.headers.get("host"), socket.headers.get("x-forwarded-host")}
    for listed in st.get_option("server.corsAllowedOrigins") or ():
        allowed.add(urlsplit(str(listed)).netloc or str(listed))
    return urlsplit(origin).netloc in allowed


async def _talk(socket: WebSocket, channel: Channel) -> None:
    """Send updates and receive messages. A newer connection of the same page replaces an older one."""
    event = asyncio.Event()
    wake = wake_from_any_thread(asyncio.get_running_loop(), event)
    before, channel.listener = channel.listener, wake
    if before is not None:
        before()
    sender = asyncio.create_task(_send(socket, channel, event, wake))
    try:
        await _listen(socket, channel, event)
    finally:
        if channel.listener is wake:
            channel.listener = None
        sender.cancel()
        with suppress(asyncio.CancelledError):
            await sender


async def _send(socket: WebSocket, channel: Channel, event: asyncio.Event, wake: object) -> None:
    """Send updates until a newer connection takes over."""
    while channel.listener is wake:
        event.clear()
        update = await asyncio.to_thread(channel.update)
        try:
            for text in update.texts:
                await socket.send_text(text)
        except (WebSocketDisconnect, RuntimeError):  # closed; `_listen` ends too
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), update.again_s)
    with suppress(RuntimeError):
        await socket.close(RENEWED)


async def _listen(socket: WebSocket, channel: Channel, event: asyncio.Event) -> None:
    """Receive messages until one is invalid or there are too many."""
    left, at = BURST, time.monotonic()
    try:
        while True:
            text = await socket.receive_text()
            now = time.monotonic()
            left, at = min(BURST, left + MANY_S * (now - at)) - 1, now
            if left < 0:
                await socket.close(FLOOD)
                return
            try:
                kind, fields = messages.from_browser(text)
            except DataError as error:
                log.debug("a message was refused: %s", error)
                await socket.close(STRANGE, str(error)[:100])
                return
            await asyncio.to_thread(channel.receive, kind, fields)
            event.set()
    except (WebSocketDisconnect, RuntimeError, KeyError):  # KeyError: bytes in place of text
        return
