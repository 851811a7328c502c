"""Forgers at a live server, several at once, and an honest visitor beside them. Loopback only.

`python -m benchmarks.hostile_wire [--forgers 2] [--acts 300] [--seed 0] [--json FILE]`. Each act is a page at a forged
address, forged values of all its controls and components at once, a forged file through the uploader, or something on the
live channel: what is no message, a flood, or another visitor's secret guessed at. Counted are exceptions on screens and in
the log; after every twentieth act the honest visitor moves a slider and waits for a fit.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from streamlit.proto.BackMsg_pb2 import BackMsg
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from benchmarks import report
from benchmarks.browser_crowd import quantile
from benchmarks.lifetime import finished, wait
from benchmarks.wander import PAGES
from benchmarks.wire_visitor import Wire, WireVisitor
from tests.support import forged
from tests.support.browser_server import Server, running_server
from tests.support.forged import Rng

NAMES = (
    "K", "tau", "gamma", "stay", "model", "D", "seed", "sees", "track", "setting", "view", "moment", "horizon", "trial", "file",
    "path", "source", "year", "event", "session", "laps", "names", "colours", "settings", "T", "frames", "mice", "example", "rate",
)  # fmt: skip
NUMBERS = (-1e300, 1e300, float("nan"), float("inf"), 2.5, -1.0, 0.0)
HONEST_EVERY = 20
FLOOD = 400  # messages at once
BREATH_S = 0.3  # between acts: a flood of messages is another matter


class Forger(WireVisitor):
    """Sends for each control that the page shows what its browser never would."""

    def __init__(self, url: str, rng: Rng) -> None:
        super().__init__(url)
        self._rng = rng
        self.controls: dict[str, str] = {}  # by number on the server: the kind of control

    async def turn(self, name: str, settings: Any) -> float:
        self.controls.clear()
        return await super().turn(name, settings)

    def _see(self, element: Any) -> None:
        super()._see(element)
        kind = element.WhichOneof("type")
        number = getattr(getattr(element, kind), "id", "")
        if number:
            self.controls[number] = kind

    async def forge(self) -> None:
        """All controls at once."""
        assert self._connection is not None
        message = BackMsg()
        state = message.rerun_script
        state.query_string = "&".join(f"{name}=1" for name in NAMES[:5])
        state.page_script_hash, state.page_name = self._page, "" if self._page else self._name
        for number, kind in list(self.controls.items()):
            self._forge(state.widget_states.widgets, number, kind)
        await self._connection.send(message.SerializeToString())

    async def forge_live(self) -> str:
        """Something on the live channel that no page says; what it was."""
        rng = self._rng
        which = int(rng.integers(3))
        try:
            if which == 0:
                said = forged.message(rng)
                kind = str(rng.choice(["present", "drawn", "near", "parts", "held"]))
                fields = said if isinstance(said, dict) else {"value": said, "number": said}
                await self.tell(json.dumps({"v": 1, "type": kind} | fields, default=str))
                return f"a forged {kind!r} on the channel"
            if which == 1:
                for _ in range(FLOOD):
                    await self.tell(json.dumps({"v": 1, "type": "present"}))
                return "a flood on the channel"
            address = f"{self._url.replace('http', 'ws', 1)}/gdm/live/{rng.bytes(18).hex()}"
            try:
                async with connect(address) as line:
                    await line.recv()
            except (InvalidStatus, ConnectionClosed):
                return "a guessed secret"
            self.errors.append("a guessed secret was let in")
            return "a guessed secret"
        except ConnectionClosed:
            return "a channel that the server had ended"

    def _forge(self, widgets: Any, number: str, kind: str) -> None:
        rng = self._rng
        widget = widgets.add()
        widget.id = number
        if kind == "bidi_component":
            widget.id = f"$$STREAMLIT_INTERNAL_KEY_{number}__events"
            events = ("moved", "click", "select", "range", "marks", "frame", "get")
            said = [{"event": event, "value": forged.message(rng)} for event in events]
            widget.json_trigger_value = json.dumps(said)
            state = widgets.add()
            state.id, state.json_value = number, json.dumps({"moved": forged.value(rng)})
        elif kind == "number_input":
            widget.double_value = float(rng.choice(NUMBERS))
        elif kind == "slider":
            widget.double_array_value.data.extend(rng.choice(NUMBERS, int(rng.integers(1, 3))).tolist())
        elif kind == "checkbox":
            widget.bool_value = bool(rng.integers(2))
        elif kind == "button":
            widget.trigger_value = bool(rng.random() < 0.2)
        elif kind == "multiselect":
            widget.string_array_value.data.extend(_sayable(forged.text(rng)) for _ in range(int(rng.integers(4))))
        elif kind in ("text_input", "text_area", "selectbox", "radio"):
            widget.string_value = _sayable(forged.text(rng))
        else:
            del widgets[-1]


def _sayable(text: str) -> str:
    """Protobuf takes no half characters."""
    return text.encode("utf-8", "replace").decode()


def attack(server: Server, forgers: int, acts: int, seed: int) -> dict[str, Any]:
    wire = Wire()
    honest = WireVisitor(server.url)
    wire.do(honest.arrive("nascar"))
    wait(lambda: finished(honest, 0.0))
    crew = []
    for number in range(forgers):
        crew.append(Forger(server.url, np.random.default_rng([seed, number])))
        wire.do(crew[-1].arrive(""))
    counts = {"addresses": 0, "values": 0, "uploads": 0, "live": 0}
    waits: list[float] = []
    failures: list[str] = []
    for act in range(acts):
        forger = crew[act % forgers]
        before = len(server.complaints())
        what = _act(wire, forger, counts)
        time.sleep(BREATH_S)
        failures += [f"after {what}: {line}" for line in server.complaints()[before:]]
        failures += [f"{what}: {error}" for error in forger.errors]
        if forger.errors:  # the connection may have ended with it
            forger.errors.clear()
            wire.do(forger.arrive(""))
        if act % HONEST_EVERY == HONEST_EVERY - 1:
            del honest.pictures[:], honest.figures[:], honest.ended[:]
            released = wire.do(honest.move("tau", round(0.3 + 0.01 * (act // HONEST_EVERY), 2)))
            wait(lambda released=released: finished(honest, released))  # type: ignore[misc]
            waits.append(honest.pictures[-1][0] - released)
            server.healthy()
    for visitor in [honest, *crew]:
        wire.do(visitor.leave())
    wire.close()
    return {
        "forgers": forgers,
        **counts,
        "honest_fits": len(waits),
        "honest_median_s": quantile(waits, 0.5),
        "honest_p95_s": quantile(waits, 0.95),
        "memory": server.memory(),
        "failures": [*failures, *honest.errors],
    }


def _act(wire: Wire, forger: Forger, counts: dict[str, int]) -> str:
    """Do one thing; what was done."""
    rng = forger._rng
    if forger.can_upload and rng.random() < 0.7:
        name, content = forged.file(rng)
        counts["uploads"] += 1
        wire.do(forger.upload(_sayable(name).translate({ord(c): "_" for c in '"\r\n\x00'}), content))
        return f"the upload {name[:60]!r}, {len(content)} bytes"
    if rng.random() < 0.25:
        counts["live"] += 1
        return str(wire.do(forger.forge_live()))
    if forger.controls and rng.random() < 0.5:
        counts["values"] += 1
        wire.do(forger.forge())
        return f"forged values on {forger._name!r}"
    counts["addresses"] += 1
    page = "your-data" if rng.random() < 0.3 else str(rng.choice(list(PAGES)))
    said = {
        str(name): _sayable(forged.text(rng))[:20_000]
        for name in rng.choice(NAMES, int(rng.integers(9)), replace=False)
    }
    wire.do(forger.turn(page, said))
    return f"the page {page!r} at {str(said)[:300]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forgers", type=int, default=2, help="at once (2)")
    parser.add_argument("--acts", type=int, default=300, help="of all of them together (300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", help="a file for the figures; after a failure the server's log lies beside it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as server:
        found = attack(server, arguments.forgers, arguments.acts, arguments.seed)
        if found["failures"] and arguments.json:
            Path(arguments.json).with_suffix(".log").write_bytes(server.log.read_bytes())
    rows = [[name, value] for name, value in found.items() if name != "failures"]
    print(report.table("Forgers beside an honest visitor", ["what", "found"], rows))
    print(*found["failures"], sep="\n")
    report.write(arguments.json, found)
    sys.exit(bool(found["failures"]))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
