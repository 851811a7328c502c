"""Pictures on Home as plain SVG, which need no plotting library."""

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
FRAMES = 48


def _to_image(svg: str, alt: str, css_class: str = "") -> str:
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
    paths = []
    for colour, opacity, visit in zip(
        palette.hex_colours(buckets.rgb), buckets.opacity, bucket_lines(x, y, buckets.index[:-1]), strict=False
    ):
        strokes = np.split(visit, np.flatnonzero(visit < 0) + 1)
        d = "".join(
            "M" + "L".join(f"{x[i]:.1f} {y[i]:.1f}" for i in stroke[:-1]) for stroke in strokes if len(stroke) > 1
        )
        if d:
            paths.append(f'<path d="{d}" stroke="{colour}" stroke-opacity="{opacity:.2f}"/>')
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'fill="none" stroke-width="3.2" stroke-linejoin="round">{"".join(paths)}</svg>'
    )
    return _to_image(svg, alt)


def _stops(places: npt.NDArray[np.floating], states: npt.NDArray[np.float32]) -> str:
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
    stops = _stops((np.arange(n) + 0.5) / n, soft)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {n} {height}" preserveAspectRatio="none"><defs>'
        f'<linearGradient id="g">{stops}</linearGradient></defs><rect width="{n}" height="{height}" fill="url(#g)"/></svg>'
    )
    return _to_image(svg, alt, "gdm-strip")


def _oval(n: int) -> npt.NDArray[np.float64]:
    """Return a stadium [n, 2] at constant speed, from the start of its upper straight."""
    width, height, pad = 300, 118, 16
    radius = (height - 2 * pad) / 2
    straight = width - 2 * pad - 2 * radius
    arc = np.pi * radius
    s = np.linspace(0, 2 * (straight + arc), n, endpoint=False)
    left = pad + radius
    turned = (np.clip(s - straight, 0, arc) + np.clip(s - 2 * straight - arc, 0, arc)) / radius
    x = left + np.clip(s, 0, straight) - np.clip(s - straight - arc, 0, straight) + radius * np.sin(turned)
    return np.column_stack([x, height / 2 - radius * np.cos(turned)])


def stadium_states(n: int, softness: float) -> npt.NDArray[np.float32]:
    """Return proportions [n, 2] of 'straight' and 'turn' along the stadium; softness 0 switches abruptly."""
    position = _oval(n)
    x = position[:, 0]
    edge = np.minimum(x - x.min(), x.max() - x)  # distance to the end of the track
    bend = (118 - 32) / 2
    distance = (edge - bend) / bend  # 0 where straight meets turn
    turn = (distance < 0).astype(float) if softness == 0 else 1 / (1 + np.exp(distance / softness))
    return np.column_stack([1 - turn, turn]).astype(np.float32)


def _stadium_image(softness: float, alt: str) -> str:
    """Draw the stadium in mixed colours; its states depend on x alone, so one gradient suffices."""
    position, lap = _oval(384), stadium_states(384, softness)
    order = np.argsort(position[:, 0], kind="stable")
    if softness:
        order = order[::4]
    else:  # the two sides of each jump are enough
        jump = np.flatnonzero(np.diff(lap[order, 0]))
        order = order[np.sort(np.concatenate([[0], jump, jump + 1, [len(order) - 1]]))]
    left, right = position[:, 0].min(), position[:, 0].max()
    stops = _stops((position[order, 0] - left) / (right - left), lap[order])
    d = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in _oval(96)) + "Z"
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 118" width="300" height="118"><defs>'
        f'<linearGradient id="g" gradientUnits="userSpaceOnUse" x1="{left:.1f}" x2="{right:.1f}" y1="0" y2="0">{stops}'
        f'</linearGradient></defs><path d="{d}" fill="none" stroke="url(#g)" stroke-width="7" stroke-linejoin="round"/></svg>'
    )
    return _to_image(svg, alt)


def _frames(name: str, shares: npt.NDArray[np.float32]) -> str:
    """Return keyframes of a bar that follows `shares`."""
    steps = "".join(
        f"{100 * i / len(shares):.2f}%{{transform:scaleX({max(v, 0.004):.3f})}}" for i, v in enumerate(shares.tolist())
    )
    return f"@keyframes {name}{{{steps}100%{{transform:scaleX({max(float(shares[0]), 0.004):.3f})}}}}"


def animation_html() -> str:
    """Draw two cars on the same track: one with hard states, one with soft states."""
    panels, styles = [], []
    for key, title, text, softness in (
        ("hard", "Hard switching", "One state at a time. No in-between.", 0.0),
        ("soft", "Soft switching", "Mixtures: 70% turning, 30% straight.", 0.32),
    ):
        lap = stadium_states(FRAMES, softness)
        picture = _stadium_image(softness, f"{title}: a lap in the colours of two states")
        road = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in _oval(96)) + "Z"
        timing = "" if softness else "animation-timing-function:step-end"  # hard shares jump
        bars = "".join(
            f'<span>{label}</span><i><b style="background:{colour};animation-name:gdm-{key}-{k};'
            f'transform:scaleX({max(float(lap[FRAMES // 3, k]), 0.004):.3f});{timing}"></b></i>'
            for k, (label, colour) in enumerate(zip(("straight", "turn"), palette.colours(2), strict=True))
        )
        styles += [_frames(f"gdm-{key}-{k}", lap[:, k]) for k in range(2)]
        panels.append(
            f'<div class="gdm-lap"><p class="gdm-panel-title">{title}</p><div class="gdm-road">{picture}'
            f'<em style="offset-path:path(\'{road}\')"></em></div><div class="gdm-shares">{bars}</div>'
            f'<p class="gdm-quiet">{text}</p></div>'
        )
    return f"<style>{''.join(styles)}</style><div class='gdm-laps'>{''.join(panels)}</div>"
