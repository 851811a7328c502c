"""Figures of states for notebooks, scripts and papers, drawn as in the dashboard.

    from gdm_studio import plot

    plot.strip(shares, rate_hz=25).show()
    plot.track(test, shares, theme="dark").write_html("lap.html")

Functions return a `plotly.graph_objects.Figure`, which Jupyter displays.
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

__all__ = ["envelope", "ethogram", "strip", "to_plotly", "track", "usage"]

Theme = Literal["light", "dark"]


def to_plotly(figure: figures.Figure, theme: Theme = "light") -> Figure:
    """Convert a figure of the dashboard to Plotly, with its texts in `layout.meta`.

    figure   result of a function of `gdm_studio.plot.figures`
    theme    "light" or "dark"
    """
    from plotly.graph_objects import Figure

    if theme not in TOKENS:
        raise ConfigError(f"theme is {theme!r}; choose one of {', '.join(TOKENS)}.")
    result = Figure(resolve({"data": figure["data"], "layout": figure["layout"]}, theme))
    surface = TOKENS[theme]["surface"]
    texts = {"alt": figure["alt"], "caption": figure["caption"]}
    return result.update_layout(height=figure["height"], meta=texts, paper_bgcolor=surface, plot_bgcolor=surface)


def _time_step(rate_hz: float | None) -> tuple[float, str]:
    """Return the time between two samples and its unit."""
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
    """Draw a path in the mixed colours of its states.

    where    a Trial with positions, or positions [T, 2]
    states   [T, K] soft states
    names    names of the states
    title    title above the path
    height   height in pixels
    theme    "light" or "dark"
    """
    positions: npt.ArrayLike | None
    if not isinstance(where, Trial):
        positions = where
    elif (positions := where.position) is None:
        raise DataError(f"Trial {where.name!r} has no position. Pass positions [T, 2], or set Trial(position=...).")
    return to_plotly(figures.track(positions, states, names=names, title=title, height=height), theme)


def strip(
    states: npt.ArrayLike,
    *,
    rate_hz: float | None = None,
    start: float = 0.0,
    names: Sequence[str] | None = None,
    height: int = 190,
    theme: Theme = "light",
) -> Figure:
    """Draw the stacked proportions of states over time.

    states    [T, K] soft states
    rate_hz   samples per second; None for a time axis in samples
    start     time of the first sample
    names     names of the states
    height    height in pixels
    theme     "light" or "dark"
    """
    step, unit = _time_step(rate_hz)
    return to_plotly(figures.proportions(states, start=start, step=step, unit=unit, names=names, height=height), theme)


def usage(
    states: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    reference: npt.ArrayLike | None = None,
    theme: Theme = "light",
) -> Figure:
    """Draw the occupancy of each state.

    states      [T, K] soft states
    names       names of the states
    reference   [K] occupancies to mark for comparison
    theme       "light" or "dark"
    """
    return to_plotly(figures.usage(states, names=names, reference=reference), theme)


def ethogram(
    rows: Mapping[str, npt.ArrayLike],
    *,
    rate_hz: float | None = None,
    start: float = 0.0,
    names: Sequence[str] | None = None,
    theme: Theme = "light",
) -> Figure:
    """Draw strips of states over one time axis, such as expert labels above inferred states.

    rows      name -> labels [T], -1 if unknown, or soft states [T, K]
    rate_hz   samples per second; None for a time axis in samples
    start     time of the first sample
    names     names of the states
    theme     "light" or "dark"
    """
    arrays = {name: np.asarray(row) for name, row in rows.items()}
    sizes = [int(row.max(initial=0)) + 1 if row.ndim == 1 else row.shape[-1] for row in arrays.values()]
    n_states = max(sizes, default=1)
    step, unit = _time_step(rate_hz)
    soft = {name: row if row.ndim != 1 else figures.one_hot(row, n_states) for name, row in arrays.items()}
    return to_plotly(figures.state_strips(soft, start=start, step=step, unit=unit, names=names), theme)


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
    """Draw a forecast from one origin with its 50% and 90% intervals, and the observations.

    forecast   result of `model.forecast`
    y          [T, N] observations
    origin     sample that the forecast starts from, one of `forecast.origins`
    channel    index of the channel
    before     number of past samples to show
    rate_hz    samples per second; None for a time axis in samples
    title      title of the vertical axis
    theme      "light" or "dark"
    """
    at = np.flatnonzero(np.asarray(forecast.origins) == origin)
    if not len(at):
        raise DataError(
            f"Sample {origin} is not an origin of this forecast ({forecast.origins[0]} to {forecast.origins[-1]})."
        )
    observed = np.asarray(y)
    row, horizon = int(at[0]), forecast.mean.shape[1]
    step, unit = _time_step(rate_hz)
    ahead = np.arange(origin + 1, origin + horizon + 1)
    shown = np.arange(max(0, origin - before), min(len(observed), origin + horizon + 1))
    bands = [tuple(edge[row, :, channel] for edge in forecast.interval(level)) for level in (0.9, 0.5)]
    result = figures.envelope(
        ahead * step,
        forecast.mean[row, :, channel],
        band90=(bands[0][0], bands[0][1]),
        band50=(bands[1][0], bands[1][1]),
        observed=(shown * step, observed[shown, channel]),
        now=origin * step,
        unit=unit,
        channel=title,
    )
    return to_plotly(result, theme)
