"""The panel on where time is won between two drivers, over all laps that nothing disturbed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from datasets import formula1
from datasets.f1.qualifying import is_race
from datasets.f1.time_won import FEWEST_LAPS
from datasets.formula1 import Session
from gdm_studio.plot.figures.base import Figure
from pages.formula1 import data, gain_figures, teams, time_gained, weekend
from pages.formula1.choices import choose_one
from pages.formula1.driver_states import Driver, race_of
from pages.lab import Unread, View
from pages.ui import shell
from pages.ui.plot import plot

PAIRED = {"tyre age": "Tyre age", "lap number": "Lap number"}
HOW_PAIRED = (
    "Tyre age: laps on tyres of the same compound and age, less what fuel and track change in between. Lap number: laps of "
    "the same number, whatever the tyres."
)


def show(
    view: View, session: Session, codes: tuple[str, str], picked: Sequence[Driver | Unread], names: Sequence[str]
) -> None:
    """Where one wins time on the other, over all pairs of laps that nothing disturbed."""
    race = race_of(view)
    circuit, looked = race.circuit, race.pick.looked
    if codes[0] == codes[1]:
        return
    with shell.panel("gain"):
        left, middle, right = st.columns([0.3, 0.3, 0.4], gap="small")
        with left:
            known = time_gained.usual(race.pick.place, codes, looked)
            usual = "tyre age" if known is None else known.won.by
            by = choose_one("Pair laps by", "pair", PAIRED, usual, HOW_PAIRED, row=True)
        first = session.driver(codes[0]).laps
        stints = {f"{stint.number}": f"{stint.number} · {stint.compound.lower() or 'unknown tyres'}, laps {stint.first} to "
                  f"{stint.last}" for stint in formula1.stints(first)}  # fmt: skip
        with middle:
            stint = choose_one(
                f"Stint of {codes[0]}", "stint", {"all": "All stints"} | stints, "all", among=f"{race.pick.place}-{codes[0]}",
            )  # fmt: skip
        with right:
            kind = choose_one("Time won by", "won-by", time_gained.KINDS, "segment", row=True)
        number = int(stint) if stint.isdigit() else 0
        found = time_gained.between(race.pick.place, codes, looked, time_gained.as_by(by), number)
        if found is None:
            shell.quiet(_too_few(by, codes))
            return
        states = time_gained.by_state(view, found, picked, names)
        shell.quiet(time_gained.sentence(found, states))
        gain = {"segment": found.segments, "sector": found.sectors, "state": states}.get(kind)
        if gain is None or not gain.names:
            gain, kind = found.minisectors, "minisector"
        looks = _looks(session, codes)
        place, chart = st.columns([0.58, 0.42], gap="small")
        with place:
            plot(gain_figures.gain_map(circuit, codes, found.minisectors, looks), key="gain-map")
        with chart:
            plot(gain_figures.bars(codes, gain, kind, looks), key="gain")
        shell.quiet(time_gained.about_laps(found))


def beside(view: View) -> None:
    """Where the fitted driver wins time on the other, for the place beside the map."""
    race = race_of(view)
    codes = (race.train.code, race.test.code)
    if codes[0] == codes[1]:
        return
    with shell.panel("won", f"Time won along the lap: {codes[0]} against {codes[1]}"):
        session = data.open_session(race.pick.place)
        looks = _looks(session, codes)
        if not is_race(session):
            best = weekend.between_best(race.pick.place, codes)
            if best is None:
                shell.quiet(f"{codes[0]} or {codes[1]} has no lap with official times and speeds to compare.")
                return
            figure = view.shown.once(
                "won-beside", lambda: gain_figures.bars(codes, best, "minisector", looks), of=(best,)
            )
            plot(figure, key="won", still=True)
            shell.quiet(
                f"The best lap of each in the session: {codes[0]} {best.mean.sum():+.3f} s over the lap. One lap of each says "
                "nothing of chance between laps; lines are what the clocks leave open."
            )
            return
        found = time_gained.usual(race.pick.place, codes, race.pick.looked)
        if found is None:
            shell.quiet(_too_few("lap number", codes))
            return
        gain, kind = (found.segments, "segment") if found.segments.names else (found.minisectors, "minisector")
        figure = view.shown.once("won-beside", lambda: gain_figures.bars(codes, gain, kind, looks), of=(found,))
        plot(figure, key="won", still=True)
        (whole, error) = found.won.whole
        shell.quiet(
            f"Over the lap: {codes[0]} {whole:+.2f} ± {time_gained.SURE * error:.2f} s. {len(found.won.pairs)} pairs of laps."
        )


def _looks(session: Session, codes: tuple[str, str]) -> gain_figures.Looks:
    one, other = teams.looks(session, codes)
    return one, other


def exported(view: View, drivers: Sequence[Driver], names: Sequence[str]) -> dict[str, Callable[[], Figure]]:
    """The figures, to take along: of the fitted driver against the other, over all laps that can be compared."""
    race = race_of(view)
    found = time_gained.usual(race.pick.place, (race.train.code, race.test.code), race.pick.looked)
    if found is None:
        return {}
    codes = found.codes
    gains = {
        "segment": found.segments,
        "sector": found.sectors,
        "minisector": found.minisectors,
        "state": time_gained.by_state(view, found, drivers, names),
    }
    looks = _looks(data.open_session(race.pick.place), codes)
    bars = {
        f"Time won by {kind}": partial(gain_figures.bars, codes, gain, kind, looks)
        for kind, gain in gains.items()
        if gain is not None and gain.names
    }
    return {"Time won on the map": lambda: gain_figures.gain_map(race.circuit, codes, found.minisectors, looks)} | bars


def _too_few(by: str, codes: tuple[str, str]) -> str:
    """Why there is nothing to say about where time is won."""
    return (
        f"{codes[0]} and {codes[1]} have fewer than {FEWEST_LAPS} undisturbed laps "
        + ("on tyres of the same compound and age, or the feed does not know the tyres; pair laps by number instead, or "
           if by == "tyre age" else "of the same number with official times; ")
        + "choose more laps or another stint."
    )  # fmt: skip
