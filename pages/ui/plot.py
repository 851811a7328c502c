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

    still   it shows nothing of the fit, and stays as it is whatever the controls say
    """

    figure: Figure | None
    key: str
    state: State = "fresh"
    revision: str = ""
    title: str = ""
    note: str = ""
    still: bool = False

    def message(self) -> dict[str, Any]:
        """As the browser is told."""
        return _data(
            self.figure,
            self.key,
            state=self.state,
            revision=self.revision,
            empty=(self.title, self.note),
            still=self.still,
        )

    def same(self, other: Any) -> bool:
        """Whether it would be drawn alike: figures are known by identity, since the page makes each of them once."""
        mine, theirs = (
            (one.key, one.state, one.revision, one.title, one.note) if isinstance(one, Picture) else None
            for one in (self, other)
        )
        return mine == theirs and self.figure is other.figure


def plot(
    figure: Figure | None,
    key: str,
    *,
    height: int | None = None,
    phone_height: int | None = None,
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

    height        pixels, when not the figure's own; phone_height the same on a narrow screen
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
    unknown = [name for name in events if name not in EVENTS]
    if unknown:
        raise ConfigError(f"Unknown plot event {unknown[0]!r}; known are {', '.join(EVENTS)}.")
    data = _data(
        figure,
        key,
        state=state,
        revision=revision,
        empty=empty,
        still=still,
        height=height,
        phone_height=phone_height,
        group=group,
        events=list(events),
        filename=filename,
    )
    callbacks = {f"on_{name}_change": _ignore for name in events}
    if on_select is not None:
        callbacks["on_select_change"] = lambda: on_select((st.session_state.get(key) or {}).get("select"))
    return renderer(module)(key=key, data=data | dict(more or {}), **callbacks)


def _data(
    figure: Figure | None,
    key: str,
    *,
    state: State,
    revision: str,
    empty: tuple[str, str] = ("", ""),
    still: bool = False,
    height: int | None = None,
    phone_height: int | None = None,
    group: str = "page",
    events: Sequence[str] = (),
    filename: str | None = None,
) -> dict[str, Any]:
    """What the browser is given, by a script or over the live channel."""
    size = {"height": height, "phone_height": phone_height}
    if figure is not None:
        size = {"height": height or figure["height"], "phone_height": phone_height or figure.get("phone_height")}
    options = {
        **size,
        "key": key,
        "state": state,
        "still": still,
        "badge": BADGES[state],
        "revision": revision or key,
        "group": group,
        "events": list(events),
        "filename": filename or f"gdm-{key}",
        "plotly": plotly_address(),
        "empty": {"title": empty[0], "note": empty[1]},
    }
    return {"figure": figure, "options": options, "tokens": TOKENS}


def _ignore() -> None:
    """A trigger has to name a callback for its value to be returned."""
