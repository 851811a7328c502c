"""Figures of states without a dashboard: for notebooks, scripts and papers, drawn by the functions that draw the pages.

    from gdm_studio import plot

    plot.strip(shares, rate_hz=25).show()
    plot.track(test, shares, theme="dark").write_html("lap.html")

Each gives a `plotly.graph_objects.Figure`, which Jupyter shows by itself. `theme` is "light" or "dark"; `names` name the states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError
from gdm_core.forecast import Forecast
from gdm_core.trials import Trial
from gdm_studio.plot import figures
from gdm_studio.plot.palette import TOKENS, resolve

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["drawn", "envelope", "ethogram", "strip", "track", "usage"]

Theme = Literal["light", "dark"]


def drawn(figure: figures.Figure, theme: Theme = "light") -> Figure:
    """A figure of the pages as Plotly's own. What it says for who cannot see it, and how to read it, stand in `layout.meta`.

    figure   as `gdm_studio.plot.figures` gives it
    theme    "light" or "dark"
    """
    from plotly.graph_objects import Figure

    if theme not in TOKENS:
        raise ConfigError(f"theme is {theme!r}; choose one of {', '.join(TOKENS)}.")
    made = Figure(resolve({"data": figure["data"], "layout": figure["layout"]}, theme))
    surface = TOKENS[theme]["surface"]
    said = {"alt": figure["alt"], "caption": figure["caption"]}
    return made.update_layout(height=figure["height"], meta=said, paper_bgcolor=surface, plot_bgcolor=surface)


def _clock(rate_hz: float | None) -> tuple[float, str]:
    """(what lies between two samples, its unit)."""
    if rate_hz is not None and not (np.isfinite(rate_hz) and rate_hz > 0):
        raise ConfigError(f"rate_hz is {rate_hz}; it must be a positive number of samples per second.")
    return (1.0, "step") if rate_hz is None else (1 / rate_hz, "s")


def track(
    where: Trial | npt.ArrayLike,
    states: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    title: str = "",
    height: int = 440,
    theme: Theme = "light",
) -> Figure:
    """A path in the mixed colours of its states.

    where    a Trial that knows its position, or places [T, 2]
    states   [T, K] soft states
    names    of the states
    title    above the path
    height   in pixels
    theme    "light" or "dark"
    """
    places: npt.ArrayLike | None
    if not isinstance(where, Trial):
        places = where
    elif (places := where.position) is None:
        raise DataError(f"Trial {where.name!r} has no position; give places [T, 2], or Trial(..., position=places).")
    return drawn(figures.track(places, states, names=names, title=title, height=height), theme)


def strip(
    states: npt.ArrayLike,
    *,
    rate_hz: float | None = None,
    start: float = 0.0,
    names: Sequence[str] | None = None,
    height: int = 190,
    theme: Theme = "light",
) -> Figure:
    """The share of each state at every moment, one on the other; those of one moment add up to 100 %.

    states    [T, K] soft states
    rate_hz   samples a second; without it samples are counted
    start     time of the first one
    names     of the states
    height    in pixels
    theme     "light" or "dark"
    """
    step, unit = _clock(rate_hz)
    return drawn(figures.proportions(states, start=start, step=step, unit=unit, names=names, height=height), theme)


def usage(
    states: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    reference: npt.ArrayLike | None = None,
    theme: Theme = "light",
) -> Figure:
    """How much of the time each state takes.

    states      [T, K] soft states
    names       of the states
    reference   [K] shares to mark beside them
    theme       "light" or "dark"
    """
    return drawn(figures.usage(states, names=names, reference=reference), theme)


def ethogram(
    rows: Mapping[str, npt.ArrayLike],
    *,
    rate_hz: float | None = None,
    start: float = 0.0,
    names: Sequence[str] | None = None,
    theme: Theme = "light",
) -> Figure:
    """Strips over one time axis, such as an expert's bouts above inferred ones.

    rows      name -> [T] whole numbers, -1 where nothing is known, or [T, K] soft states
    rate_hz   samples a second; without it samples are counted
    start     time of the first one
    names     of the states
    theme     "light" or "dark"
    """
    given = {name: np.asarray(row) for name, row in rows.items()}
    known = [int(row.max(initial=0)) + 1 if row.ndim == 1 else row.shape[-1] for row in given.values()]
    n_states = max(known, default=1)
    step, unit = _clock(rate_hz)
    soft = {name: row if row.ndim != 1 else figures.one_hot(row, n_states) for name, row in given.items()}
    return drawn(figures.state_strips(soft, start=start, step=step, unit=unit, names=names), theme)


def envelope(
    forecast: Forecast,
    y: npt.ArrayLike,
    *,
    origin: int,
    channel: int = 0,
    before: int = 30,
    rate_hz: float | None = None,
    title: str = "",
    theme: Theme = "light",
) -> Figure:
    """What a model predicted from one moment on, with its bands of 50 and 90 %, and what came.

    forecast   as `model.forecast` gives it
    y          [T, N] what was observed
    origin     the moment that is predicted from, one of `forecast.origins`
    channel    which of the N
    before     how many samples of the past to show
    rate_hz    samples a second; without it samples are counted
    title      of the vertical axis
    theme      "light" or "dark"
    """
    at = np.flatnonzero(np.asarray(forecast.origins) == origin)
    if not len(at):
        raise DataError(
            f"Nothing was predicted from sample {origin}; origins go from {forecast.origins[0]} to {forecast.origins[-1]}."
        )
    seen = np.asarray(y)
    row, horizon = int(at[0]), forecast.mean.shape[1]
    step, unit = _clock(rate_hz)
    ahead = np.arange(origin + 1, origin + horizon + 1)
    shown = np.arange(max(0, origin - before), min(len(seen), origin + horizon + 1))
    bands = [tuple(edge[row, :, channel] for edge in forecast.interval(level)) for level in (0.9, 0.5)]
    made = figures.envelope(
        ahead * step,
        forecast.mean[row, :, channel],
        band90=(bands[0][0], bands[0][1]),
        band50=(bands[1][0], bands[1][1]),
        observed=(shown * step, seen[shown, channel]),
        now=origin * step,
        unit=unit,
        channel=title,
    )
    return drawn(made, theme)
