"""A figure on the page that updates in place: the drawing node, the zoom and the hover survive every change.

plot(figure, key="track")                                  # draw, or update what stands there under this key
plot(figure, key="track", state="stale")                   # an earlier result, dimmed
plot(figure, key="track", revision=dataset_name)           # another revision forgets the zoom

What may move while no script runs is a `Picture` or a `Text`, drawn by `draw_parts`: the same figure, or words in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, ParamSpec

import streamlit as st

from gdm_studio.plot.figures.base import Figure
from pages.ui.component import component
from pages.ui.scrubber import Scrubber
from pages.ui.server import plotly_address
from pages.ui.theme import TOKENS

State = Literal["fresh", "stale", "running"]
BADGES: dict[str, str] = {
    "fresh": "",
    "stale": "earlier result",
    "running": "fitting",
}
P = ParamSpec("P")


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure in its place; without one, `title` and `note` say there what is missing and what will bring it.

    state       whether this is the result ('fresh'), an earlier one ('stale'), or of a running fit ('running')
    revision    zoom is kept as long as this stays the same
    still       it shows nothing of the fit, and does not fade while a slider moves on
    clicked     called with the point that was clicked, {"x", "y", "curve", "point", "customdata"}, before the page runs
    height      pixels, when not the figure's own
    group       figures of one group share a time cursor
    filename    of the PNG or SVG that the visitor saves
    module      what draws it in the browser: another one of components/ may change the figure by itself, and is given `more`
    """

    figure: Figure | None
    key: str
    state: State = "fresh"
    revision: str = ""
    title: str = ""
    note: str = ""
    still: bool = False
    clicked: Callable[[Any], None] | None = None
    height: int | None = None
    group: str = "page"
    filename: str | None = None
    module: str = "plot"
    more: Mapping[str, Any] | None = None

    def message(self) -> dict[str, Any]:
        """What the browser is given, by a script or over the live channel."""
        size = {"height": self.height, "phone_height": None}
        if self.figure is not None:
            size = {"height": self.height or self.figure["height"], "phone_height": self.figure.get("phone_height")}
        options = {
            **size,
            "key": self.key,
            "state": self.state,
            "still": self.still,
            "badge": BADGES[self.state],
            "revision": self.revision or self.key,
            "group": self.group,
            "clicks": self.clicked is not None,
            "filename": self.filename or f"gdm-{self.key}",
            "plotly": plotly_address(),
            "empty": {"title": self.title, "note": self.note},
        }
        return {"figure": self.figure, "options": options, "tokens": TOKENS}

    def same(self, other: Any) -> bool:
        """Whether it would be drawn alike: figures are known by identity, since the page makes each of them once."""
        mine, theirs = (
            (one.key, one.state, one.revision, one.title, one.note) if isinstance(one, Picture) else None
            for one in (self, other)
        )
        return mine == theirs and self.figure is other.figure

    def draw(self) -> Any:
        """Draw it, or update in place what stands under its key."""
        callbacks = {} if self.clicked is None else {"on_click_change": partial(_call, self.clicked, self.key)}
        return component(self.module)(key=self.key, data=self.message() | dict(self.more or {}), **callbacks)


def _drawn(make: Callable[P, Picture]) -> Callable[P, Any]:
    def draw(*args: P.args, **kwargs: P.kwargs) -> Any:
        return make(*args, **kwargs).draw()

    return draw


plot = _drawn(Picture)  # takes what a picture takes, and draws it at once


def coming(key: str, words: str, height: int = 300) -> None:
    """The place of a figure that is on its way: what stands below it stays where it is."""
    plot(None, key, height=height, note=words)


def _call(clicked: Callable[[Any], None], key: str) -> None:
    point = (st.session_state.get(key) or {}).get("click")
    clicked(point if isinstance(point, Mapping) else None)  # a browser may send anything


# ---- words in their place, and the parts of a page that may move while no script runs -------------------------------
@dataclass(frozen=True)
class Text:
    """Some HTML in its place, made here and safe: whatever a visitor or a file said is escaped in it.

    said  for those who listen instead of looking: read out, politely, whenever it changes
    """

    html: str
    key: str
    said: str = ""

    def message(self) -> dict[str, Any]:
        return {"html": self.html, "said": self.said, "options": {"key": self.key}}

    def same(self, other: Any) -> bool:
        return self == other

    def draw(self) -> None:
        """Draw them, or update in place what stands under their key."""
        component("text")(key=self.key, data=self.message(), height="content")


Panel = Picture | Text | Scrubber


def by_key(*parts: Panel | None) -> dict[str, Panel]:
    """Those that are there, by their places."""
    return {part.key: part for part in parts if part is not None}


def draw_parts(parts: Mapping[str, Panel], places: Mapping[str, Any] | None = None) -> None:
    """Draw them in their places, the others one below the other."""
    for key, part in parts.items():
        with (places or {}).get(key) or nullcontext():
            part.draw()
