"""The address of the live channel: one WebSocket for each visitor, below the secret of the session.

Nobody reads another's pictures: a secret of 24 random bytes is asked for, and a page of another site is turned away. What a
browser says is bounded in size and in number, so that a flood from one costs the others nothing.
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
from pages.channel.visitor import ROUTE, Channel, known, wake_from_any_thread

log = logging.getLogger(__name__)

MANY_S, BURST = 40.0, 120.0  # messages a second that are taken from one browser, and at once
STRANGE, FLOOD, UNKNOWN, ELSEWHERE, RENEWED = 4400, 4429, 4404, 4403, 4409  # why a connection was ended


def routes() -> list[WebSocketRoute]:
    """The channel's address, below the path that the app was put under (server.baseUrlPath)."""
    base = str(st.get_option("server.baseUrlPath")).strip("/")
    below = f"/{base}" if base else ""
    return [WebSocketRoute(f"{below}{ROUTE}/{{token}}", serve)]


async def serve(socket: WebSocket) -> None:
    """One connection, until it ends."""
    channel = known(str(socket.path_params["token"]))
    if not _from_here(socket):
        await socket.close(ELSEWHERE)
    elif channel is None:
        await socket.close(UNKNOWN)
    else:
        await socket.accept()
        await _talk(socket, channel)


def _from_here(socket: WebSocket) -> bool:
    """Whether a page of this server asks, or a program: browsers say which site's script opens a connection."""
    origin = socket.headers.get("origin")
    if origin is None:
        return True
    allowed = {socket.headers.get("host"), socket.headers.get("x-forwarded-host")}
    for listed in st.get_option("server.corsAllowedOrigins") or ():
        allowed.add(urlsplit(str(listed)).netloc or str(listed))
    return urlsplit(origin).netloc in allowed


async def _talk(socket: WebSocket, channel: Channel) -> None:
    """Send what moves, hear what the browser says. A newer connection of the same page takes the place of an older one."""
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
    """Look, send, wait; and again."""
    while channel.listener is wake:
        event.clear()
        said = await asyncio.to_thread(channel.look)
        try:
            for text in said.texts:
                await socket.send_text(text)
        except (WebSocketDisconnect, RuntimeError):  # gone meanwhile: `_listen` hears of it
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), said.again_s)
    with suppress(RuntimeError):
        await socket.close(RENEWED)


async def _listen(socket: WebSocket, channel: Channel, event: asyncio.Event) -> None:
    """Take what the browser says, as long as it keeps to what was agreed."""
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
            await asyncio.to_thread(channel.hear, kind, fields)
            event.set()
    except (WebSocketDisconnect, RuntimeError, KeyError):  # KeyError: bytes where text was to come
        return
