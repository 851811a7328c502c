"""Paths and strips of states as plain SVG, which need no plotting library."""

from __future__ import annotations

import base64
from html import escape

import numpy as np
import numpy.typing as npt

from gdm_studio.plot import palette
from gdm_studio.plot.figures.states import averaged
from gdm_studio.plot.figures.track import bucket_lines

STRIP_COLUMNS = 240
MAX_POINTS = 1_600


# Elements of this class lie below faint colours in a dark theme, as in `palette.over_undecided`.
BELOW = "<style>.b{visibility:hidden}@media(prefers-color-scheme:dark){.b{visibility:visible}}</style>"
GREY = palette.TOKENS["dark"]["undecided"]


def to_image(svg: str, alt: str, css_class: str = "") -> str:
    """Return an SVG as an <img>, because Streamlit strips inline SVG."""
    packed = base64.b64encode(svg.encode()).decode("ascii")
    return f'<img class="{css_class}" alt="{escape(alt)}" src="data:image/svg+xml;base64,{packed}">'


def track_image(position: npt.NDArray[np.floating], states: npt.NDArray[np.float32], alt: str) -> str:
    """Draw a path in mixed colours, thinned to every n-th sample with the mean state around it."""
    soft, step = averaged(states, MAX_POINTS)
    where = position[step // 2 :: step][: len(soft)]
    soft = soft[: len(where)]
    low, high = np.nanmin(where, axis=0), np.nanmax(where, axis=0)
    width, height, pad = 400, 230, 14
    scale = float(
        min((width - 2 * pad) / max(high[0] - low[0], 1e-9), (height - 2 * pad) / max(high[1] - low[1], 1e-9))
    )
    x = (where[:, 0] - (low[0] + high[0]) / 2) * scale + width / 2
    y = height / 2 - (where[:, 1] - (low[1] + high[1]) / 2) * scale
    buckets = palette.quantise(soft)

    def path_through(visit: npt.NDArray[np.int64]) -> str:
        strokes = np.split(visit, np.flatnonzero(visit < 0) + 1)
        return "".join(
            "M" + "L".join(f"{x[i]:.1f} {y[i]:.1f}" for i in stroke[:-1]) for stroke in strokes if len(stroke) > 1
        )

    (whole,) = bucket_lines(x, y, np.zeros(len(x) - 1, np.int64)) or [np.zeros(0, np.int64)]
    paths = [f'{BELOW}<path class="b" d="{path_through(whole)}" stroke="{GREY}"/>']
    for colour, opacity, visit in zip(
        palette.hex_colours(buckets.rgb), buckets.opacity, bucket_lines(x, y, buckets.index[:-1]), strict=False
    ):
        if d := path_through(visit):
            paths.append(f'<path d="{d}" stroke="{colour}" stroke-opacity="{opacity:.2f}"/>')
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'fill="none" stroke-width="3.2" stroke-linejoin="round">{"".join(paths)}</svg>'
    )
    return to_image(svg, alt)


def gradient_stops(places: npt.NDArray[np.floating], states: npt.NDArray[np.float32]) -> str:
    """Return gradient stops in the mixed colours of states, each at its place in [0, 1]."""
    colours, opacity = palette.mix(states)
    return "".join(
        f'<stop offset="{at:.4f}" stop-color="{c}" stop-opacity="{o:.2f}"/>'
        for at, c, o in zip(places, palette.hex_colours(colours), opacity, strict=True)
    )


def strip_image(states: npt.NDArray[np.float32], alt: str) -> str:
    """Draw states as a strip over time."""
    soft, _ = averaged(states, STRIP_COLUMNS)
    n, height = len(soft), 14
    stops = gradient_stops((np.arange(n) + 0.5) / n, soft)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {n} {height}" preserveAspectRatio="none"><defs>'
        f'<linearGradient id="g">{stops}</linearGradient></defs>{BELOW}'
        f'<rect class="b" width="{n}" height="{height}" fill="{GREY}"/>'
        f'<rect width="{n}" height="{height}" fill="url(#g)"/></svg>'
    )
    return to_image(svg, alt, "gdm-strip")
