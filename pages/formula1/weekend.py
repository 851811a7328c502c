"""Qualifying and practice: best laps, ideal laps and improvement; session conditions for other tabs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd

from datasets.f1.laps import BestLap, best_laps, ideal_laps, is_race, no_time
from datasets.f1.session import Spell
from datasets.formula1 import Session
from gdm_core.text import listed
from gdm_studio.plot.figures.base import Dict, Figure, axis, figure, note, points, shape
from pages.formula1 import teams
from pages.formula1.data import Race
from pages.formula1.tables import clock, table_with_csv
from pages.ui import shell
from pages.ui.plot import plot

BANDS = {
    "yellow": "#d9b200",
    "red flag": "#d8434e",
    "safety car": "#d9822b",
    "virtual safety car": "#d9822b",
    "rain": "#3173c9",
}


def ranked(session: Session) -> list[str]:
    """Return drivers by best lap in the last part they reached."""
    best: dict[str, BestLap] = {one.code: one for one in best_laps(session)}  # the last part counts
    timed = sorted(best, key=lambda code: (-ord(best[code].part[-1:] or "0"), best[code].seconds))
    return [*timed, *no_time(session)]


def finding(session: Session) -> str:
    """Describe the best lap and its margin; "" for races."""
    laps = best_laps(session)
    if is_race(session) or not laps:
        return ""
    final = [one for one in laps if one.part == laps[-1].part]
    first = final[0]
    said = f"{first.code} {f'was fastest in {first.part}' if first.part else 'was fastest'} with {clock(first.seconds)}"
    if len(final) > 1:
        second = final[1]
        gaps = np.array(second.sectors) - np.array(first.sectors)
        said += f", {second.seconds - first.seconds:.3f} s ahead of {second.code}"
        if np.isfinite(gaps).all():
            said += f": {listed([f'{gap:+.3f} s in sector {number}' for number, gap in enumerate(gaps, start=1)])}"
    if silent := no_time(session):
        said += f". No time set: {listed(silent)}"
    return f"{said}."


def show_best_laps(race: Race) -> None:
    """Show the best laps and the ideal laps of all drivers."""
    laps, ideal = best_laps(race.session), ideal_laps(race.session)
    if not laps:
        shell.empty("No timed laps", "No times were set in this session. Choose another one.")
        return
    fastest = {part: min(one.seconds for one in laps if one.part == part) for part in {one.part for one in laps}}
    with shell.panel("best-laps", "Best laps"):
        table = pd.DataFrame(
            {
                "Driver": one.code, "Part": one.part or "session", "Lap": one.number, "Time": one.seconds,
                "Gap": one.seconds - fastest[one.part], "Sector 1": one.sectors[0], "Sector 2": one.sectors[1],
                "Sector 3": one.sectors[2],
            }
            for one in sorted(laps, key=lambda one: one.part, reverse=True)
        )  # fmt: skip
        table_with_csv(
            table, "best-laps", race.stem, times=["Time"], seconds=["Gap", "Sector 1", "Sector 2", "Sector 3"]
        )
    with shell.panel("ideal-laps", "Ideal lap (sum of best sectors)"):
        table = pd.DataFrame(
            {
                "Driver": one.code, "Best": one.best, "Ideal": one.ideal, "Gap to ideal": one.left,
                "Laps": ", ".join(map(str, one.laps)),
            }
            for one in ideal
        )  # fmt: skip
        table_with_csv(table, "ideal-laps", race.stem, times=["Best", "Ideal"], seconds=["Gap to ideal"])


def show_improvement(race: Race) -> None:
    """Show the best lap so far of the ten fastest drivers."""
    session = race.session
    if not best_laps(session):
        return
    with shell.panel("improvement", "Improvement through the session"):
        shown = ranked(session)[:10] if len(session.drivers) > 10 else list(session.codes)
        plot(improvement(session, shown), key="improvement", still=True, filename=f"{race.stem}-improvement")


def band(spell: Spell, begins: float) -> Dict:
    """Return a shape for a flag, safety car or rain."""
    span = max(0.0, (spell.start - begins) / 60), (spell.end - begins) / 60
    return shape("rect", span, (0, 1), yref="paper", layer="below", fillcolor=BANDS[spell.what], opacity=0.2)


def conditions(session: Session) -> str:
    """Describe flags, rain and track temperature."""
    count = Counter(spell.what for spell in session.spells)
    told = [f"{what} {'once' if n == 1 else f'{n} times'}" for what, n in count.items()]
    said = [f"Shaded: {listed(told)}."] if told else []
    if session.track:
        said.append(f"Track temp {session.track[0]:.0f} to {session.track[1]:.0f} °C.")
    return " ".join(said)


def improvement(session: Session, codes: list[str]) -> Figure:
    """The best lap so far of each driver over the session time (min)."""
    traces: list[Dict] = []
    marks: list[Dict] = []
    begins = min(driver.laps.start.min() for driver in session.drivers if len(driver.laps))
    for code, look in zip(codes, teams.looks(session, codes), strict=True):
        laps = session.driver(code).laps
        timed = np.flatnonzero(laps.timed)
        if not len(timed):
            continue
        best = np.minimum.accumulate(laps.seconds[timed])
        minutes = (laps.end[timed] - begins) / 60
        drawn = {"color": look.colour, "width": 1.8, "dash": look.dash, "shape": "hv"}
        traces.append(points("lines", minutes, best, f"{code} %{{y:.3f}} s at %{{x:.0f}} min", line=drawn))
        at, ink = (float(minutes[-1]), float(best[-1])), {"size": 11, "color": look.colour}
        marks.append(note(code, *at, xanchor="left", xshift=4, font=ink))
    lowest = min((mark["y"] for mark in marks), default=0.0)
    span, below = 0.15 + 0.035 * lowest, -np.inf
    for mark in sorted(marks, key=lambda one: one["y"]):  # keep names apart
        mark["y"] = below = max(mark["y"], below + span / 22)
    bands = [spell for spell in session.spells if spell.end > begins]
    for spell in bands:
        if spell.what != "yellow":  # yellow flags are counted in the caption
            at = max(0.0, (spell.start - begins) / 60)
            marks.append(
                note(
                    spell.what, at, 1, yref="paper", xanchor="left", yanchor="top", font={"size": 10, "color": "$muted"}
                )
            )
    axes: Dict = {
        "xaxis": axis("session time (min)"),
        "yaxis": axis("best lap so far (s)", range=[lowest - 0.15, lowest - 0.15 + span], fixedrange=True),
    }
    shapes = [band(spell, begins) for spell in bands]
    caption = f"Best lap so far; flat: no improvement. {conditions(session)}"
    alt = f"The best lap so far of {len(traces)} drivers through the session, the fastest {lowest:.3f} s."
    place: Dict = {"annotations": marks, "margin": {"l": 8, "r": 40, "t": 8, "b": 8}, "shapes": shapes}
    return figure(traces, caption, alt, 330, **axes, **place)
