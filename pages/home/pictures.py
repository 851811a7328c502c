"""The two laps on Home, with hard and with soft states, and the scores of its cards."""

from __future__ import annotations

from html import escape

import numpy as np
import numpy.typing as npt

from gdm_studio.plot import palette
from pages.ui.card import VERDICTS, Score, describe_baseline
from pages.ui.images import BELOW, GREY, gradient_stops, to_image

FRAMES = 48


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


def _road() -> str:
    """Return the path of the stadium, for SVG and CSS."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in _oval(96)) + "Z"


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
    jump = np.r_[True, np.diff(lap[order, 0]) != 0, True]
    order = order[::4] if softness else order[jump[1:] | jump[:-1]]  # the two sides of each jump are enough
    left, right = position[:, 0].min(), position[:, 0].max()
    stops = gradient_stops((position[order, 0] - left) / (right - left), lap[order])
    d = _road()
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 118" width="300" height="118"><defs>'
        f'<linearGradient id="g" gradientUnits="userSpaceOnUse" x1="{left:.1f}" x2="{right:.1f}" y1="0" y2="0">{stops}'
        f'</linearGradient></defs>{BELOW}<g fill="none" stroke-width="7" stroke-linejoin="round"><path class="b" d="{d}" '
        f'stroke="{GREY}"/><path d="{d}" stroke="url(#g)"/></g></svg>'
    )
    return to_image(svg, alt)


def _frames(name: str, shares: npt.NDArray[np.float32]) -> str:
    """Return keyframes of a bar that follows `shares`."""
    around = [*shares.tolist(), float(shares[0])]
    steps = (f"{100 * i / len(shares):.2f}%{{transform:scaleX({max(v, 0.004):.3f})}}" for i, v in enumerate(around))
    return f"@keyframes {name}{{{''.join(steps)}}}"


def animation_html() -> str:
    """Draw two cars on the same track: one with hard states, one with soft states; laps.js lets the reader drag them."""
    panels, styles, road = [], [], _road()
    for key, title, text, softness in (
        ("hard", "Hard switching", "One state at a time.", 0.0),
        ("soft", "Soft switching", "Partly straight, partly turning. Drag the car.", 0.32),
    ):
        lap = stadium_states(FRAMES, softness)
        picture = _stadium_image(softness, f"{title}: a lap in the colours of two states")
        timing = "" if softness else "animation-timing-function:step-end"  # hard shares jump
        bars = "".join(
            f'<span>{label}</span><i><b style="background:{colour};animation-name:gdm-{key}-{k};'
            f'transform:scaleX({max(float(lap[FRAMES // 3, k]), 0.004):.3f});{timing}"></b></i>'
            for k, (label, colour) in enumerate(zip(("straight", "turn"), palette.colours(2), strict=True))
        )
        styles += [_frames(f"gdm-{key}-{k}", lap[:, k]) for k in range(2)]
        panels.append(
            f'<div class="gdm-lap"><p class="gdm-panel-title">{title}</p><div class="gdm-road" data-road="{road}">{picture}'
            f'<em role="slider" tabindex="0" aria-label="Car, {title.lower()}" aria-valuenow="0" '
            f'style="offset-path:path(\'{road}\')"></em></div><div class="gdm-shares">{bars}</div>'
            f'<p class="gdm-quiet">{text}</p></div>'
        )
    return f"<style>{''.join(styles)}</style><div class='gdm-laps'>{''.join(panels)}</div>"


def score_html(claim: str, score: Score) -> str:
    """Return the claim with its value, and the baseline with a word on how they compare."""
    guess = dict(score.references).get("majority class", float("nan"))
    # Numbers that differ must look different.
    digits = 1 if score.line is not None and f"{score.value:.0%}" == f"{score.line:.0%}" else 0
    line = f"<li>{escape(claim).format(value=f'<b>{score.value:.{digits}%}</b>', guess=f'{guess:.0%}')}</li>"
    if score.line is None:
        return line
    name, _ = describe_baseline(score.line_name)
    verdict = score.verdict
    word = VERDICTS[verdict][0] if verdict else "baseline"
    baseline = f"{escape(name)} {score.line:.{digits}%}"
    return f'{line}<li><span class="{verdict or ""}">{word.capitalize()}</span>: {baseline}</li>'
