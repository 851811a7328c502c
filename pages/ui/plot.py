"""A figure on the page that updates in place: the drawing node, the zoom and the hover survive every change.

plot(figure, key="track")                                  # draw, or update what stands there under this key
events = plot(figure, key="strip", events=("click",))      # events.click is {"x", "y", "curve", "point", "customdata"}
plot(figure, key="track", state="preview")                 # a first look while the fit still runs
plot(figure, key="track", revision=dataset_name)           # another revision forgets the zoom

What may move while no script runs is a `Picture`, drawn by `parts.draw_parts`: the same figure, or the words in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import streamlit as st

from gdm_core.errors import ConfigError
from gdm_studio.plot.figures.base import Figure
from pages.ui.browser import renderer
from pages.ui.server import plotly_address
from pages.ui.theme import TOKENS

State = Literal["fresh", "preview", "stale", "running"]
BADGES: dict[str, str] = {
    "fresh": "",
    "preview": "preview, refitting",
    "stale": "earlier result",
    "running": "fitting",
}
EVENTS = ("click", "select", "range")


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure in its place; without one, `title` and `note` say there what is missing and what will bring it. See `plot`.

    clicked  called with the point that was clicked, {"x", "y", ...}, before the page runs
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
    events: Sequence[str] = ()
    filename: str | None = None

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
            "events": [*self.events, *([] if self.clicked is None else ["click"])],
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

    def draw(
        self,
        module: str = "plot",
        more: Mapping[str, Any] | None = None,
        on_select: Callable[[Any], None] | None = None,
    ) -> Any:
        """Draw it, or update in place what stands under its key."""
        if unknown := [name for name in self.events if name not in EVENTS]:
            raise ConfigError(f"Unknown plot event {unknown[0]!r}; known are {', '.join(EVENTS)}.")
        callbacks = {f"on_{name}_change": _ignore for name in self.events}
        for name, call in (("select", on_select), ("click", self.clicked)):
            if call is not None:
                callbacks[f"on_{name}_change"] = partial(_call, call, self.key, name)
        return renderer(module)(key=self.key, data=self.message() | dict(more or {}), **callbacks)


def plot(
    figure: Figure | None,
    key: str,
    *,
    height: int | None = None,
    state: State = "fresh",
    revision: str = "",
    group: str = "page",
    events: Sequence[str] = (),
    filename: str | None = None,
    empty: tuple[str, str] = ("", ""),
    still: bool = False,
    module: str = "plot",
    more: Mapping[str, Any] | None = None,
    on_select: Callable[[Any], None] | None = None,
) -> Any:
    """Draw `figure` under `key`, or update it in place.

    height        pixels, when not the figure's own
    state         whether this is the result ('fresh'), a first look, an earlier result, or one still being fitted
    revision      zoom is kept as long as this stays the same
    group         figures of one group share a time cursor
    events        which of 'click', 'select', 'range' rerun the page; read them from the value returned
    filename      of the PNG or SVG that the visitor saves
    empty         (title, what to do) in place of a figure that is not there yet
    still         it shows nothing of the fit, and does not fade while a slider moves on
    on_select     called with what was selected before the page runs, so that no run that is overtaken loses it
    module        what draws it in the browser: another one of components/ may change the figure by itself, and is given `more`
    """
    picture = Picture(
        figure, key, state, revision, *empty, still, height=height, group=group, events=events, filename=filename
    )
    return picture.draw(module, more, on_select)


def _call(call: Callable[[Any], None], key: str, name: str) -> None:
    call((st.session_state.get(key) or {}).get(name))


def _ignore() -> None:
    """A trigger has to name a callback for its value to be returned."""
