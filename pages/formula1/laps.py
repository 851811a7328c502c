"""The tab Laps: race history or improvement, long runs and tyre strategy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from datasets.f1.laps import best_laps, is_qualifying, is_race, ranked_by_time
from datasets.f1.long_runs import LongRun, fuel_effect, runs
from datasets.f1.traffic import RaceHistory, race_history
from datasets.formula1 import Session, stints
from gdm_core.errors import GdmError
from gdm_core.text import format_signed, listed
from gdm_studio.plot.figures.base import SMALL, Dict, Figure, axis, figure, key_above, note, points, rows_axis, shape
from pages.formula1 import teams
from pages.formula1.data import Race
from pages.formula1.tables import table_with_csv
from pages.ui import settings, shell
from pages.ui.controls import number as choose_number
from pages.ui.controls import number_in_address, one_of, whole
from pages.ui.plot import plot

BANDS = {
    "yellow": "#d9b200",
    "red flag": "#d8434e",
    "safety car": "#d9822b",
    "virtual safety car": "#d9822b",
    "rain": "#3173c9",
}


def show_improvement(race: Race) -> None:
    """Show the best lap so far of the ten fastest drivers."""
    session = race.session
    if not best_laps(session):
        return
    with shell.panel("improvement", "Improvement through the session"):
        plot(improvement(session, fastest(session)), key="improvement", still=True, filename=f"{race.stem}-improvement")


def fastest(session: Session) -> list[str]:
    """Return the ten fastest drivers."""
    return ranked_by_time(session)[:10] if len(session.drivers) > 10 else list(session.codes)


def conditions(session: Session) -> str:
    """Describe flags, rain and track temperature."""
    count = Counter(spell.what for spell in session.spells)
    spells = [f"{what} {'once' if n == 1 else f'{n} times'}" for what, n in count.items()]
    sentences = [f"Shaded: {listed(spells)}."] if spells else []
    if session.track:
        sentences.append(f"Track temp {session.track[0]:.0f} to {session.track[1]:.0f} °C.")
    return " ".join(sentences)


def improvement(session: Session, codes: list[str]) -> Figure:
    """The best lap so far of each driver over the session time (min)."""
    traces: list[Dict] = []
    marks: list[Dict] = []
    begins = min(driver.laps.start.min() for driver in session.drivers if len(driver.laps))
    for code, style in zip(codes, teams.line_styles(session, codes), strict=True):
        laps = session.driver(code).laps
        timed = np.flatnonzero(laps.timed)
        if not len(timed):
            continue
        best = np.minimum.accumulate(laps.seconds[timed])
        minutes = (laps.end[timed] - begins) / 60
        drawn = {"color": style.colour, "width": 1.8, "dash": style.dash, "shape": "hv"}
        traces.append(points("lines", minutes, best, f"{code} %{{y:.3f}} s at %{{x:.0f}} min", line=drawn))
        marks.append(note(code, float(minutes[-1]), float(best[-1]), xanchor="left", xshift=4, font=SMALL))
    lowest = min((mark["y"] for mark in marks), default=0.0)
    span, below = 0.15 + 0.035 * lowest, -np.inf
    for mark in sorted(marks, key=lambda one: one["y"]):  # keep names apart
        mark["y"] = below = max(mark["y"], below + span / 22)
    spells = [
        (max(0.0, (spell.start - begins) / 60), (spell.end - begins) / 60, spell.what)
        for spell in session.spells
        if spell.end > begins
    ]
    word: Dict = {"yref": "paper", "xanchor": "left", "yanchor": "top", "font": {"size": 10, "color": "$muted"}}
    # Yellow flags are counted in the caption.
    marks += [note(what, start, 1, **word) for start, _, what in spells if what != "yellow"]
    axes: Dict = {
        "xaxis": axis("session time (min)"),
        "yaxis": axis("best lap so far (s)", range=[lowest - 0.15, lowest - 0.15 + span], fixedrange=True),
    }
    shapes = [shade(*spell, layer="below") for spell in spells]
    caption = f"Best lap so far; flat: no improvement. {conditions(session)}"
    alt = f"The best lap so far of {len(traces)} drivers through the session, the fastest {lowest:.3f} s."
    place: Dict = {"annotations": marks, "margin": {"l": 8, "r": 40, "t": 8, "b": 8}, "shapes": shapes}
    return figure(traces, caption, alt, 330, **axes, **place)


KINDS = {"gap": "Gap to leader", "position": "Position", "pace": "Lap time"}
TITLES = {"gap": "gap to leader (s)", "position": "position", "pace": "lap time (s)"}
FAR_S = 100.0  # larger gaps are outside the axis
SLOW = 1.12  # times the median lap; slower laps are outside the axis
FADED = 0.4  # opacity of drivers that are not compared


open_history = lru_cache(maxsize=4)(race_history)


def show_history(race: Race) -> None:
    """Show one measure of all drivers lap by lap."""
    with shell.panel("history", "Race history"):
        kind = one_of("Race history", KINDS, key="over-laps", as_ids=True, row=True, label_visibility="collapsed")
        made = draw(race.session, open_history(race.session), kind, race.codes)
        plot(made, key="race-history", still=True, revision=kind, filename=f"{race.stem}-{kind}")


def draw(session: Session, found: RaceHistory, kind: str, codes: tuple[str, str]) -> Figure:
    """Draw one line per driver, with pit stops as markers and flags as shaded laps."""
    values = {"gap": found.gap, "position": found.position, "pace": found.seconds}[kind]
    styles = dict(zip(found.codes, teams.field_styles(session, found.codes), strict=True))
    limits = _range(kind, values)
    traces: list[Dict] = []
    marks: list[Dict] = []
    for code, line in sorted(zip(found.codes, values, strict=True), key=lambda one: one[0] in codes):
        if not np.isfinite(line).any():
            continue
        style, chosen = styles[code], code in codes
        drawn = {"color": style.colour, "dash": style.dash, "width": 2.6 if chosen else 1.4}
        hover = f"{code} lap %{{x}}<br>{TITLES[kind]} %{{y:.6~g}}"
        opacity = 1.0 if chosen else FADED
        traces.append(points("lines", found.laps, line, hover, line=drawn, opacity=opacity, connectgaps=False))
        stops = np.isin(found.laps, found.stops.get(code, ())) & np.isfinite(line)
        if stops.any():
            marker = {"color": style.colour, "size": 8 if chosen else 6, "symbol": "circle-open", "line": {"width": 2}}
            hover = f"{code} pit stop, lap %{{x}}"
            traces.append(points("markers", found.laps[stops], line[stops], hover, marker=marker, opacity=opacity))
        low, high = sorted(limits)
        inside = np.flatnonzero(np.isfinite(line) & (line >= low) & (line <= high))
        if inside.size and (chosen or kind == "position"):
            last = int(inside[-1])
            marks.append(note(code, float(found.laps[last]), float(line[last]), xanchor="left", xshift=4, font=SMALL))
    shapes, shaded = flagged_laps(found.flags, "below")
    caption = f"Thick: {' and '.join(dict.fromkeys(codes))}. Circles: pit stops.{shaded}"
    n_drivers = int(np.isfinite(values).any(axis=1).sum())
    alt = f"{KINDS[kind]}, {n_drivers} drivers, {len(found.laps)} laps."
    axes: Dict = {
        "xaxis": axis("lap", showgrid=False, range=[0.5, len(found.laps) + 0.5]),
        "yaxis": axis(TITLES[kind], range=list(limits)),
    }
    place: Dict = {"annotations": marks, "shapes": shapes, "margin": {"l": 8, "r": 42, "t": 8, "b": 8}}
    return figure(traces, caption, alt, 380, **axes, **place)


def shade(start: float, end: float, what: str, layer: str) -> Dict:
    """Return a shape over a flag, safety car or rain."""
    return shape("rect", (start, end), (0, 1), yref="paper", layer=layer, fillcolor=BANDS[what], opacity=0.2)


def flagged_laps(flags: Sequence[tuple[int, int, str]], layer: str) -> tuple[list[Dict], str]:
    """Return shapes over laps with flags, safety cars or rain, and words for the caption."""
    shapes = [shade(first - 0.5, last + 0.5, what, layer) for first, last, what in flags]
    return shapes, f" Shaded: {', '.join(sorted({what for *_, what in flags}))}." if flags else " No flags."


def _range(kind: str, values: np.ndarray) -> tuple[float, float]:
    """Return the ends of the axis; the leader is at the top."""
    known = values[np.isfinite(values)]
    if kind == "position":
        return float(known.max(initial=1)) + 0.6, 0.4
    if kind == "gap":
        return min(FAR_S, float(known.max(initial=1))) + 1, -2.0
    low, middle = float(known.min(initial=np.inf)), float(np.median(known)) if known.size else 0.0
    return min(low, middle) - 0.3, SLOW * middle


# ---- long runs and strategy ----
COMPOUNDS = {"SOFT": "#d8434e", "MEDIUM": "#c99a06", "HARD": "#8b93a7", "INTERMEDIATE": "#2f9e62", "WET": "#3173c9"}
OTHER = "#a06bb0"
LEFT_OUT = "$faint"
FUEL = "Fuel correction (s/lap)"
EXCLUDED, APART = "not-counted", "~"  # URL parameter: driver and lap of each excluded lap


driver_runs = lru_cache(maxsize=64)(runs)


def excluded_laps() -> dict[str, tuple[int, ...]]:
    """Return the laps that the user excluded, by driver code."""
    found: dict[str, tuple[int, ...]] = {}
    for one in (settings.text(EXCLUDED) or "").split(APART):
        code, _, lap = one.partition("-")
        if (number := whole(lap)) is not None:
            found[code] = (*found.get(code, ()), number)
    return found


def toggle_lap(found: Sequence[LongRun], point: Mapping[str, Any] | None) -> None:
    """Exclude a clicked lap, or include it again, before the page reruns."""
    custom = (point or {}).get("customdata")
    known = {(run.code, int(lap)) for run in found for lap in run.laps}
    clicked = (str(custom[0]), whole(str(custom[1]))) if isinstance(custom, Sequence) and len(custom) == 2 else None
    if clicked not in known:  # a browser may send anything
        return
    laps = {(code, lap) for code, laps in excluded_laps().items() for lap in laps} ^ {clicked}
    settings.change(EXCLUDED, APART.join(f"{code}-{lap}" for code, lap in sorted(laps)) or None)


def tab(race: Race) -> None:
    """Show lap time against tyre age, all drivers' runs, and the strategies."""
    if is_qualifying(race.session):
        shell.quiet("No long runs in qualifying.")
    else:
        _show_runs(race)
    with shell.panel("strategy", "Tyre strategy" if is_race(race.session) else "Tyres"):
        plot(strategy(race.session), key="strategy", still=True, filename=f"{race.stem}-tyres")


def _show_runs(race: Race) -> None:
    session, (usual, source) = race.session, fuel_effect(race.session)
    fuel = choose_number(
        FUEL, 0.0, 0.2, round(usual, 3), key=_fuel_key(race),
        step=0.005, format="%.3f", help=f"Lap time gained per lap of burnt fuel. {usual:.3f} s: {source}.",
    )  # fmt: skip
    excluded = excluded_laps()
    settings.keep(EXCLUDED, settings.text(EXCLUDED))
    if found := long_runs(race, fuel, excluded):
        with shell.panel("runs", "Lap time against tyre age, fuel-corrected"):
            plot(against_age(session, found), key="runs", clicked=partial(toggle_lap, found))
    with shell.panel("all-runs", "Long runs"):
        table = runs_table(session, fuel, excluded)
        if len(table):
            table_with_csv(
                table,
                "long-runs",
                race.stem,
                seconds=[name for name in map(str, table) if name.endswith(("s)", "/lap)", "±"))],
            )
            basis = source if fuel == round(usual, 3) else "as set"
            shell.quiet(
                f"Deg: tyre degradation, corrected for fuel by {fuel:.3f} s/lap ({basis}). "
                "Scatter: standard deviation of the residuals. Runs: consecutive green laps on one set of tyres; laps over "
                "7% slower than its best end a run."
            )
        else:
            shell.quiet("No long runs: they need five consecutive green laps on one set of tyres.")


def _fuel_key(race: Race) -> str:
    return settings.key("fuel", settings.scope("fuel", race.pick.place))


def kept_choices(race: Race) -> tuple[float, dict[str, tuple[int, ...]]]:
    """Return the fuel correction and the excluded laps, and keep them while the tab Laps is closed."""
    for kept in (_fuel_key(race), EXCLUDED):
        settings.keep(kept, settings.text(kept))
    usual = round(fuel_effect(race.session)[0], 3)
    return number_in_address(_fuel_key(race), FUEL, 0.0, 0.2, usual), excluded_laps()


def long_runs(race: Race, fuel: float, excluded: Mapping[str, tuple[int, ...]]) -> list[LongRun]:
    """Return the long runs of the drivers that are compared."""
    codes = dict.fromkeys(race.codes)
    return [run for code in codes for run in driver_runs(race.session, code, fuel, excluded.get(code, ()))]


def describe_slope(run: LongRun) -> str:
    """Return the tyre degradation in ms/lap with its interval."""
    return f"{format_signed(1000 * float(run.slope.mean), 0)} ± {1000 * run.slope.margin:.0f}"


def against_age(session: Session, found: list[LongRun]) -> Figure:
    """Draw lap times against tyre age with a line per run."""
    traces: list[Dict] = []
    marks: list[Dict] = []
    codes = list(dict.fromkeys(run.code for run in found))
    styles = dict(zip(codes, teams.line_styles(session, codes), strict=True))
    for run in found:
        style = styles[run.code]
        middle = run.corrected_mean, float(run.age[run.counts].mean())
        ends = np.array([run.age.min(), run.age.max()])
        fit = middle[0] + run.slope.mean * (ends - middle[1])
        title = f"{run.code} stint {run.stint}, {run.compound.lower()}"
        short = f"{run.compound[:1]}{run.stint}"
        grows = f"{run.code} {run.compound.lower()} ({short}) {describe_slope(run)} ms/lap"
        symbol = "circle" if style.dash == "solid" else "diamond-open"
        traces += [
            points("markers", run.age, run.adjusted, f"{title}, lap %{{customdata[1]}}<br>%{{y:.3f}} s, tyre age %{{x}} laps",
                   showlegend=False, customdata=[[run.code, int(lap)] for lap in run.laps],
                   marker={"color": np.where(run.counts, style.colour, LEFT_OUT).tolist(), "size": 6,
                           "symbol": np.where(run.counts, symbol, "x-thin-open").tolist()}),
            points("lines", ends, fit, line={"color": style.colour, "width": 2, "dash": style.dash}, name=grows),
        ]  # fmt: skip
        marks.append(note(short, float(ends[1]), float(fit[1]), xanchor="left", xshift=5, font=SMALL))
    axes: Dict = {"xaxis": axis("tyre age (laps)"), "yaxis": axis("lap time (s)")}
    caption = (
        "Green laps, corrected to the fuel of each run's first lap. Slope: tyre degradation (ms/lap, 95% interval). Crosses: "
        "outliers and excluded laps. Click a lap to exclude it, or to include it again."
    )
    slopes = "; ".join(f"{run.code} {run.compound.lower()} {describe_slope(run)} ms/lap" for run in found)
    alt = f"Lap times of {len(found)} long runs against tyre age: {slopes}."
    return figure(traces, caption, alt, 340, annotations=marks, **axes, **key_above())


def runs_table(
    session: Session, fuel: float, excluded: Mapping[str, tuple[int, ...]] = MappingProxyType({})
) -> pd.DataFrame:
    """Return one row per long run of every driver."""
    rows = []
    for driver in session.drivers:
        try:
            found = driver_runs(session, driver.code, fuel, excluded.get(driver.code, ()))
        except GdmError:  # drivers without positions appear in the strategy chart only
            continue
        rows += [
            {
                "Driver": run.code, "Team": driver.team, "Stint": run.stint, "Compound": run.compound.capitalize(),
                "Laps": f"{run.laps[0]} to {run.laps[-1]}", "Counted": int(run.counts.sum()),
                "Mean, raw (s)": run.raw_mean, "Mean, fuel-corrected (s)": run.corrected_mean, "Deg (s/lap)": float(run.slope.mean),
                "95% interval ±": float(run.slope.margin), "Scatter (s)": run.scatter,
            }
            for run in found
        ]  # fmt: skip
    return pd.DataFrame(rows)


def stints_table(session: Session) -> pd.DataFrame:
    """Return one row per set of tyres."""
    return pd.DataFrame(
        {"Driver": driver.code, "Stint": one.number, "Compound": one.compound, "From lap": one.first, "To lap": one.last,
         "Age at first lap": one.age}
        for driver in session.drivers for one in stints(driver.laps)
    )  # fmt: skip


def strategy(session: Session) -> Figure:
    """Draw a bar for every set of tyres, and in a race laps with flags, safety cars or rain."""
    drivers = [driver for driver in session.drivers if len(driver.laps)]
    rows = [(row, stint) for row, driver in enumerate(drivers) for stint in stints(driver.laps)]
    traces: list[Dict] = []
    for kind in (*COMPOUNDS, ""):
        here = [(row, stint) for row, stint in rows if (stint.compound if stint.compound in COMPOUNDS else "") == kind]
        name = kind.capitalize() or "Unknown"
        if here:
            traces.append(
                {"type": "bar", "orientation": "h", "name": name, "y": [row for row, _ in here],
                 "base": [stint.first - 0.5 for _, stint in here], "x": [stint.last - stint.first + 1 for _, stint in here],
                 "text": [(stint.compound or "?")[0] for _, stint in here], "width": 0.75,
                 "textposition": "inside", "insidetextanchor": "start",
                 "textangle": 0, "textfont": {"color": "#10131a", "size": 10}, "constraintext": "none",
                 "marker": {"color": COMPOUNDS.get(kind, OTHER)},
                 "hovertemplate": [f"{drivers[row].code} {name.lower()}<br>laps {stint.first} to {stint.last}<extra></extra>"
                                   for row, stint in here]}
            )  # fmt: skip
    race, last = is_race(session), max((stint.last for _, stint in rows), default=1)
    shapes, shaded = flagged_laps(race_history(session).flags, "above") if race else ([], "")
    caption = f"One bar per set of tyres; in {'finishing' if race else 'classification'} order.{shaded}"
    sides = rows_axis([driver.code for driver in drivers], range=[len(drivers) - 0.4, -0.6])
    place: Dict = {
        "xaxis": axis("lap", showgrid=False, range=[0.5, last + 0.5]),
        "yaxis": sides,
        "shapes": shapes,
        "barmode": "overlay",
    }
    alt = f"Tyres of {len(drivers)} drivers: {len(rows)} stints."
    return figure(traces, caption, alt, 80 + 20 * len(drivers), **place, **key_above())
