"""The live channel: messages, live parts and access."""

import asyncio
import functools
import json
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from gdm_core.errors import DataError
from pages.channel import LivePanels, Tables, connection, live
from pages.channel.live import ROUTE, Channel
from tests.support.asgi import Line

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Word:
    """A part with a single text."""

    text: str

    def message(self) -> dict[str, Any]:
        return {"text": self.text}


@dataclass
class Fit:
    """A fake fit that moves and settles."""

    step: int = 0
    moves: bool = True
    settled: str = ""
    looks: int = field(default=0)

    def draw(self) -> dict[str, Word]:
        self.looks += 1
        return {"picture": Word(f"step {self.step}"), "still": Word("as it was")}


def stage(fit: Fit, tables: Callable[[str, bool, float], Tables] | None = None) -> Channel:
    """Return a visitor whose script has finished next to `fit`."""
    channel = Channel()
    run(channel, fit, tables)
    return channel


def run(channel: Channel, fit: Fit, tables: Callable[[str, bool, float], Tables] | None = None) -> None:
    channel.begin_run()
    channel.scene.live.append(LivePanels(fit.draw, lambda: fit.moves, lambda: fit.settled, Fit.draw(fit)))
    channel.scene.tables = tables
    channel.end_run()


@pytest.fixture
def fit() -> Fit:
    return Fit()


@pytest.fixture
def channel(fit) -> Channel:
    made = stage(fit)
    live.channels[made.token] = made
    return made


def read_parts(channel: Channel) -> list[dict[str, Any]]:
    return [json.loads(text) for text in channel.update()[0]]


# ---- messages -----------------------------------------------------------------------------------------------------
ANY_VALUE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text("ab<\x00", max_size=9)
    | st.lists(st.integers(), max_size=2)
)
SENT: dict[str, dict[str, Any]] = {
    "present": {"v": 1, "type": "present"},
    "drawn": {"v": 1, "type": "drawn", "number": 7},
    "near": {"v": 1, "type": "near", "slider": "K", "held": True, "value": 1, "source": ""},
}


@pytest.mark.parametrize("kind", live.TO_SERVER)
@settings(max_examples=40)
@given(
    st.dictionaries(st.sampled_from(["v", "type", "slider", "held", "value", "source", "number", "more"]), ANY_VALUE)
)
def test_changed_message_is_valid_or_refused(kind, changes):
    message = SENT[kind] | changes
    try:
        found, fields = live.from_browser(json.dumps(message))
    except DataError:
        assert message != SENT[kind]
        return
    types = live.TO_SERVER[found]
    assert {"v": 1, "type": found, **fields} == message
    assert all(isinstance(fields[name], kind) for name, kind in types.items())
    assert all(abs(value) <= live.MAX_NUMBER for value in fields.values() if isinstance(value, int | float))


@pytest.mark.parametrize("text", ["", "null", "{", "[" * 1900, '{"v":1,"type":"present"' + " " * 3000 + "}"])
def test_invalid_text_is_refused(text):
    with pytest.raises(DataError, match="message"):
        live.from_browser(text)


# ---- live parts ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("looked", [True, False])
def test_only_changed_parts_are_sent(fit, channel, looked):
    if looked:
        assert read_parts(channel) == []
    fit.step = 1
    (message,) = read_parts(channel)
    assert (message["type"], message["parts"]) == ("parts", {"picture": {"text": "step 1"}})


def test_parts_are_sent_again_after_a_script_run():
    """A restarted fit clears the page and then reaches the same state as before."""
    fit = Fit(step=7)
    channel = stage(fit)
    fit.step = 8
    (message,) = read_parts(channel)
    channel.receive("drawn", {"number": message["number"]})
    fit.step = 0
    run(channel, fit)
    fit.step = 8
    (message,) = read_parts(channel)
    assert (message["run"], message["parts"]) == (2, {"picture": {"text": "step 8"}})
    channel.receive("drawn", {"number": message["number"]})
    assert read_parts(channel) == []


def test_slow_browser_gets_only_the_latest_part(fit, channel):
    channel.update()
    fit.step = 1
    (first,) = read_parts(channel)
    for fit.step in range(2, 9):
        assert read_parts(channel) == []
    channel.receive("drawn", {"number": first["number"]})
    (next_one,) = read_parts(channel)
    assert next_one["parts"] == {"picture": {"text": "step 8"}}


def test_settled_fit_requests_one_script_run(fit, channel, monkeypatch):
    fit.moves, fit.settled = False, "fit"
    assert [message["type"] for message in read_parts(channel)] == ["run"]
    assert read_parts(channel) == []
    monkeypatch.setattr(live, "ASK_AGAIN_S", 0.0)
    assert [message["why"] for message in read_parts(channel)] == ["fit"]
    fit.settled = ""
    run(channel, fit)
    assert read_parts(channel) == []


def test_browser_is_told_when_changes_end(fit, channel):
    assert channel.goes_on()
    channel.update()
    channel.receive("drawn", {"number": 1})
    fit.moves = False
    assert read_parts(channel) == [{"v": 1, "type": "moves", "run": 1, "moves": False}]
    assert read_parts(channel) == []


def test_nothing_is_drawn_during_a_script_run(fit, channel):
    channel.begin_run()
    looks, fit.step = fit.looks, 5
    assert channel.update() == ([], None)
    assert fit.looks == looks


def test_first_connection_gets_nothing_that_a_script_has_drawn(channel):
    channel.receive("present", {})
    assert read_parts(channel) == []


def test_reconnected_browser_gets_sent_parts_again(fit, channel):
    fit.step = 1
    channel.update()
    channel.receive("present", {})
    (message,) = read_parts(channel)
    assert message["parts"] == {"picture": {"text": "step 1"}}


def test_idle_page_is_not_polled():
    assert stage(Fit(moves=False)).update() == ([], None)
    assert stage(Fit()).update()[1] is not None


# ---- tables for a held slider -------------------------------------------------------------------------------------
def test_slider_tables_are_sent_once_per_fit():
    known = {"a": {"values": [2]}}
    of = ["first"]
    channel = stage(Fit(moves=False), lambda key, held, value: Tables(of[0], dict(known), {"colours": [key]}, held))
    assert read_parts(channel) == []
    near = {"slider": "K", "held": True, "value": 5, "source": ""}
    channel.receive("near", near)
    (message,) = read_parts(channel)
    assert (message["source"], message["tables"], message["how"], message["more"]) == (
        "first", [{"values": [2]}], {"colours": ["K"]}, True,
    )  # fmt: skip
    assert read_parts(channel) == []
    known["b"] = {"values": [3]}
    assert read_parts(channel)[0]["tables"] == [{"values": [3]}]
    of[0] = "second"
    assert len(read_parts(channel)[0]["tables"]) == 2


def test_released_slider_stops_tables(monkeypatch):
    asked = []

    def tables(key: str, held: bool, value: float) -> Tables:
        asked.append(key)
        return Tables(more=True)

    channel = stage(Fit(moves=False), tables)
    channel.receive("near", {"slider": "K", "held": False, "value": 0, "source": ""})
    assert channel.update()[1] is not None
    monkeypatch.setattr(live, "POINTER_S", -1.0)
    assert channel.update()[1] is None
    assert asked == ["K"]


# ---- the address --------------------------------------------------------------------------------------------------
APP = Starlette(routes=connection.routes())


def run_async(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test of a connection."""

    @functools.wraps(test)
    def run_test(**given: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**given), PATIENCE_S))

    return run_test


def message_text(kind: str, **fields: Any) -> str:
    return json.dumps({"v": live.VERSION, "type": kind, **fields})


@run_async
async def test_browser_receives_parts_without_asking(channel, fit):
    line = Line(APP, f"{ROUTE}/{channel.token}")
    line.send_text(message_text("present"))
    fit.step = 1
    first = json.loads(await line.received.get())
    assert first["parts"] == {"picture": {"text": "step 1"}}
    line.send_text(message_text("drawn", number=first["number"]))
    fit.step = 3
    assert json.loads(await line.received.get())["parts"] == {"picture": {"text": "step 3"}}
    await line.hang_up()
    assert channel.listener is None


@run_async
async def test_guessed_token_is_refused(channel):
    for _ in range(200):
        line = Line(APP, f"{ROUTE}/{secrets.token_urlsafe(24)}")
        await line.task
        assert line.closed == connection.UNKNOWN
        assert not line.accepted.is_set()


@pytest.mark.parametrize(
    ("headers", "let_in"),
    [
        ({"host": "lab.example:8501", "origin": "https://lab.example:8501"}, True),
        ({"host": "127.0.0.1:8501", "x-forwarded-host": "lab.example", "origin": "https://lab.example"}, True),
        ({"host": "lab.example"}, True),
        ({"host": "lab.example", "origin": "https://elsewhere.example"}, False),
        ({"host": "lab.example", "origin": "https://lab.example.elsewhere.example"}, False),
        ({"host": "lab.example", "origin": "null"}, False),
    ],
)
@run_async
async def test_other_origin_is_refused(channel, headers, let_in):
    line = Line(APP, f"{ROUTE}/{channel.token}", headers)
    if let_in:
        await line.accepted.wait()
        await line.hang_up()
    else:
        await line.task
        assert line.closed == connection.FORBIDDEN


@pytest.mark.parametrize("text", ["{", message_text("present", more=1), "x" * 5000])
@run_async
async def test_invalid_message_closes_the_connection(channel, text):
    line = Line(APP, f"{ROUTE}/{channel.token}")
    line.send_text(text)
    await line.task
    assert line.closed == connection.INVALID


@pytest.mark.parametrize("returns", [True, False])
@run_async
async def test_visitor_leaves_a_while_after_the_last_disconnect(channel, monkeypatch, returns):
    monkeypatch.setattr(live, "LEAVE_S", 0.3)
    left = asyncio.Event()
    channel.at_leave["test"] = left.set
    line = Line(APP, f"{ROUTE}/{channel.token}")
    await line.accepted.wait()
    await line.hang_up()
    if not returns:
        await left.wait()
        return
    line = Line(APP, f"{ROUTE}/{channel.token}")
    await line.accepted.wait()
    await asyncio.sleep(0.6)
    assert not left.is_set()
    await line.hang_up()


@run_async
async def test_newer_connection_replaces_the_older(channel, fit):
    older = Line(APP, f"{ROUTE}/{channel.token}")
    await older.accepted.wait()
    newer = Line(APP, f"{ROUTE}/{channel.token}")
    await newer.accepted.wait()
    newer.send_text(message_text("present"))
    fit.step = 1
    await newer.received.get()
    while older.closed is None:
        await asyncio.sleep(0.01)
    assert older.closed == connection.REPLACED
    await newer.hang_up()


@run_async
async def test_failed_drawing_requests_a_script_run(channel, fit, caplog):
    line = Line(APP, f"{ROUTE}/{channel.token}")
    await line.accepted.wait()
    whole, fit.draw = fit.draw, lambda: 1 / 0  # type: ignore[method-assign, assignment]
    run(channel, fit)
    assert json.loads(await line.received.get())["why"] == "failed"
    assert "Updating panels failed" in caplog.text
    fit.draw = whole  # type: ignore[method-assign]
    run(channel, fit)
    fit.step = 9
    line.send_text(message_text("present"))
    assert json.loads(await line.received.get())["parts"]["picture"] == {"text": "step 9"}
    await line.hang_up()
