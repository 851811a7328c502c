"""The WebSocket of the live channel. Pages of other sites and long messages are refused."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from urllib.parse import urlsplit

import streamlit as st
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from gdm_core.errors import DataError
from pages.channel import live
from pages.channel.live import ROUTE, Channel, channels, from_browser

log = logging.getLogger(__name__)

INVALID, UNKNOWN, FORBIDDEN, REPLACED = 4400, 4404, 4403, 4409  # codes of closed connections


def routes() -> list[WebSocketRoute]:
    """Return the route of the channel, below server.baseUrlPath."""
    base = str(st.get_option("server.baseUrlPath")).strip("/")
    below = f"/{base}" if base else ""
    return [WebSocketRoute(f"{below}{ROUTE}/{{token}}", serve)]


async def serve(socket: WebSocket) -> None:
    """Serve one connection until it ends."""
    channel = channels.get(str(socket.path_params["token"]))
    if not _is_same_origin(socket):
        await socket.close(FORBIDDEN)
    elif channel is None:
        await socket.close(UNKNOWN)
    else:
        await socket.accept()
        await _exchange(socket, channel)


def _is_same_origin(socket: WebSocket) -> bool:
    """Return whether a page of this server opens the connection, or a program that sends no origin."""
    origin = socket.headers.get("origin")
    if origin is None:
        return True
    allowed = {socket.headers.get("host"), socket.headers.get("x-forwarded-host")}
    for listed in st.get_option("server.corsAllowedOrigins") or ():
        allowed.add(urlsplit(str(listed)).netloc or str(listed))
    return urlsplit(origin).netloc in allowed


async def _exchange(socket: WebSocket, channel: Channel) -> None:
    """Send updates and receive messages. A newer connection of the same page replaces an older one."""
    event, loop = asyncio.Event(), asyncio.get_running_loop()

    def wake() -> None:
        """Set `event`, from any thread."""
        if not loop.is_closed():
            loop.call_soon_threadsafe(event.set)

    before, channel.listener = channel.listener, wake
    if before is not None:
        before()
    sender = asyncio.create_task(_send(socket, channel, event, wake))
    try:
        await _listen(socket, channel, event)
    finally:
        if channel.listener is wake:
            channel.disconnect()
            loop.call_later(live.LEAVE_S + 0.1, channel.leave_if_away)
        sender.cancel()
        with suppress(asyncio.CancelledError):
            await sender


async def _send(socket: WebSocket, channel: Channel, event: asyncio.Event, wake: object) -> None:
    """Send updates until a newer connection takes over."""
    while channel.listener is wake:
        event.clear()
        texts, pause = await asyncio.to_thread(channel.update)
        try:
            for text in texts:
                await socket.send_text(text)
        except (WebSocketDisconnect, RuntimeError):  # closed; `_listen` ends too
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), pause)
    with suppress(RuntimeError):
        await socket.close(REPLACED)


async def _listen(socket: WebSocket, channel: Channel, event: asyncio.Event) -> None:
    """Receive messages until one is invalid."""
    try:
        while True:
            text = await socket.receive_text()
            try:
                kind, fields = from_browser(text)
            except DataError as error:
                log.debug("A message was refused: %s", error)
                await socket.close(INVALID, str(error)[:100])
                return
            await asyncio.to_thread(channel.receive, kind, fields)
            event.set()
    except (WebSocketDisconnect, RuntimeError, KeyError):  # KeyError: bytes in place of text
        return
