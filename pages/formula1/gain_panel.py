"""The panel on where time is won between two drivers, over all laps that nothing disturbed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from datasets import formula1
from datasets.f1.time_won import FEWEST_LAPS
from datasets.formula1 import Session
from gdm_studio.plot.figures.base import Figure
from pages.formula1 import gain_figures, time_gained
from pages.formula1.choices import choose_of_few, choose_one
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
            by = choose_of_few("Pair laps by", "pair", PAIRED, usual, HOW_PAIRED)
        first = session.driver(codes[0]).laps
        stints = {f"{stint.number}": f"{stint.number} · {stint.compound.lower() or 'unknown tyres'}, laps {stint.first} to "
                  f"{stint.last}" for stint in formula1.stints(first)}  # fmt: skip
        with middle:
            stint = choose_one(
                f"Stint of {codes[0]}", "stint", ["all", *stints], "all", show=lambda key: stints.get(key, "All stints"),
                among=f"{race.pick.place}-{codes[0]}",
            )  # fmt: skip
        with right:
            kind = choose_of_few("Time won by", "won-by", time_gained.KINDS, "segment")
        number = int(stint) if stint.isdigit() else 0
        found = time_gained.between(race.pick.place, codes, looked, time_gained.as_by(by), number)
        if found is None:
            shell.quiet(_too_few(by, codes))
            return
        states = time_gained.by_state(view, found, picked, names)
        shell.quiet(time_gained.sentence(found, states))
        gain = {"segment": found.segments, "state": states}.get(kind)
        if gain is None or not gain.names:
            gain, kind = found.minisectors, "minisector"
        place, chart = st.columns([0.42, 0.58], gap="small")
        with place:
            plot(gain_figures.gain_map(circuit, codes, found.minisectors), key="gain-map")
        with chart:
            plot(gain_figures.bars(codes, gain, kind), key="gain")
        shell.quiet(time_gained.about_laps(found))


def exported(view: View, drivers: Sequence[Driver], names: Sequence[str]) -> dict[str, Callable[[], Figure]]:
    """The figures, to take along: of the fitted driver against the other, over all laps that can be compared."""
    race = race_of(view)
    found = time_gained.usual(race.pick.place, (race.train.code, race.test.code), race.pick.looked)
    if found is None:
        return {}
    codes = found.codes
    gains = {
        "segment": found.segments,
        "minisector": found.minisectors,
        "state": time_gained.by_state(view, found, drivers, names),
    }
    bars = {
        f"Time won by {kind}": partial(gain_figures.bars, codes, gain, kind)
        for kind, gain in gains.items()
        if gain is not None and gain.names
    }
    return {"Time won on the map": lambda: gain_figures.gain_map(race.circuit, codes, found.minisectors)} | bars


def _too_few(by: str, codes: tuple[str, str]) -> str:
    """Why there is nothing to say about where time is won."""
    return (
        f"{codes[0]} and {codes[1]} have fewer than {FEWEST_LAPS} undisturbed laps "
        + ("on tyres of the same compound and age, or the feed does not know the tyres; pair laps by number instead, or "
           if by == "tyre age" else "of the same number with official times; ")
        + "choose more laps or another stint."
    )  # fmt: skip
