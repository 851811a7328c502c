"""The corners that differ most between two drivers, and the reason for the largest difference."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import streamlit as st

from datasets.f1.corners import MEASURED_IN, Corners, corners_of
from pages.formula1 import time_gained
from pages.formula1.comparison import Between
from pages.formula1.data import Race
from pages.formula1.selection import Place
from pages.formula1.sessions import open_session
from pages.formula1.teams import LineStyle

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


@st.cache_resource(max_entries=64, show_spinner=False)
def measure_corners(place: Place, code: str, numbers: tuple[int, ...]) -> Corners:
    return corners_of(open_session(place), code, numbers)


def measure(race: Race, found: Between) -> tuple[Corners, Corners] | None:
    """Return both sides' points and speeds in corners, joined by braking zone; None without corners."""
    if (joint := found.gains.get("joint")) is None:
        return None
    one, other = (measure_corners(race.pick.place, *side) for side in found.sides)
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


def lifting(found: Between, measured: tuple[Corners, Corners]) -> str:
    """Describe the clearest significant difference in lifting before a braking zone; "" without one."""
    one, other = measured
    coast, lift = (one.difference(other, name) for name in ("lift and coast", "lift point"))
    agree = coast.sure & lift.sure & (np.sign(coast.mean) == np.sign(lift.mean))
    if not agree.any():
        return ""
    part = int(np.argmax(np.where(agree, np.abs(lift.mean) / lift.margin, 0)))
    earlier = found.names[0] if lift.mean[part] > 0 else found.names[1]
    return f"{earlier} lifts {abs(lift.mean[part]):.0f} m earlier into {one.names[part]} (±{lift.margin[part]:.0f})."


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
        f'<div role="listitem"><p><b>{escape(one.names[part])}</b> {gain}</p><table><thead><tr><td></td>{heads}'
        f"<th>difference</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
