"""What a browser keeps is sent again by its name alone only where the browser is sure to keep it still.

A browser keeps large messages, such as figures, says which when it asks for a run, and throws away what no run has shown for
a while (`global.maxCachedMessageAge`); parts of a page that look again by themselves count as runs. Streamlit (1.67) goes by
what the browser said for as long as a run waits, and while runs start one another. A message that had been thrown away
meanwhile was "Cached ForwardMsg MISS", in a dialog over the page, which took in nothing more until it was loaded again.

So the server counts along: it sees each message and each end of a run pass in the order in which the browser does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from streamlit import config
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext

# Runs that may end between the beginning of a run, where it is decided what is known, and its first message to the browser:
# those whose end had not left the server yet.
SPARE = 6


class Sent:
    """What went to one browser: the number of runs that had ended when each large message last did."""

    def __init__(self) -> None:
        self.ended = 0
        self.last: dict[str, int] = {}

    def take(self, messages: Iterable[ForwardMsg]) -> None:
        """These leave for the browser."""
        for message in messages:
            kind = message.WhichOneof("type")
            if kind == "ref_hash":
                self.last[message.ref_hash] = self.ended
            elif message.metadata.cacheable and message.hash:
                self.last[message.hash] = self.ended
            elif kind == "script_finished" and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                self.ended += 1
                for name in [name for name, when in self.last.items() if self.ended - when > _age()]:
                    del self.last[name]

    def kept(self, named: Iterable[str]) -> frozenset[str]:
        """Those of `named` that the browser keeps for some runs to come. A run asks in its own thread, while others leave."""
        spared = _age() - SPARE
        last = ((name, self.last.get(name)) for name in named)
        return frozenset(name for name, when in last if when is not None and self.ended - when <= spared)


_of: WeakValueDictionary[str, Sent] = WeakValueDictionary()  # by the session, which holds it


def _age() -> int:
    return int(config.get_option("global.maxCachedMessageAge"))


def keep() -> None:
    """Have all sessions count along; at once, and again without effect."""
    if getattr(AppSession, "_counts_messages", False):
        return
    AppSession._counts_messages = True  # type: ignore[attr-defined]
    flush, reset = AppSession.flush_browser_queue, ScriptRunContext.reset

    def flush_browser_queue(session: AppSession) -> list[ForwardMsg]:
        messages = flush(session)
        if session.id not in _of:
            _of[session.id] = session._sent = Sent()  # type: ignore[attr-defined]
        _of[session.id].take(messages)
        return messages

    def begin(context: ScriptRunContext, *args: Any, **named: Any) -> None:
        reset(context, *args, **_only_kept(context.session_id, named))

    AppSession.flush_browser_queue = flush_browser_queue  # type: ignore[method-assign, assignment]
    ScriptRunContext.reset = begin  # type: ignore[method-assign, assignment]


def _only_kept(session: str, named: Mapping[str, Any]) -> dict[str, Any]:
    sent, said = _of.get(session), named.get("cached_message_hashes")
    return dict(named) if not said else {**named, "cached_message_hashes": sent.kept(said) if sent else frozenset()}
