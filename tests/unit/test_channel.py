"""The live channel: its messages, what a visitor is told of what moves, and who may listen."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from gdm_core.errors import DataError
from pages.channel import messages, route, visitor
from pages.channel.visitor import ROUTE, Channel, Moving, Tables
from tests.support.asgi import Line

COMPONENTS = Path(__file__).resolve().parents[2] / "pages" / "ui" / "components"
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Word:
    """A part that says one thing."""

    text: str

    def message(self) -> dict[str, Any]:
        return {"text": self.text}

    def same(self, other: Any) -> bool:
        return self == other


@dataclass
class Fit:
    """Something that moves, and ends."""

    step: int = 0
    moves: bool = True
    settled: str = ""
    looks: int = field(default=0)

    def draw(self) -> dict[str, Word]:
        self.looks += 1
        return {"picture": Word(f"step {self.step}"), "still": Word("as it was")}


def stage(fit: Fit, tables: Callable[[str, bool, float], Tables] | None = None) -> Channel:
    """A visitor whose script has run to its end beside `fit`."""
    channel = Channel()
    run(channel, fit, tables)
    return channel


def run(channel: Channel, fit: Fit, tables: Callable[[str, bool, float], Tables] | None = None) -> None:
    channel.begin_run()
    channel.scene.moving.append(Moving(fit.draw, lambda: fit.moves, lambda: fit.settled, Fit.draw(fit)))
    channel.scene.tables = tables
    channel.end_run()


@pytest.fixture
def fit() -> Fit:
    return Fit()


@pytest.fixture
def channel(fit) -> Channel:
    made = stage(fit)
    visitor._channels[made.token] = made
    return made


def told(channel: Channel) -> list[dict[str, Any]]:
    return [json.loads(text) for text in channel.look().texts]


# ---- messages -----------------------------------------------------------------------------------------------------
def test_the_browser_takes_every_message_that_the_file_names_and_sends_no_other():
    script = (COMPONENTS / "channel.js").read_text(encoding="utf-8")
    takes = re.search(r"const TAKES = \{(.*?)\n\};", script, re.S)
    assert set(re.findall(r"^  (\w+): ", takes[1], re.M)) == set(messages.known()["to_browser"])
    sent = {
        kind
        for file in COMPONENTS.glob("*.js")
        for kind in re.findall(r"\b(?:say|tell)\(\"(\w+)\"", file.read_text(encoding="utf-8"))
    }
    assert sent == set(messages.known()["to_server"])
    assert f"const VERSION = {messages.version()};" in script


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "[]", "7", "{", "[" * 1900, '"present"', '{"v":1}', '{"v":1,"type":"parts","number":1,"parts":{}}',
        '{"v":2,"type":"present"}', '{"v":1,"type":["present"]}', '{"v":1,"type":"present","more":1}',
        '{"v":1,"type":"drawn","number":true}', '{"v":1,"type":"drawn","number":"7"}', '{"v":1,"type":"drawn"}',
        '{"v":1,"type":"near","slider":7,"held":true,"value":1,"of":""}',
        '{"v":1,"type":"near","slider":"K","held":1,"value":1,"of":""}',
        '{"v":1,"type":"near","slider":"K","held":true,"value":NaN,"of":""}',
        '{"v":1,"type":"near","slider":"K","held":true,"value":-Infinity,"of":""}',
        '{"v":1,"type":"near","slider":"K","held":true,"value":1e999,"of":""}',
        '{"v":1,"type":"drawn","number":99999999999999999999}',
        '{"v":1,"type":"present"' + " " * 3000 + "}",
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused_in_words(text):
    with pytest.raises(DataError, match="message"):
        messages.from_browser(text)


def test_a_message_that_the_file_does_not_know_is_a_defect():
    with pytest.raises(DataError, match="unknown kind"):
        messages.to_browser("pictures", number=1)
    with pytest.raises(DataError, match="fields"):
        messages.to_browser("run", number=1)


# ---- what moves ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("looked", [True, False])
def test_only_what_changed_since_the_script_drew_is_sent(fit, channel, looked):
    if looked:
        assert told(channel) == []
    fit.step = 1
    (message,) = told(channel)
    assert (message["type"], message["parts"]) == ("parts", {"picture": {"text": "step 1"}})


def test_what_a_script_drew_over_is_sent_again():
    """A fit is begun anew: the script says that it is about to begin, and then it stands where the last one stood."""
    fit = Fit(step=7)
    channel = stage(fit)
    fit.step = 8
    (message,) = told(channel)
    channel.hear("drawn", {"number": message["number"]})
    fit.step = 0
    run(channel, fit)
    fit.step = 8
    (message,) = told(channel)
    assert (message["run"], message["parts"]) == (2, {"picture": {"text": "step 8"}})
    channel.hear("drawn", {"number": message["number"]})
    assert told(channel) == []


@pytest.mark.parametrize("drawn", [0, 2])
def test_what_a_run_draws_is_sent_once_more_where_something_came_in_between(fit, channel, drawn):
    """That may still be on its way. And Streamlit's page leaves a place as it is where the script says the same of it twice."""
    fit.step = 1
    (sent,) = told(channel)
    channel.hear("drawn", {"number": sent["number"]})
    fit.step = drawn
    run(channel, fit)
    (again,) = told(channel)
    assert again["parts"] == {"picture": {"text": f"step {drawn}"}}
    assert again["number"] > sent["number"]


def test_pictures_are_left_out_while_the_browser_draws_and_time_is_not(fit, channel):
    channel.look()
    fit.step = 1
    (first,) = told(channel)
    for fit.step in range(2, 9):
        assert told(channel) == []
    channel.hear("drawn", {"number": first["number"]})
    (next_one,) = told(channel)
    assert next_one["parts"] == {"picture": {"text": "step 8"}}


def test_a_browser_that_never_says_that_it_has_drawn_is_sent_pictures_all_the_same(fit, channel, monkeypatch):
    channel.look()
    fit.step = 1
    channel.look()
    monkeypatch.setattr(visitor, "UNDRAWN_S", 0.0)
    fit.step = 2
    assert told(channel)[0]["parts"] == {"picture": {"text": "step 2"}}


def test_the_script_is_asked_to_run_once_when_something_is_settled(fit, channel, monkeypatch):
    fit.moves, fit.settled = False, "fit"
    assert [message["type"] for message in told(channel)] == ["run"]
    assert told(channel) == []
    monkeypatch.setattr(visitor, "ASK_AGAIN_S", 0.0)
    assert [message["why"] for message in told(channel)] == ["fit"], "a run that does not come is asked for again"
    fit.settled = ""
    run(channel, fit)
    assert told(channel) == []


def test_a_reason_to_run_stands_until_the_script_has_run(monkeypatch):
    reasons = ["answers"]  # said once, as for an answer that its asker does not know yet
    channel = Channel()
    channel.begin_run()
    channel.scene.moving.append(Moving(dict, lambda: False, lambda: reasons.pop() if reasons else ""))
    assert channel.scene.goes_on, "the browser is told so where it hears nothing over the channel"
    channel.end_run()
    monkeypatch.setattr(visitor, "ASK_AGAIN_S", 0.0)
    assert [told(channel)[0]["why"] for _ in range(2)] == ["answers", "answers"]
    channel.begin_run()
    assert not channel.scene.goes_on


def test_while_a_script_runs_nothing_is_looked_at(fit, channel):
    channel.begin_run()
    looks, fit.step = fit.looks, 5
    assert channel.look() == visitor.Said()
    assert fit.looks == looks


def test_a_connection_that_comes_back_is_told_everything_that_moves(fit, channel):
    channel.look()
    channel.hear("present", {})
    (message,) = told(channel)
    assert set(message["parts"]) == {"picture", "still"}


def test_a_page_on_which_nothing_moves_is_not_looked_at_again():
    assert stage(Fit(moves=False)).look().again_s is None
    assert stage(Fit()).look().again_s is not None


# ---- tables for a held thumb --------------------------------------------------------------------------------------
def test_tables_are_sent_once_each_and_anew_of_another_fit():
    known = {"a": {"values": [2]}}
    of = ["first"]
    channel = stage(Fit(moves=False), lambda key, held, value: Tables(of[0], dict(known), {"colours": [key]}, held))
    assert told(channel) == [], "nobody is near"
    near = {"slider": "K", "held": True, "value": 5, "of": ""}
    channel.hear("near", near)
    (message,) = told(channel)
    assert (message["of"], message["tables"], message["how"], message["more"]) == (
        "first", [{"values": [2]}], {"colours": ["K"]}, True,
    )  # fmt: skip
    assert told(channel) == []
    known["b"] = {"values": [3]}
    assert told(channel)[0]["tables"] == [{"values": [3]}]
    of[0] = "second"
    assert len(told(channel)[0]["tables"]) == 2


def test_tables_that_the_browser_has_thrown_away_are_sent_again():
    channel = stage(Fit(moves=False), lambda key, held, value: Tables("fit", {"a": {"values": [2]}}, {"colours": []}))
    near = {"slider": "K", "held": True, "value": 5}
    channel.hear("near", near | {"of": ""})
    assert len(told(channel)[0]["tables"]) == 1
    channel.hear("near", near | {"of": "fit"})
    assert told(channel)[0]["tables"] == []
    channel.hear("near", near | {"of": ""})
    (message,) = told(channel)
    assert (len(message["tables"]), message["how"]) == (1, {"colours": []})


def test_a_hand_that_has_gone_costs_nothing(monkeypatch):
    asked = []

    def tables(key: str, held: bool, value: float) -> Tables:
        asked.append(key)
        return Tables(more=True)

    channel = stage(Fit(moves=False), tables)
    channel.hear("near", {"slider": "K", "held": False, "value": 0, "of": ""})
    assert channel.look().again_s is not None
    monkeypatch.setattr(visitor, "HAND_S", -1.0)
    assert channel.look().again_s is None
    assert asked == ["K"]


def test_looks_that_go_on_failing_ask_for_no_more_runs(fit):
    fit.draw = lambda: 1 / 0  # type: ignore[method-assign, assignment]
    channel = stage(fit)
    asked = [bool(channel.look().texts) for _ in range(visitor.MOST_FAILURES + 2)]
    assert asked == [True] * visitor.MOST_FAILURES + [False, False]
    assert channel.look().again_s == visitor.ASK_AGAIN_S


# ---- the address --------------------------------------------------------------------------------------------------
APP = Starlette(routes=route.routes())


def conversation(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test of what is said over a line."""

    @functools.wraps(test)
    def held(**given: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**given), PATIENCE_S))

    return held


def said(kind: str, **fields: Any) -> str:
    return json.dumps({"v": messages.version(), "type": kind, **fields})


@conversation
async def test_a_visitor_hears_what_moves_without_asking(channel, fit):
    line = Line(APP, f"{ROUTE}/{channel.token}")
    line.say(said("present"))
    first = json.loads(await line.told.get())
    assert first["parts"]["picture"] == {"text": "step 0"}
    line.say(said("drawn", number=first["number"]))
    fit.step = 3
    assert json.loads(await line.told.get())["parts"] == {"picture": {"text": "step 3"}}
    await line.hang_up()
    assert channel.listener is None


@conversation
async def test_nobody_listens_by_guessing(channel):
    for _ in range(10_000):
        line = Line(APP, f"{ROUTE}/{secrets.token_urlsafe(24)}")
        await line.task
        assert line.closed == route.UNKNOWN
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
@conversation
async def test_a_page_of_another_site_is_turned_away(channel, headers, let_in):
    line = Line(APP, f"{ROUTE}/{channel.token}", headers)
    if let_in:
        await line.accepted.wait()
        await line.hang_up()
    else:
        await line.task
        assert line.closed == route.ELSEWHERE


@pytest.mark.parametrize("text", ["{", said("present", more=1), "x" * 5000])
@conversation
async def test_who_says_what_was_not_agreed_is_hung_up_on(channel, text):
    line = Line(APP, f"{ROUTE}/{channel.token}")
    line.say(text)
    await line.task
    assert line.closed == route.STRANGE


@conversation
async def test_a_flood_is_ended(channel):
    line = Line(APP, f"{ROUTE}/{channel.token}")
    for _ in range(int(route.BURST) + 100):
        line.say(said("present"))
    await line.task
    assert line.closed == route.FLOOD


@conversation
async def test_a_newer_connection_of_the_same_page_takes_the_place_of_the_older_one(channel):
    older = Line(APP, f"{ROUTE}/{channel.token}")
    await older.accepted.wait()
    newer = Line(APP, f"{ROUTE}/{channel.token}")
    await newer.accepted.wait()
    newer.say(said("present"))
    await newer.told.get()
    while older.closed is None:
        await asyncio.sleep(0.01)
    assert older.closed == route.RENEWED
    await newer.hang_up()


@conversation
async def test_after_a_look_that_failed_the_script_runs_and_the_line_stands(channel, fit, caplog):
    line = Line(APP, f"{ROUTE}/{channel.token}")
    await line.accepted.wait()
    whole, fit.draw = fit.draw, lambda: 1 / 0  # type: ignore[method-assign, assignment]
    run(channel, fit)
    assert json.loads(await line.told.get())["why"] == "failed"
    assert "a look at what moves failed" in caplog.text
    fit.draw = whole  # type: ignore[method-assign]
    fit.step = 9
    run(channel, fit)
    line.say(said("present"))
    assert json.loads(await line.told.get())["parts"]["picture"] == {"text": "step 9"}
    await line.hang_up()
