"""The settings of a page for one visitor: what its controls are set to, kept in the session and in the page's address.

A control begins with the text that `settings.text` returns and passes its value to `settings.keep`. The address is written
when a run ends, which adds one step to the browser's history. Controls of different pages may share a name.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import streamlit as st

from pages.ui.component import component

Texts = dict[str, list[str]]
REPORTED_S = 30
LONGEST = 40  # letters of a link's value in a message
_PAGES, _PAGE = "_settings", "_page"


@dataclass
class PageSettings:
    """The settings of one page.

    values   texts by name, except for controls at their default
    address  what the address has
    asked    names in the address that no control has read yet
    shown    names of the controls in the current run
    changes  corrections of the link that the visitor has not been told yet
    turns    number of times that code set a control; its next widget then begins with the new value
    opened   number of times that the page was opened again or left by Back
    """

    values: Texts
    address: Texts
    asked: set[str]
    shown: set[str] = field(default_factory=set)
    changes: list[str] = field(default_factory=list)
    turns: Counter[str] = field(default_factory=Counter)
    opened: int = 0

    def reopen(self, values: Texts, address: Texts) -> None:
        """Set all controls to these values."""
        self.values, self.address, self.asked = dict(values), dict(address), set(values)
        self.opened += 1


def scope(*what: object) -> str:
    """Return a short name of the thing that a control belongs to, such as a recording."""
    return hashlib.sha256(repr(what).encode()).hexdigest()[:6]


def key(name: str, scope: str = "") -> str:
    """Return the name of a control in the address; `scope` names what it belongs to, such as a recording."""
    return f"{name}-{scope}" if scope else name


def widget_key(name: str, options_key: str = "") -> str:
    """Return the key of a control's widget; `options_key` names what its options depend on."""
    page = _current()
    turn = page.opened + page.turns[name]
    return "~".join(part for part in (name, options_key, str(turn or "")) if part)


def text(name: str) -> str | None:
    """Return the text that a control is set to, None for its default."""
    found = texts(name)
    return found[-1] if found else None


def texts(name: str) -> list[str] | None:
    """Return the texts of a control of several values, None for its default."""
    return _current().values.get(name)


def keep(name: str, value: str | Sequence[str] | None, *, settled: bool = True) -> None:
    """Keep the value of a control, None for its default; a value that is not settled stays out of the address."""
    page = _current()
    page.shown.add(name)
    page.asked.discard(name)
    if value is None and settled:
        page.values.pop(name, None)
    elif settled:
        page.values[name] = [value] if isinstance(value, str) else list(value or ())


def change(name: str, value: str | Sequence[str] | None) -> None:
    """Set a control before it is shown, in the `on_click` of a button."""
    keep(name, value)
    page = _current()
    page.turns[name] += 1


def report(name: str, label: str, asked: str, used: str = "") -> None:
    """Note that a link has a value of the control `name` that is not available; `used` replaces it."""
    page = _current()
    if name in page.asked:
        value = asked[:LONGEST].replace("`", "'")
        page.changes.append(f"{label} `{value}` to {used}" if used else f"{label} `{value}` left out")


def times_opened() -> int:
    """Return how often the page was opened again, or its address changed by Back or Forward."""
    return _current().opened


def on_page(page: str) -> Texts:
    """Return the settings of a page, by its address below that of the app; empty if it has not been opened."""
    pages: dict[str, PageSettings] = st.session_state.get(_PAGES, {})
    return dict(pages[page].values) if page in pages else {}


def begin_run(page: str) -> None:
    """Call before a page runs, with its address below that of the app."""
    state = st.session_state
    returned = state.get(_PAGE, page) != page and page in state.get(_PAGES, {})
    state[_PAGE] = page
    settings = _current()
    if returned:
        settings.reopen(_query() or settings.values, _query())
    settings.shown.clear()
    component("history")(key="history", data={"page": page}, on_address_change=_step)


def finish_run(whole: bool) -> None:
    """Write the settings of the page's controls into the address; `whole` says whether the page ran to its end.

    Names that no control has read stay in the address if the page ended early or if they belong to another recording.
    """
    page = _current()
    unread = [name for name in page.address if name in page.asked]
    if whole and (unknown := [name for name in unread if "-" not in name]):
        page.asked.difference_update(unknown)
        page.changes.append(f"`{', '.join(unknown)[:LONGEST]}` left out")
    wanted = {name: page.values[name] for name in page.values if name in page.shown}
    wanted |= {name: page.address[name] for name in unread if name in page.asked}
    if page.changes:
        st.toast(f"Changed in this link: {', '.join(page.changes)}.", icon=":material/link:", duration=REPORTED_S)
        page.changes.clear()
    if wanted != page.address:
        st.query_params.from_dict(wanted)
        page.address = wanted


def _current() -> PageSettings:
    state = st.session_state
    pages: dict[str, PageSettings] = state.setdefault(_PAGES, {})
    page = state.setdefault(_PAGE, "")
    if page not in pages:
        query = _query()
        pages[page] = PageSettings(query, dict(query), set(query))
    return pages[page]


def _query() -> Texts:
    return {name: st.query_params.get_all(name) for name in st.query_params}


def _step() -> None:
    """Set the controls after Back or Forward; Streamlit restores only widgets that it binds to the address itself."""
    query = parse_qs(urlsplit(str(st.session_state["history"]["address"])).query, keep_blank_values=True)
    _current().reopen(query, query)
