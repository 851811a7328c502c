"""A visitor without a browser: says and hears what a browser would, and draws nothing.

Ten browsers on the server's own two cores would measure themselves. People bring their own machines; these visitors cost
next to nothing, so that what they wait for is the server. They have the script run and listen on the live channel just as
the page in a browser does, and hold the messages that the server need not send twice.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
import urllib.request
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from pages.channel import messages

PICTURE = "-inferred-track"
UPLOADER = "upload"
KEEP_RUNS = 12  # as many runs of the script a browser keeps a message for


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


@dataclass(frozen=True)
class Slider:
    """One that the page shows: its number on the server, where it stands, and its range."""

    id: str
    value: float
    min: float
    max: float
    step: float


class WireVisitor:
    """One session. What it does is for the loop's thread; the rest may be read from anywhere.

    pictures  (when it came, its state, what it shows) of each picture of the NASCAR lab sent so far
    figures   (when it came, which, what it shows) of each figure of any page
    ended     when each run of the page's script ended
    sliders   those of the page, by key; buttons by what is written on them
    foreign   names that other visitors carry (`mark`) and this one was sent
    errors    exceptions that the page showed, and why the connection ended
    """

    def __init__(self, url: str, mark: str = "", marks: str = "") -> None:
        self._url = url
        self._mark, self._marks = mark.encode(), re.compile(marks.encode()) if marks else None
        self.pictures: list[tuple[float, str, int]] = []
        self.figures: list[tuple[float, str, int]] = []
        self.ended: list[float] = []
        self.foreign: set[bytes] = set()
        self.errors: list[str] = []
        self.bytes = 0
        self._settings: dict[str, float | str] = {}
        self.sliders: dict[str, Slider] = {}
        self.buttons: dict[str, str] = {}
        self._uploader = ""
        self._uploaded: Any = None
        self._uploads = 0
        self._session = ""
        self._moves = 0
        self._name = self._page = ""
        self._connection: ClientConnection | None = None
        self._held: dict[str, int] = {}
        self._run = 0
        self._listener: asyncio.Task[None] | None = None
        self._live: dict[str, Any] = {}  # what the page last said of the live channel, and the number of that component
        self._line: ClientConnection | None = None
        self._hearer: asyncio.Task[None] | None = None

    async def arrive(self, name: str = "nascar") -> None:
        address = self._url.replace("http", "ws", 1) + "/_stcore/stream"
        self._connection = await connect(address, subprotocols=["streamlit"], max_size=None)  # type: ignore[list-item]
        self._listener = asyncio.create_task(self._listen())
        await self.turn(name, {})

    async def turn(self, name: str, settings: Mapping[str, float | str]) -> float:
        """Open a page with what its address says; the moment at which that was said."""
        self._name, self._page, self._settings = name, "", dict(settings)
        self.sliders, self.buttons, self._uploader, self._uploaded = {}, {}, "", None
        began = time.monotonic()
        await self._say()
        return began

    async def move(self, slider: str, value: float) -> float:
        """Let go of a slider at `value`; the moment at which that was said."""
        self._settings[slider] = value
        self._moves += 1
        began = time.monotonic()
        await self._say(moved=slider)
        return began

    @property
    def can_upload(self) -> bool:
        return bool(self._uploader)

    async def press(self, button: str) -> float:
        """Press a button by what is written on it; the moment at which that was said."""
        began = time.monotonic()
        await self._say(pressed=button)
        return began

    async def upload(self, name: str, content: bytes) -> float:
        """Hand a file to the page's uploader, as a browser does; the moment at which the page was told."""
        self._uploads += 1
        path = f"/_stcore/upload_file/{self._session}/file-{self._uploads}"
        info = await asyncio.to_thread(self._put, path, name, content)
        self._uploaded = info
        began = time.monotonic()
        await self._say()
        return began

    def _put(self, path: str, name: str, content: bytes) -> tuple[str, str, int]:
        with urllib.request.urlopen(f"{self._url}/_stcore/health", timeout=30) as answer:
            cookie = answer.headers["Set-Cookie"].split(";")[0]
        edge = "----a-visitor"
        head = f'--{edge}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n\r\n'
        headers = {
            "Content-Type": f"multipart/form-data; boundary={edge}",
            "Cookie": cookie,
            "X-Xsrftoken": cookie.partition("=")[2].strip('"'),
        }
        body = head.encode() + content + f"\r\n--{edge}--\r\n".encode()
        request = urllib.request.Request(self._url + path, body, headers, method="PUT")
        urllib.request.urlopen(request, timeout=60).close()
        return path, name, len(content)

    async def leave(self) -> None:
        for task in (self._listener, self._hearer):
            if task is not None:
                task.cancel()
        for connection in (self._connection, self._line):
            if connection is not None:
                await connection.close()

    async def tell(self, text: str) -> None:
        """Say something on the live channel."""
        if self._line is not None:
            await self._line.send(text)

    async def _hear_live(self, address: str) -> None:
        """Listen on the live channel, as pages/ui/components/channel.js does, until the page names another one."""
        try:
            async with connect(self._url.replace("http", "ws", 1) + address, max_size=None) as self._line:
                await self.tell(_message("present"))
                async for text in self._line:
                    self.bytes += len(text)
                    message = json.loads(text)
                    if message["type"] == "parts":
                        for key, part in message["parts"].items():
                            if "figure" in part:
                                self._see_figure(f"-{key}", part)
                        await self.tell(_message("drawn", number=message["number"]))
                    elif message["type"] == "run":
                        await self._say(why=message["why"])
        except ConnectionClosed:  # the forgers' are ended by the server
            self._line = None

    async def _say(self, why: str = "", moved: str = "", pressed: str = "") -> None:
        assert self._connection is not None
        message = BackMsg()
        state = message.rerun_script
        said = {key: value if isinstance(value, str) else f"{value:g}" for key, value in self._settings.items()}
        state.query_string = urlencode(said)
        state.page_script_hash, state.page_name = self._page, "" if self._page else self._name
        if moved:  # as pages/ui/components/slider.js says it
            widget = state.widget_states.widgets.add()
            widget.id = f"$$STREAMLIT_INTERNAL_KEY_{self.sliders[moved].id}__events"
            released = {"value": self._settings[moved], "held": False, "number": self._moves}
            widget.json_trigger_value = json.dumps([{"event": "moved", "value": released}])
        if pressed:
            widget = state.widget_states.widgets.add()
            widget.id, widget.trigger_value = self.buttons[pressed], True
        if self._uploaded is not None:
            path, name, size = self._uploaded
            widget = state.widget_states.widgets.add()
            widget.id = self._uploader
            file = widget.file_uploader_state_value.uploaded_file_info.add()
            file.file_id, file.name, file.size = path.rpartition("/")[2], name, size
            file.file_urls.file_id, file.file_urls.upload_url, file.file_urls.delete_url = file.file_id, path, path
        if why:
            widget = state.widget_states.widgets.add()
            widget.id = f"$$STREAMLIT_INTERNAL_KEY_{self._live['id']}__events"
            widget.json_trigger_value = json.dumps([{"event": "run", "value": f"{self._live['runs']} {why}"}])
        state.cached_message_hashes.extend(self._held)
        state.context_info.url = f"{self._url}/{self._name}"
        await self._connection.send(message.SerializeToString())

    async def _listen(self) -> None:
        assert self._connection is not None
        try:
            async for data in self._connection:
                self.bytes += len(data)
                assert isinstance(data, bytes), "the server speaks protobuf"
                if self._marks is not None:
                    self.foreign |= set(self._marks.findall(data)) - {self._mark}
                message = ForwardMsg()
                message.ParseFromString(data)
                self._hear(message)
        except ConnectionClosed as error:
            self.errors.append(f"the connection ended: {error}")

    def _hear(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type")
        if message.metadata.cacheable:
            self._held[message.hash] = self._run
        if kind == "ref_hash":
            self._held[message.ref_hash] = self._run
        elif kind == "new_session":
            self._session = message.new_session.initialize.session_id or self._session
            self._run += 1
            self._held = {key: run for key, run in self._held.items() if run >= self._run - KEEP_RUNS}
        elif kind == "navigation":
            self._page = message.navigation.page_script_hash
        elif kind == "script_finished":
            self.ended.append(time.monotonic())
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            self._see(message.delta.new_element)

    def _see(self, element: Any) -> None:
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.errors.append(f"exception: {element.exception.message}")
        elif kind == "button":
            self.buttons[element.button.label] = element.button.id
        elif kind == "file_uploader" and element.file_uploader.id.endswith(f"-{UPLOADER}"):
            self._uploader = element.file_uploader.id
        elif kind == "bidi_component":
            part = element.bidi_component
            about = json.loads(part.json or part.mixed.json or "{}")
            if part.component_name == "gdm.slider" and "scale" in about:
                scale = about["scale"]
                self.sliders[about["key"]] = Slider(part.id, about["value"], scale["min"], scale["max"], scale["step"])
            elif part.component_name == "gdm.plot" and "figure" in about:
                self._see_figure(part.id, about, *sorted(part.mixed.arrow_blobs))
            elif part.component_name == "gdm.channel":
                known = about["address"] == self._live.get("address")
                if not known or self._hearer is None or self._hearer.done():
                    self._hearer = asyncio.create_task(self._hear_live(about["address"]))
                self._live = about | {"id": part.id}

    def _see_figure(self, place: str, about: Mapping[str, Any], *more: Any) -> None:
        now, figure = time.monotonic(), about["figure"]
        self.figures.append((now, place, hash((json.dumps(figure), *more))))
        if place.endswith(PICTURE) and figure is not None:
            self.pictures.append((now, about["options"]["state"], hash(json.dumps(figure["layout"]["shapes"]))))


def _message(kind: str, **fields: Any) -> str:
    return json.dumps({"v": messages.version(), "type": kind, **fields})
