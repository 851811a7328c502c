"""The first view: traces, delta, map and the three corners that matter of two drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import cast

import numpy as np
import streamlit as st

from datasets.f1.corners import MEASURED_IN, Corners, corners_of
from datasets.f1.laps import best_laps, is_race
from datasets.f1.time_won import FEWEST_LAPS, By, minisector_edges
from datasets.formula1 import lap_clock
from pages.formula1 import data, field, teams, telemetry, time_gained
from pages.formula1.controls import choose_one
from pages.formula1.data import Laps, Place, Race
from pages.formula1.tables import clock
from pages.formula1.teams import LineStyle
from pages.formula1.time_gained import Between, Gain, Gap
from pages.ui import settings, shell
from pages.ui.controls import one_of, switch
from pages.ui.plot import plot

MEAN, TWO = "mean", "two"
WAYS = {MEAN: "Mean of clean laps", TWO: "One lap each"}
PAIRED = {"tyre age": "Tyre age", "lap number": "Lap number"}
HOW_PAIRED = "Tyre age: same compound and age, corrected for fuel and track evolution. Lap number: same lap, any tyres."
WHOLE = "lap"
N_CORNERS = 3
CARD_MEASURES = {
    "braking point": "Braking point",
    "minimum speed": "Minimum speed",
    "exit speed": "Exit speed",
    "throttle-on point": "Throttle on",
}
# Sign of the difference that saves time, and its words.
REASONS = {
    "braking point": (-1, "later braking"),
    "minimum speed": (1, "a higher minimum speed"),
    "exit speed": (1, "a higher exit speed"),
    "throttle-on point": (-1, "earlier throttle"),
}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Laps in the view: the mean over lap pairs, or one lap of each driver.

    laps   lap numbers of each driver
    found  comparison over pairs; None for single laps
    gains  delta by part of the lap
    """

    race: Race
    laps: tuple[tuple[int, ...], tuple[int, ...]]
    found: Between | None
    gains: dict[str, Gain]
    delta: telemetry.Delta | None

    @property
    def names(self) -> list[str]:
        """Names of both laps for the legend."""
        if self.found is not None:
            return [
                f"{code}, mean of {len(numbers)} laps" for code, numbers in zip(self.race.codes, self.laps, strict=True)
            ]
        return [f"{code} lap {numbers[0]}" for code, numbers in zip(self.race.codes, self.laps, strict=True)]


def tab(race: Race) -> None:
    """Show the comparison of the chosen drivers."""
    top, below = st.container(key="formula1-finding"), st.container()
    with top:
        words = st.container(key="formula1-words")
        with st.popover("Options", icon=":material/tune:"):
            compared, channels, zoom = _choose(race)
    if compared is None:
        with below:
            shell.empty("No timed lap", "One of the drivers has no timed lap in this selection. Choose other laps.")
        return
    with words:
        shell.finding(sentence(compared))
        for remark in remarks(compared):
            shell.quiet(remark)
    looks = teams.looks(race.session, race.codes)
    spans = telemetry.zooms(race.circuit)
    with below:
        left, right = st.columns([0.64, 0.36], gap="small")
        with left, shell.panel("telemetry"):
            found = [telemetry.trace(race.circuit, laps, numbers, name) for laps, numbers, name in
                     zip((race.train, race.test), compared.laps, compared.names, strict=True)]  # fmt: skip
            drawn = [one for one in found if one is not None]
            if len(drawn) == 2:
                figure = telemetry.draw(race.circuit, drawn, looks, compared.delta, channels, spans.get(zoom))
                plot(figure, key="telemetry", still=True, revision=f"{zoom}", filename=f"{race.stem}-telemetry")
            else:
                shell.empty("Too few positions", "Too few positions are known on this lap. Choose another lap.")
        with right, shell.panel("gain-map", "Faster driver per minisector"):
            if (gain := compared.gains.get("minisector")) is None:
                shell.quiet("No official times or speeds on these laps, so no delta.")
            else:
                figure = time_gained.gain_map(race.circuit, race.codes, gain, looks)
                name = f"{race.stem}-faster-driver"
                plot(figure, key="gain-map", still=True, clicked=partial(_zoom_to_corner, race), filename=name)
        _show_corners(compared, looks)
        _show_parts(compared, looks)


def _zoom_to_corner(race: Race, point: object) -> None:
    """Zoom the traces to the corner nearest to a click on the map."""
    if name := telemetry.corner_at(race.circuit, point if isinstance(point, dict) else None):
        settings.change("zoom", name)


# ---- compared laps -----------------------------------------------------------------------------------------------------
def _choose(race: Race) -> tuple[Comparison | None, Sequence[str], str]:
    """Show the options; return the comparison, the channels and the zoom."""
    usual = time_gained.usual_of(race) if is_race(race.session) else None
    way = TWO
    if usual is not None:
        way = one_of("Laps shown", WAYS, MEAN, key="shown", as_ids=True, row=True)
    compared = _over_pairs(race, usual) if way == MEAN and usual is not None else _of_two_laps(race)
    spans = telemetry.zooms(race.circuit)
    zoom = one_of(
        "Zoom", {WHOLE: "The whole lap"} | {name: name for name in spans}, key="zoom", as_ids=True,
        help="Or click a corner on the map.", among=str(race.pick.place),
    )  # fmt: skip
    more = switch("Throttle, brake, gear and rpm", False, key="more-channels")
    return compared, tuple(telemetry.PANELS) if more else telemetry.FIRST_CHANNELS, zoom


def _over_pairs(race: Race, usual: Between) -> Comparison | None:
    """Show how laps are paired; return the comparison over pairs, the usual one if there are too few."""
    pick = race.pick
    by = cast(By, one_of("Pair laps by", PAIRED, usual.won.by, key="pair", as_ids=True, help=HOW_PAIRED, row=True))
    close = switch("Keep laps within 1 s of the car ahead", False, key="close", help="DRS and tow change their speed.")
    found = time_gained.between(pick.place, race.codes, pick.looked, by, close)
    if found is None:
        shell.quiet(f"Fewer than {FEWEST_LAPS} clean lap pairs; showing all.")
        found = usual
    laps = tuple(sorted({pair[side] for pair in found.won.pairs}) for side in (0, 1))
    delta = telemetry.delta_of_pairs(race.circuit, found.won)
    return Comparison(race, (tuple(laps[0]), tuple(laps[1])), found, dict(found.gains), delta)


def _of_two_laps(race: Race) -> Comparison | None:
    """Show the choice of one lap per driver; return their comparison, None without timed laps."""
    numbers: list[int] = []
    for side, laps in zip("ab", (race.train, race.test), strict=True):
        timed = {str(n): f"{n} · {clock(took)}" for n, took in laps_by_time(race, laps)}
        order = list(timed)
        usual = (
            order[1] if side == "b" and race.train.code == race.test.code and len(order) > 1 else next(iter(order), "")
        )
        among = f"{laps.code}-{race.pick.looked.laps}-{race.pick.place}"
        lap = choose_one(f"Lap of {laps.code}", f"lap-{side}", timed, usual, "Fastest first.", among=among)
        if not lap:
            return None
        numbers.append(int(lap))
    clocks = [lap_clock(race.session, code, lap) for code, lap in zip(race.codes, numbers, strict=True)]
    laps_shown = ((numbers[0],), (numbers[1],))
    if clocks[0] is None or clocks[1] is None:
        return Comparison(race, laps_shown, None, {}, None)
    gap = Gap(clocks[0], clocks[1])
    return Comparison(race, laps_shown, None, gains_of_laps(race, gap), telemetry.delta_of_laps(race.circuit, gap))


def laps_by_time(race: Race, laps: Laps) -> list[tuple[int, float]]:
    """Return (lap, seconds) of a driver's timed laps, best lap of the session first."""
    table = race.session.driver(laps.code).laps
    there = np.isin(table.number, laps.lap) & np.isfinite(table.seconds)
    order = np.argsort(table.seconds[there], kind="stable")
    found = [(int(n), float(s)) for n, s in zip(table.number[there][order], table.seconds[there][order], strict=True)]
    best = {one.number for one in best_laps(race.session) if one.code == laps.code}
    last = max((n for n in best if any(n == number for number, _ in found)), default=None)
    return sorted(found, key=lambda one: one[0] != last) if not is_race(race.session) else found


def gains_of_laps(race: Race, gap: Gap) -> dict[str, Gain]:
    """Return the delta between two laps by minisector and segment; the error is that of the clocks."""
    circuit = race.circuit
    edges = minisector_edges(circuit.length)
    share = np.clip(edges / circuit.length, 0, 1)
    names = time_gained.named_by_place(circuit, edges, [f"{at:.0f} m" for at in edges[:-1]])
    found = {"minisector": Gain.from_estimate(gap.grown(share[:-1], share[1:]), names, edges)}
    if circuit.segments:
        at = circuit.edges.astype(np.float64) / circuit.length
        found = {"segment": Gain.from_estimate(gap.grown(at, np.roll(at, -1)), circuit.segments)} | found
    return found


# ---- words ------------------------------------------------------------------------------------------------------------
def sentence(compared: Comparison) -> str:
    """Describe who is faster and where, with the interval."""
    race, found = compared.race, compared.found
    one, other = race.codes
    if found is not None:
        measured = _measure(compared)
        return time_gained.sentence(found, "" if measured is None else largest_difference(*measured))
    won = "" if is_race(race.session) else field.finding(race.session)
    if compared.delta is None or not compared.gains:
        return won or f"No official times and speeds for {one} or {other}."
    gain = compared.gains.get("segment") or compared.gains["minisector"]
    whole = float(gain.mean.sum())
    faster, slower = compared.names if whole > 0 else compared.names[::-1]
    said = f"{faster} is {abs(whole):.3f} s faster than {slower}"
    if (place := gain.most(whole)) is None:
        return f"{said}; no part of the lap differs significantly."
    where = _place(race, gain, place)
    return (
        f"{said}; largest significant difference in {where} ({abs(gain.mean[place]):.3f} ± {gain.margin[place]:.3f} s)."
    )


def _place(race: Race, gain: Gain, part: int) -> str:
    """Return the name of a part, or its distance and share of the lap without corners."""
    if race.circuit.segments or gain.edges is None:
        return gain.names[part]
    start, end = gain.edges[part : part + 2]
    return f"{start:,.0f} to {end:,.0f} m ({start / race.circuit.length:.0%} of the lap)"


def remarks(compared: Comparison) -> list[str]:
    """Describe which laps are compared and what is missing."""
    found = compared.found
    said = [time_gained.about_laps(found)] if found is not None else []
    if found is None:
        said.append("One lap each: lap-to-lap variation is unknown; intervals are timing uncertainty.")
    return said


# ---- corners ----------------------------------------------------------------------------------------------------------
def _show_corners(compared: Comparison, looks: Sequence[LineStyle]) -> None:
    """Show the corners with the largest time differences, or stretches of the lap without corners."""
    if (measured := _measure(compared)) is None:
        return
    one, other = measured
    shell.html(
        '<div class="f1-corners" role="list" aria-label="Corners with the largest differences">'
        + "".join(card_html(one, other, c, looks) for c in corners_that_matter(one, other))
        + "</div>"
    )


def _measure(compared: Comparison) -> tuple[Corners, Corners] | None:
    """Return the corners of both drivers, None without a corner table or a second driver."""
    race = compared.race
    if race.codes[0] == race.codes[1] or len(race.session.corners) < 2:
        return None
    one, other = (
        measure_corners(race.pick.place, code, numbers) for code, numbers in zip(race.codes, compared.laps, strict=True)
    )
    return one, other


@st.cache_resource(max_entries=64, show_spinner=False)
def measure_corners(place: Place, code: str, numbers: tuple[int, ...]) -> Corners:
    return corners_of(data.open_session(place), code, numbers)


def corners_that_matter(one: Corners, other: Corners) -> list[int]:
    """Return the corners with the largest time differences, significant ones first."""
    apart = one.mean("time") - other.mean("time")
    known = np.flatnonzero(np.isfinite(apart.mean))
    sure = apart.sure
    ranked = sorted(known.tolist(), key=lambda c: (not sure[c], -abs(float(apart.mean[c]))))
    return ranked[:N_CORNERS]


def largest_difference(one: Corners, other: Corners) -> str:
    """Describe the first card and its clearest reason; "" if no corner differs significantly."""
    corner = next(iter(corners_that_matter(one, other)), None)
    if corner is None or not (apart := (one.mean("time") - other.mean("time"))[corner]).sure:
        return ""
    faster, slower = (one, other) if apart.mean < 0 else (other, one)
    strength = {}
    for measure, (sign, words) in REASONS.items():
        if measure in one.values and measure in other.values:
            gap = (faster.mean(measure) - slower.mean(measure))[corner]
            if gap.sure and gap.mean * sign > 0:
                strength[words] = abs(float(gap.mean / gap.margin))
    why = f", with {max(strength, key=lambda words: strength[words])}" if strength else ""
    return f"Largest significant corner difference: {one.names[corner]}, {faster_by(one, other, corner)}{why}."


def faster_by(one: Corners, other: Corners, corner: int) -> str:
    """Return who is faster in a corner and by how much, with the interval if it is known."""
    apart = (one.mean("time") - other.mean("time"))[corner]
    faster = one.code if apart.mean < 0 else other.code
    wide = f" ± {float(apart.margin):.3f}" if np.isfinite(apart.margin) else ""
    unsure = ", not significant" if np.isfinite(apart.margin) and not apart.sure else ""
    return f"{faster} faster by {abs(float(apart.mean)):.3f}{wide} s{unsure}"


def card_html(one: Corners, other: Corners, corner: int, looks: Sequence[LineStyle]) -> str:
    """Return the numbers of both drivers in a corner as a table."""
    name, said = escape(one.names[corner]), escape(faster_by(one, other, corner))
    rows = []
    for measure, words in CARD_MEASURES.items():
        if measure not in one.values:
            continue
        a, b = (side.mean(measure)[corner] for side in (one, other))
        if not (np.isfinite(a.mean) or np.isfinite(b.mean)):
            continue
        apart = a - b
        gap, spread = float(apart.mean), float(apart.margin)
        digits = 0 if MEASURED_IN[measure] == "m" else 1
        apart_words = f"{gap:+.{digits}f}" if np.isfinite(gap) else "–"
        apart_words += f" ± {spread:.{digits}f}" if np.isfinite(gap) and np.isfinite(spread) else ""
        means = "".join(f"<td>{_number(float(side.mean), digits)}</td>" for side in (a, b))
        rows.append(
            f"<tr><th>{words} <small>{MEASURED_IN[measure]}</small></th>{means}"
            f"<td{' class=sure' if apart.sure else ''}>{apart_words}</td></tr>"
        )
    heads = "".join(
        f'<th><i style="border-top: 3px {"solid" if look.dash == "solid" else "dashed"} {look.colour}"></i>{escape(code)}</th>'
        for code, look in zip((one.code, other.code), looks, strict=True)
    )
    heads += f"<th>{escape(one.code)} − {escape(other.code)}</th>"
    return (
        f'<div role="listitem"><p><b>{name}</b> {said}</p>'
        f"<table><thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else "–"


# ---- the delta by part of the lap -------------------------------------------------------------------------------------
def _show_parts(compared: Comparison, looks: Sequence[LineStyle]) -> None:
    """Show the delta by segment, sector or minisector."""
    if not compared.gains or compared.race.codes[0] == compared.race.codes[1]:
        return
    race = compared.race
    kinds = {kind: words for kind, words in time_gained.KINDS.items() if kind in compared.gains}
    with shell.panel("gain", f"Delta by part of the lap: {race.codes[0]} vs {race.codes[1]}"):
        kind = next(iter(kinds))
        if len(kinds) > 1:
            kind = one_of("Delta by", kinds, key="won-by", as_ids=True, row=True, label_visibility="collapsed")
        figure = time_gained.bars(race.codes, compared.gains[kind], kind, looks)
        plot(figure, key="gain", still=True, filename=f"{race.stem}-delta-by-{kind}")
