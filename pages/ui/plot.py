"""A figure on the page that updates in place: the drawing node, the zoom and the hover survive every change.

plot(figure, key="track")                                  # draw, or update what stands there under this key
events = plot(figure, key="strip", events=("click",))      # events.click is {"x", "y", "curve", "point", "customdata"}
plot(figure, key="track", state="preview")                 # a first look while the fit still runs
plot(figure, key="track", revision=dataset_name)           # another revision forgets the zoom
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from gdm_core.errors import ConfigError
from pages.ui.browser import renderer
from pages.ui.figures.base import Figure
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


def plot(
    figure: Figure,
    key: str,
    *,
    height: int | None = None,
    phone_height: int | None = None,
    state: State = "fresh",
    revision: str = "",
    group: str = "page",
    events: Sequence[str] = (),
    filename: str | None = None,
    module: str = "plot",
    more: Mapping[str, Any] | None = None,
) -> Any:
    """Draw `figure` under `key`, or update it in place.

    height        pixels, when not the figure's own; phone_height the same on a narrow screen
    state         whether this is the result ('fresh'), a first look, an earlier result, or one still being fitted
    revision      zoom is kept as long as this stays the same
    group         figures of one group share a time cursor
    events        which of 'click', 'select', 'range' rerun the page; read them from the value returned
    filename      of the PNG or SVG that the visitor saves
    module        what draws it in the browser: another one of components/ may change the figure by itself, and is given `more`
    """
    unknown = [name for name in events if name not in EVENTS]
    if unknown:
        raise ConfigError(f"Unknown plot event {unknown[0]!r}; known are {', '.join(EVENTS)}.")
    options = {
        "height": height or figure["height"],
        "phone_height": phone_height or figure.get("phone_height"),
        "state": state,
        "badge": BADGES[state],
        "revision": revision or key,
        "group": group,
        "events": list(events),
        "filename": filename or f"gdm-{key}",
        "plotly": plotly_address(),
    }
    callbacks = {f"on_{name}_change": _ignore for name in events}
    data = {"figure": figure, "options": options, "tokens": TOKENS} | dict(more or {})
    return renderer(module)(key=key, data=data, **callbacks)


def _ignore() -> None:
    """A trigger has to name a callback for its value to be returned."""
