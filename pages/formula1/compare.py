"""The first view: the gap, where the time goes, traces, map and the three corners that matter of two drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from html import escape

import numpy as np
import streamlit as st

from datasets.f1.corners import MEASURED_IN, Corners, corners_of
from pages.formula1 import teams, telemetry, time_gained
from pages.formula1.comparison import KINDS, Between
from pages.formula1.data import Race
from pages.formula1.selection import Place
from pages.formula1.sessions import open_session
from pages.formula1.teams import LineStyle
from pages.ui import settings, shell
from pages.ui.controls import one_of, switch
from pages.ui.plot import plot

WHOLE = "lap"
N_CORNERS = 3
CARD_MEASURES = {
    "braking point": "Brakes, before the corner",
    "minimum speed": "Minimum speed",
    "exit speed": "Exit speed",
    "throttle-on point": "Back on throttle, after it",
}
# Sign of the difference that saves time, and its words.
REASONS = {
    "braking point": (-1, "later braking"),
    "minimum speed": (1, "a higher minimum speed"),
    "exit speed": (1, "a higher exit speed"),
    "throttle-on point": (-1, "earlier throttle"),
}


def tab(race: Race, found: Between) -> None:
    """Show the comparison of the chosen laps."""
    top, below = st.container(key="formula1-finding"), st.container()
    circuit, spans = race.circuit, telemetry.zooms(race.circuit)
    measured = measure(race, found)
    with top:
        with st.container(key="formula1-words"):
            shell.finding(time_gained.sentence(found, reason(found, measured)))
        with st.popover("Options", icon=":material/tune:"):
            zoom = one_of(
                "Zoom", {WHOLE: "The whole lap"} | {name: name for name in spans}, key="zoom", as_ids=True,
                help="Or click a corner on the map.", among=str(race.pick.place),
            )  # fmt: skip
            more = switch("Gear and rpm", False, key="more-channels")
    styles = teams.line_styles(race.session, race.codes)
    with below:
        _show_parts(race, found, styles)
        left, right = st.columns([0.64, 0.36], gap="small")
        with left, shell.panel("telemetry"):
            drawn = traces(race, found)
            if len(drawn) == 2:
                channels = tuple(telemetry.PANELS) if more else telemetry.FIRST_CHANNELS
                delta = telemetry.delta_of_pairs(circuit, found.won)
                figure = telemetry.draw(circuit, drawn, styles, delta, channels, spans.get(zoom))
                plot(figure, key="telemetry", still=True, revision=f"{zoom}", filename=f"{race.stem}-telemetry")
            else:
                shell.empty("Too few positions", "Too few positions are known on this lap. Choose another lap.")
        with right, shell.panel("gain-map", "Who is faster where"):
            figure = time_gained.gain_map(circuit, found.names, found.gains["minisector"], styles)
            name = f"{race.stem}-faster-driver"
            plot(figure, key="gain-map", still=True, clicked=partial(_zoom_to_corner, race), filename=name)
        if measured is not None:
            cards = [card_html(found, measured, part, styles) for part in corners_that_matter(found)]
            label = "Corners with the largest differences"
            shell.html(f'<div class="f1-corners" role="list" aria-label="{label}">{"".join(cards)}</div>')


def traces(race: Race, found: Between) -> list[telemetry.Trace]:
    """Return the mean channels of both sides, as far as their positions are known."""
    sides = zip(race.codes, found.won.laps, found.titles, found.names, strict=True)
    drawn = [
        (telemetry.trace(race.circuit, race.session, code, laps, title), name) for code, laps, title, name in sides
    ]
    return [replace(one, code=name) for one, name in drawn if one is not None]


def _zoom_to_corner(race: Race, point: object) -> None:
    """Zoom the traces to the corner nearest to a click on the map."""
    if name := telemetry.corner_at(race.circuit, point if isinstance(point, dict) else None):
        settings.change("zoom", name)


# ---- corners ----------------------------------------------------------------------------------------------------------
@st.cache_resource(max_entries=64, show_spinner=False)
def measure_corners(place: Place, code: str, numbers: tuple[int, ...]) -> Corners:
    return corners_of(open_session(place), code, numbers)


def measure(race: Race, found: Between) -> tuple[Corners, Corners] | None:
    """Return both sides' points and speeds in corners, joined by braking zone; None without corners."""
    if (joint := found.gains.get("joint")) is None:
        return None
    sides = zip(race.codes, found.won.laps, strict=True)
    one, other = (measure_corners(race.pick.place, code, numbers) for code, numbers in sides)
    return one.joined(found.joint, joint.names), other.joined(found.joint, joint.names)


def corners_that_matter(found: Between) -> list[int]:
    """Return the braking zones with the largest time differences, significant ones first."""
    gain = found.gains["joint"]
    return sorted(range(len(gain.names)), key=lambda part: (not gain.sure[part], -abs(float(gain.mean[part]))))[
        :N_CORNERS
    ]


def reason(found: Between, measured: tuple[Corners, Corners] | None) -> str:
    """Return the clearest reason for the largest difference; "" if none is significant."""
    most = time_gained.largest(found)
    if measured is None or most is None:
        return ""
    gain, part = most
    faster, slower = measured if gain.mean[part] > 0 else measured[::-1]
    strength = {}
    for name, (sign, words) in REASONS.items():
        apart = faster.difference(slower, name)[part]
        if apart.sure and apart.mean * sign > 0:
            strength[words] = abs(float(apart.mean)) / max(float(apart.margin), 1e-9)
    return max(strength, key=lambda words: strength[words], default="")


def card_html(found: Between, measured: tuple[Corners, Corners], part: int, styles: Sequence[LineStyle]) -> str:
    """Return the numbers of both sides in a corner as a table."""
    one, other = measured
    gain = escape(time_gained.faster(found, found.gains["joint"], part))
    rows = []
    for name, words in CARD_MEASURES.items():
        a, b, apart = one.mean(name)[part], other.mean(name)[part], one.difference(other, name)[part]
        if not (np.isfinite(a.mean) or np.isfinite(b.mean)):
            continue
        digits = 0 if MEASURED_IN[name] == "m" else 1
        gap, spread = float(apart.mean), float(apart.margin)
        apart_words = f"{gap:+.{digits}f}" if np.isfinite(gap) else "–"
        apart_words += f" ± {spread:.{digits}f}" if np.isfinite(gap) and np.isfinite(spread) else ""
        means = "".join(f"<td>{float(side.mean):.{digits}f}</td>" for side in (a, b)).replace("nan", "–")
        rows.append(
            f"<tr><th>{words} <small>{MEASURED_IN[name]}</small></th>{means}"
            f"<td{' class=sure' if apart.sure else ''}>{apart_words}</td></tr>"
        )
    heads = "".join(
        f'<th><i style="border-top: 3px {"solid" if style.dash == "solid" else "dashed"} {style.colour}"></i>{escape(name)}</th>'
        for name, style in zip(found.names, styles, strict=True)
    )
    return (
        f'<div role="listitem"><p><b>{escape(one.names[part])}</b> {gain}</p><table><thead><tr><th></th>{heads}'
        f"<th>difference</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


# ---- the delta by part of the lap -------------------------------------------------------------------------------------
def _show_parts(race: Race, found: Between, styles: Sequence[LineStyle]) -> None:
    """Show the delta by corner, sector or minisector."""
    kinds = {kind: words for kind, words in KINDS.items() if kind in found.gains}
    with shell.panel("gain", "Where the time goes"):
        kind = one_of("Delta by", kinds, key="won-by", as_ids=True, row=True, label_visibility="collapsed")
        figure = time_gained.bars(found.names, found.gains[kind], kind, styles)
        plot(figure, key="gain", still=True, filename=f"{race.stem}-delta-by-{kind}")
