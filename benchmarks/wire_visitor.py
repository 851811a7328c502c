"""A visitor of the NASCAR lab without a browser: says and hears what a browser would, and draws nothing.

Ten browsers on the server's own two cores would measure themselves. People bring their own machines; these visitors cost
next to nothing, so that what they wait for is the server. They rerun the script and its live parts just as the page
in a browser does, and hold the messages that the server need not send twice.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Coroutine
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

PICTURE = "-inferred-track"
KEEP_RUNS = 2  # as many runs of the script a browser keeps a message for


class Wire:
    """An event loop on a thread of its own, for all visitors."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run `work` over there and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)


class WireVisitor:
    """One session. `arrive`, `move`, `leave` are for the loop's thread; the rest may be read from anywhere.

    pictures  (when it came, its state, what it shows) of each picture sent so far
    errors    exceptions that the page showed, and why the connection ended
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.pictures: list[tuple[float, str, int]] = []
        self.errors: list[str] = []
        self.bytes = 0
        self._settings: dict[str, float] = {}
        self._sliders: dict[str, str] = {}
        self._moves = 0
        self._page = ""
        self._connection: ClientConnection | None = None
        self._timers: dict[str, tuple[float, asyncio.Task[None]]] = {}
        self._held: dict[str, int] = {}
        self._run = 0
        self._listener: asyncio.Task[None] | None = None

    async def arrive(self) -> None:
        address = self._url.replace("http", "ws", 1) + "/_stcore/stream"
        self._connection = await connect(address, subprotocols=["streamlit"], max_size=None)  # type: ignore[list-item]
        self._listener = asyncio.create_task(self._listen())
        await self._say(name="nascar")

    async def move(self, slider: str, value: float) -> float:
        """Let go of a slider ('K' or 'tau') at `value`; the moment at which that was said."""
        self._settings[slider] = value
        self._moves += 1
        began = time.monotonic()
        await self._say(moved=slider)
        return began

    async def leave(self) -> None:
        self._stop(*self._timers)
        if self._listener is not None:
            self._listener.cancel()
        if self._connection is not None:
            await self._connection.close()

    async def _say(self, fragment: str = "", name: str = "", moved: str = "") -> None:
        assert self._connection is not None
        message = BackMsg()
        state = message.rerun_script
        state.query_string = "&".join(f"{key}={value:g}" for key, value in self._settings.items())
        state.page_script_hash, state.page_name = self._page, name
        if moved:  # as pages/ui/components/slider.js says it
            widget = state.widget_states.widgets.add()
            widget.id = f"$$STREAMLIT_INTERNAL_KEY_{self._sliders[moved]}__events"
            released = {"value": self._settings[moved], "held": False, "number": self._moves}
            widget.json_trigger_value = json.dumps([{"event": "moved", "value": released}])
        if fragment:
            state.fragment_id, state.is_auto_rerun = fragment, True
        state.cached_message_hashes.extend(self._held)
        state.context_info.url = f"{self._url}/nascar"
        await self._connection.send(message.SerializeToString())

    async def _listen(self) -> None:
        assert self._connection is not None
        try:
            async for data in self._connection:
                self.bytes += len(data)
                message = ForwardMsg()
                message.ParseFromString(data)  # type: ignore[arg-type]
                self._hear(message)
        except ConnectionClosed as error:
            self.errors.append(f"the connection ended: {error}")

    def _hear(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type")
        if message.metadata.cacheable:
            self._held[message.hash] = self._run
        if kind == "ref_hash":
            self._held[message.ref_hash] = self._run
        elif kind == "new_session" and not message.metadata.run.fragment_ids:
            self._run += 1
            self._held = {key: run for key, run in self._held.items() if run >= self._run - KEEP_RUNS}
            self._stop(*self._timers)
        elif kind == "navigation":
            self._page = message.navigation.page_script_hash
        elif kind == "auto_rerun":
            self._look_again(message.auto_rerun.fragment_id, message.auto_rerun.interval)
        elif kind == "stop_auto_rerun":
            self._stop(*message.stop_auto_rerun.fragment_ids)
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            self._see(message.delta.new_element)

    def _look_again(self, fragment: str, seconds: float) -> None:
        if fragment in self._timers and self._timers[fragment][0] == seconds:
            return
        self._stop(fragment)
        self._timers[fragment] = seconds, asyncio.create_task(self._again(fragment, seconds))

    def _stop(self, *fragments: str) -> None:
        for fragment in fragments:
            if fragment in self._timers:
                self._timers.pop(fragment)[1].cancel()

    async def _again(self, fragment: str, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            await self._say(fragment)

    def _see(self, element: Any) -> None:
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.errors.append(f"exception: {element.exception.message}")
        elif kind == "bidi_component" and element.bidi_component.component_name == "gdm.slider":
            about = json.loads(element.bidi_component.json)
            if "scale" in about:
                self._sliders[about["key"]] = element.bidi_component.id
        elif kind == "bidi_component" and element.bidi_component.id.endswith(PICTURE):
            part = element.bidi_component
            sent = json.loads(part.json or part.mixed.json)
            look = hash(json.dumps(sent["figure"]["layout"]["shapes"]))
            self.pictures.append((time.monotonic(), sent["options"]["state"], look))
