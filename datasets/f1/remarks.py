"""What has to be known of laps before they are looked at: no times, deleted laps, wet tyres, half a telemetry, red flags, rain."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gdm_core.text import listed

from .session import Session

WET = ("INTERMEDIATE", "WET")
PEDALS = ("speed", "throttle", "brake", "gear")
MOST_MISSING = 0.05  # of the samples of a channel: less is bridged
HELD_UP = {
    "red flag": "was stopped under a red flag; laps of it are no racing laps",
    "rain": "saw rain; laps before, in and after it are not alike",
}


def on_session(session: Session) -> tuple[str, ...]:
    """A sentence each on red flags and rain."""
    start = min((driver.laps.start.min() for driver in session.drivers if len(driver.laps)), default=0.0)
    said = []
    for what, words in HELD_UP.items():
        spells = [one for one in session.spells if one.what == what and one.end > start]
        minutes = [f"{max(0.0, one.start - start) / 60:.0f}" for one in spells]
        if minutes:
            said.append(f"The session {words} (from minute {listed(minutes)}).")
    return tuple(said)


def on_laps(session: Session, code: str, laps: Iterable[int]) -> tuple[str, ...]:
    """A sentence each on what is wanting in these laps of a driver, with what can be seen all the same."""
    driver, numbers = session.driver(code), list(laps)
    table = driver.laps
    there = np.isin(table.number, numbers)
    said = []
    if not table.timed.any():
        said.append(f"{code} set no time: states and telemetry are shown, and nothing is said of time.")
    if gone := [str(n) for n in table.number[there & table.deleted]]:
        which = f"lap {gone[0]}" if len(gone) == 1 else f"laps {listed(gone)}"
        said.append(f"Race control deleted {which} of {code}: shown here, and never the best lap.")
    wet = np.isin(table.compound, WET) & there
    if wet.any() and not wet[there].all():
        said.append(
            f"{code} drove {wet.sum()} of these {there.sum()} laps on wet or intermediate tyres: choose one compound to compare "
            "like with like."
        )
    mine = np.isin(driver.lap, numbers)
    known = [name for name in PEDALS if name in driver.available_channels]
    if lacking := [name for name in PEDALS if name not in known]:
        said.append(f"The car of {code} sent no {listed(lacking)}: the model sees the rest.")
    for name in known if mine.any() else ():
        share = float(np.isnan(driver.channels[name][mine]).mean())
        if share > MOST_MISSING:
            said.append(
                f"The car of {code} sent no {name} for {share:.0%} of these laps: states there go by the other channels."
            )
    return tuple(said)
