"""Figures and text that update in place: the node, the zoom and the hover survive.

plot(figure, key="track")                                  # draw, or update the figure of this key
plot(figure, key="track", state="stale")                   # an earlier result, with a hatched edge
plot(figure, key="track", revision=dataset_name)           # another revision resets the zoom

Panels that the live channel may update are a `Picture`, a `Text` or a `Scrubber`, drawn by `draw_live`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal

import streamlit as st

from gdm_studio.plot.figures.base import Figure
from pages.channel import LivePanels, channel
from pages.ui.component import component
from pages.ui.theme import TOKENS

REPLAY = "replay"  # key of the scrubber's events, and of the cursor over the ELBO curve
State = Literal["fresh", "stale", "running"]


@dataclass(frozen=True)
class Picture:
    """A figure; without one, `title` and `note` take its place.

    state       'fresh': the result, 'stale': an earlier one, 'running': a running fit
    revision    zoom is kept while this is the same
    still       whether the figure does not depend on the fit
    badge       words in the corner, such as the settings of an earlier result
    clicked     called with a clicked point, {"x", "y", "customdata"}, before the page runs
    height      pixels, instead of the figure's own
    group       figures of one group share a time cursor
    filename    of a saved PNG or SVG
    module      component that draws it; it receives `more`
    """

    figure: Figure | None
    key: str
    state: State = "fresh"
    revision: str = ""
    title: str = ""
    note: str = ""
    still: bool = False
    badge: str = ""
    clicked: Callable[[Any], None] | None = field(default=None, compare=False)
    height: int | None = None
    group: str = "page"
    filename: str | None = None
    module: str = "plot"
    more: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def message(self) -> dict[str, Any]:
        """Return the data that the browser receives, from a script or over the live channel."""
        options = {
            "height": self.height or (self.figure["height"] if self.figure else None),
            "key": self.key,
            "state": self.state,
            "still": self.still,
            "badge": "fitting" if self.state == "running" else self.badge,
            "revision": self.revision or self.key,
            "group": self.group,
            "clicks": self.clicked is not None,
            "filename": self.filename or f"gdm-{self.key}",
            "empty": {"title": self.title, "note": self.note},
        }
        return {"figure": self.figure, "options": options, "tokens": TOKENS}

    def draw(self) -> Any:
        """Draw it, or update the figure of this key."""
        callbacks = {} if self.clicked is None else {"on_click_change": partial(_call, self.clicked, self.key)}
        return component(self.module)(key=self.key, data=self.message() | dict(self.more), **callbacks)


def plot(figure: Figure | None, key: str, **look: Any) -> Any:
    """Draw the figure of this key at once; `look` has the other fields of a `Picture`."""
    return Picture(figure, key, **look).draw()


def coming(key: str, words: str, height: int = 300) -> None:
    """Reserve the place of a figure that is being computed."""
    plot(None, key, height=height, note=words)


def _call(clicked: Callable[[Any], None], key: str) -> None:
    point = (st.session_state.get(key) or {}).get("click")
    clicked(point if isinstance(point, Mapping) else None)  # a browser may send anything


# ---- text, and panels that the live channel updates -----------------------------------------------------------------
@dataclass(frozen=True)
class Text:
    """HTML in which text of visitors and files is escaped.

    announcement  read out by screen readers whenever it changes
    """

    html: str
    key: str
    announcement: str = ""

    def message(self) -> dict[str, Any]:
        return {"html": self.html, "announcement": self.announcement, "options": {"key": self.key}}

    def draw(self) -> None:
        """Draw it, or update the text of this key."""
        component("text")(key=self.key, data=self.message(), height="content")


@dataclass(frozen=True)
class Scrubber:
    """A slider over the training steps of a fit, whose states the browser draws.

    fit    name of the finished fit; "" while one runs
    step   of the latest snapshot
    total  last step of the fit; 0 if there is no snapshot
    """

    fit: str = ""
    step: int = 0
    total: int = 0
    key: str = f"slider-{REPLAY}"

    def message(self) -> dict[str, Any]:
        return asdict(self) | {"options": {"key": self.key}}

    def draw(self) -> None:
        """Draw it, or update the scrubber of this key."""
        component("scrubber")(key=self.key, data=self.message(), height="content")


Panel = Picture | Text | Scrubber


def by_key(*parts: Panel | None) -> dict[str, Panel]:
    """Return the panels that are not None, by key."""
    return {part.key: part for part in parts if part is not None}


def draw_live(
    make: Callable[[], Mapping[str, Panel]],
    moves: Callable[[], bool],
    settled: Callable[[], str],
    places: Mapping[str, Any] | None = None,
) -> None:
    """Draw panels in their places, the others below each other; the channel updates them.

    make     returns them by key; also called in other threads: it must neither draw nor read the session
    moves    whether `make` may return something new
    settled  returns why the script has to run now; "" if it does not
    """
    panels = make()
    for key, panel in panels.items():
        with (places or {}).get(key) or nullcontext():
            panel.draw()
    channel().scene.live.append(LivePanels(make, moves, settled, panels))
