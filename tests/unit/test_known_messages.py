"""Messages that the server sends by their name alone, and what a browser still keeps of them."""

from __future__ import annotations

import gc
import random
from types import SimpleNamespace

import pytest
from streamlit import config
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext

from pages.ui import known_messages

AGE = 24
FIGURES = [f"figure-{i}" for i in range(5)]


@pytest.fixture(autouse=True)
def age(monkeypatch: pytest.MonkeyPatch) -> None:
    real = config.get_option
    monkeypatch.setattr(config, "get_option", lambda name: AGE if name == "global.maxCachedMessageAge" else real(name))


def large(name: str) -> ForwardMsg:
    message = ForwardMsg(hash=name)
    message.metadata.cacheable = True
    message.delta.new_element.markdown.body = "much"
    return message


def by_name(name: str) -> ForwardMsg:
    return ForwardMsg(ref_hash=name)


def end(status: int = ForwardMsg.FINISHED_SUCCESSFULLY) -> ForwardMsg:
    return ForwardMsg(script_finished=status)


class Browser:
    """As Streamlit's keeps messages (its cache in static/static/js, "ForwardMsg MISS")."""

    def __init__(self) -> None:
        self.ended = 0
        self.kept: dict[str, int] = {}

    def take(self, messages: list[ForwardMsg]) -> None:
        for message in messages:
            kind = message.WhichOneof("type")
            if kind == "ref_hash":
                assert message.ref_hash in self.kept, f"MISS of {message.ref_hash}"
                self.kept[message.ref_hash] = self.ended
            elif message.metadata.cacheable:
                self.kept[message.hash] = self.ended
            elif message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                self.ended += 1
                self.kept = {name: when for name, when in self.kept.items() if self.ended - when <= AGE}


def drawn(run: list[str], known: frozenset[str]) -> list[ForwardMsg]:
    return [by_name(name) if name in known else large(name) for name in run]


def visit(seed: int, go_by_the_browser: bool) -> int:
    """Five hundred runs that show some of a few figures, begun with what the browser said up to nine runs before; how many
    figures were sent by name."""
    rng = random.Random(seed)
    browser, sent = Browser(), known_messages.Sent()
    said: list[frozenset[str]] = [frozenset()]
    count = 0
    shown = FIGURES[:2]
    for _ in range(500):
        named = rng.choice(said[-9:])  # runs that waited, or that were started by others
        if rng.random() < 0.08:
            shown = rng.sample(FIGURES, rng.randint(0, 3))
        messages = drawn(
            shown if rng.random() < 0.3 else [], named if go_by_the_browser else sent.kept(named)
        )  # else a part that looks again
        count += sum(message.WhichOneof("type") == "ref_hash" for message in messages)
        messages.append(end(rng.choice([ForwardMsg.FINISHED_SUCCESSFULLY] * 4 + [ForwardMsg.FINISHED_EARLY_FOR_RERUN])))
        sent.take(messages)
        browser.take(messages)
        said.append(frozenset(browser.kept))
    return count


def test_no_name_is_sent_that_the_browser_no_longer_knows():
    assert sum(visit(seed, go_by_the_browser=False) for seed in range(40)) > 40 * 100, "most are still sent by name"


def test_what_the_browser_said_when_it_asked_may_be_gone():
    with pytest.raises(AssertionError, match="MISS"):
        sum(visit(seed, go_by_the_browser=True) for seed in range(40))


def test_what_is_not_said_to_be_kept_is_sent_whole():
    sent = known_messages.Sent()
    sent.take([large("a"), large("b"), end()])
    assert sent.kept({"a"}) == {"a"}
    assert sent.kept({"of an earlier connection"}) == frozenset()


def test_little_is_remembered_of_what_was_sent_long_ago():
    sent = known_messages.Sent()
    for run in range(500):
        sent.take([large(f"moved {run}"), end()])
    assert len(sent.last) <= AGE + 1


def test_runs_of_a_session_begin_with_what_its_browser_keeps(monkeypatch):
    for of, name in ((AppSession, "flush_browser_queue"), (ScriptRunContext, "reset")):
        monkeypatch.setattr(of, name, getattr(of, name))  # as it was, afterwards
    began = []
    monkeypatch.setattr(AppSession, "_counts_messages", False, raising=False)
    monkeypatch.setattr(AppSession, "flush_browser_queue", lambda session: session.queue)
    monkeypatch.setattr(ScriptRunContext, "reset", lambda context, **named: began.append(named))
    known_messages.keep()
    known_messages.keep()
    session = SimpleNamespace(id="visitor", queue=[large("a"), end()])
    assert AppSession.flush_browser_queue(session) == session.queue
    context = SimpleNamespace(session_id="visitor")
    ScriptRunContext.reset(context, query_string="K=5", cached_message_hashes=frozenset({"a", "gone"}))
    ScriptRunContext.reset(SimpleNamespace(session_id="another"), cached_message_hashes=frozenset({"a"}))
    ScriptRunContext.reset(context, cached_message_hashes=frozenset())
    assert [run["cached_message_hashes"] for run in began] == [{"a"}, frozenset(), frozenset()]
    assert began[0]["query_string"] == "K=5"
    del session
    gc.collect()
    assert "visitor" not in known_messages._of
