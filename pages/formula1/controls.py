"""Choices of the page: session, drivers, laps and channels."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import streamlit as st

from datasets.f1 import loader
from datasets.f1.laps import PARTS, RACES, is_race, ranked_by_time
from datasets.formula1 import Event, LapTable, Session
from gdm_core.text import plural
from pages.formula1 import sessions as loads
from pages.formula1.selection import CAR_CHANNELS, Pick, Place, Selection
from pages.lab.live.background import Task
from pages.ui import settings, shell
from pages.ui.controls import one_of, several, span

FIFTH = 4  # the paper compares the winner with the fifth
SIMULATED = {"shanghai": "Shanghai, simulated", "suzuka": "Suzuka, simulated"}
SOURCES = {"real": "Real sessions", "simulated": "Simulated"}
WATCHED = {
    "car": "Car telemetry",
    "where": "Position",
    "both": "Both",
    "paper": "Paper's setting (K = 8)",
    "channels": "Custom",
}
WATCHED_HELP = (
    "Telemetry is speed, pedals and gear; position is X and Y. The paper's setting observes ten random mixtures of X and Y "
    "and fits eight states."
)


@dataclass(eq=False)
class Waiting(Exception):
    """Raised while there is nothing to show.

    what   session, or year of a calendar, that is loaded
    ask    whether the user must start the download
    """

    title: str
    load: Task | None = None
    what: Place | int | None = None
    advice: str = ""
    ask: bool = False


def choose_one(
    label: str,
    name: str,
    options: Mapping[str, str] | Sequence[str],
    default: str,
    help: str | None = None,
    **more: Any,
) -> str:
    """Show a choice of one option and return it, "" if there is none."""
    if not options:
        st.selectbox(label, ["not available"], disabled=True, key=f"{name}-none", help=help)
        return ""
    return one_of(label, options, default, key=name, as_ids=True, help=help, **more)


@contextmanager
def section_of_data(*, folded: bool) -> Iterator[None]:
    """Contain the choice of session, drivers and laps, folded where the controls of a model need the room."""
    if folded:
        with st.expander("Session and drivers", icon=":material/flag:"):
            yield
    else:
        shell.section("Data")
        yield


def choose_place() -> Place:
    default = "real" if loader.stored_sessions() else "simulated"
    about = "Simulated laps need no network. Real sessions are fetched with FastF1 and stored on disk."
    source = choose_one("Data source", "source", SOURCES, default, about, always=True, row=True, width="stretch")
    if source == "simulated":
        return Place(circuit=choose_one("Circuit", "circuit", SIMULATED, "shanghai"))
    return _real()


def _real() -> Place:
    stored = loader.stored_sessions()
    year = _choose_year([str(year) for year, *_ in stored])
    load = loads.request_calendar(year)
    load.wait(0.3)
    events: tuple[Event, ...] = load.value if load.value is not None else ()
    here = sorted(((event, name) for y, event, name in stored if y == year), key=lambda one: one[1] not in RACES)
    past = [event for event in events if _is_past(event.date)]
    names = list(dict.fromkeys([*(event for event, _ in here), *(event.name for event in past)]))
    unknown_event = settings.text("event") not in (None, *names)
    if not load.ended and (unknown_event or not names):  # the calendar may have the event of the link
        raise Waiting(f"Fetching the {year} calendar", load, year)
    event = _choose_marked(
        "Event", names, {event for event, _ in here}, names[0] if names else "", f"{year}",
        'Events marked "stored" work offline.' if here else None,
    )  # fmt: skip
    if not load.ended:
        st.caption("Fetching the calendar; stored sessions are available now.")
    elif load.error is not None:
        title, text = loads.explain(load.error)
        if not names:
            raise Waiting(f"The {year} calendar: {title.lower()}", load, year, text)
        st.caption(f"Only stored sessions are listed: {title.lower()}.")
    if left := len(events) - len(past):
        st.caption(f"{plural(left, 'event')} of {year} {'have' if left > 1 else 'has'} not taken place yet.")
    if not names:
        raise Waiting(f"No events of {year}", advice="The season has not started. Choose another year.")
    slots = next((found.sessions for found in past if found.name == event), ())
    kept = [name for e, name in here if e == event]
    sessions = list(dict.fromkeys([*(slot.name for slot in slots if _is_past(slot.start_utc)), *kept]))
    ranked = sorted(kept, key=lambda name: (name not in RACES, sessions.index(name)))
    usual = ranked[0] if kept else "Race" if "Race" in sessions else (sessions[-1] if sessions else "")
    if not (name := _choose_marked("Session", sessions, kept, usual, f"{year}-{event}")):
        raise Waiting("No session yet", advice=f"No session of {event} {year} has taken place yet.")
    return Place(year=year, event=event, name=name)


def _choose_year(stored: Sequence[str]) -> int:
    """Show the choice of a season, at first the newest with a stored session, or else with any session."""
    years = [str(year) for year in loader.years()]
    first = next((year for year in stored if year in years), years[0])
    if first not in stored and settings.text("year") is None:
        newest = loads.request_calendar(int(years[0]))
        if not newest.wait(0.3):
            raise Waiting(f"Fetching the {years[0]} calendar", newest, int(years[0]))
        driven = newest.error is None and any(_is_past(event.date) for event in newest.value)
        first = years[0 if driven else 1]
    return int(choose_one("Year", "year", years, first, help="Telemetry starts in 2018.", always=True))


def _choose_marked(
    label: str, names: Sequence[str], stored: Collection[str], default: str, options_key: str, help: str | None = None
) -> str:
    """Show the choice of an event or session; stored ones are marked."""
    options = {name: f"{name} · stored" if name in stored else name for name in names}
    return choose_one(label, label.lower(), options, default, help, options_key=options_key, always=True)


def _is_past(moment: str) -> bool:
    """Return whether a calendar date has passed; a missing date counts as past."""
    return not moment or moment[:10] <= datetime.now(UTC).date().isoformat()


def ready(place: Place) -> Session:
    """Return the session, or raise Waiting while it loads."""
    if place.simulated:
        return loads.simulated(place.circuit)
    where = (place.year, place.event, place.name)
    title = f"{place.event} {place.year}, {place.name}"
    if not (loader.is_stored(*where) or loads.is_requested(place) or where in loader.stored_sessions()):
        raise Waiting(title, what=place, ask=True)
    load = loads.request_session(place)
    load.wait(2.0 if loader.is_stored(*where) else 0.3)  # stored sessions open at once, also on a busy machine
    if load.ended and load.error is None:
        session: Session = load.value
        return session
    raise Waiting(title, load, place)


def choose_drivers(place: Place, session: Session) -> Pick:
    there = [driver for driver in session.drivers if driver.has_position and len(driver.laps)]
    codes = [driver.code for driver in there]
    if not codes:
        raise Waiting(
            "No driver with positions", advice="The feed has no positions for this session. Choose another one."
        )
    timed = not is_race(session)
    if timed:  # order by lap time; classifications exist for races only
        codes.sort(key=ranked_by_time(session).index)
    named = {code: f"{code} · {session.driver(code).name}" for code in codes}
    key = repr(place)
    first, second = usual_pair(session, codes)
    sides = (
        ("Reference driver", "train", first, "In classification order." if timed else "In finishing order."),
        ("Compare with", "test", second, None),
    )
    train, test = (
        choose_one(label, name, named, start, about, options_key=key, always=not place.simulated)
        for label, name, start, about in sides
    )
    absent = [driver.code for driver in session.drivers if driver.code not in codes]
    if absent:
        st.caption(f"Without position data: {', '.join(absent)}.")
    laps = choose_laps(session, train, test, key)
    return Pick(place, train, test, Selection(laps, _car_channels(session, train, test)))


def usual_pair(session: Session, codes: Sequence[str]) -> tuple[str, str]:
    """Return the drivers that are compared at first: winner and second, or the two fastest."""
    second = FIFTH if session.simulated else 1  # the simulated race has a precomputed fit
    return codes[0], codes[min(second, len(codes) - 1)]


def _car_channels(session: Session, train: str, test: str) -> tuple[str, ...]:
    both = set(session.driver(train).available_channels) & set(session.driver(test).available_channels)
    return tuple(name for name in CAR_CHANNELS if name in both)


def choose_channels(session: Session, pick: Pick) -> Pick:
    """Show what the model sees and return the pick with the observed channels."""
    channels = _channels(_car_channels(session, pick.train, pick.test))
    return replace(pick, selection=replace(pick.selection, channels=channels))


def _channels(car: tuple[str, ...]) -> tuple[str, ...]:
    """Return the observed channels; () for the paper's setting."""
    place = ("X", "Y")
    seen = {"car": car, "where": place, "both": (*place, *car)}
    options = {name: words for name, words in WATCHED.items() if car or name not in ("car", "both")}
    watched = choose_one("The model sees", "watch", options, "car" if car else "paper", WATCHED_HELP, tall=True)
    if watched != "channels":
        return seen.get(watched, ())
    known = [*place, *car]
    chosen = several("Channels", known, known[:3], key="channels", placeholder="at least one")
    if not chosen:
        st.caption("No channel selected: X and Y are used.")
    return tuple(name for name in known if name in chosen) or place


def account_hint() -> str:
    """Return advice on Formula 1 accounts if none is set."""
    if os.environ.get("F1_USERNAME") and os.environ.get("F1_PASSWORD"):
        return ""
    return (
        "Some sessions require a free Formula 1 account. Set F1_USERNAME and F1_PASSWORD in the server's environment "
        "to use yours."
    )


# ---- which laps: all, racing laps, a range, or by stint, compound, tyre age or part of qualifying --------------------
LAP_KINDS = {
    "all": "All laps",
    "racing": "Racing laps only",
    "range": "Lap range",
    "stint": "One stint",
    "compound": "One compound",
    "age": "Tyre age",
    "part": "Fast laps of qualifying",
    "quick": "Fast laps",
}
LAP_HELP = (
    "Racing laps exclude lap 1, in-laps, out-laps and safety-car laps. Fast laps are within 107% of the driver's best."
)


def choose_laps(session: Session, train: str, test: str, options_key: str) -> str:
    """Return the chosen laps in the form of `Selection.laps`."""
    tables = [session.driver(code).laps for code in dict.fromkeys((train, test))]
    stints = _both(tables, lambda laps: {str(n) for n in laps.stints})
    compounds = _both(tables, lambda laps: {name for name in laps.compound if name})
    parts = _both(tables, lambda laps: {PARTS[n - 1] for n in laps.part[laps.part > 0]})
    oldest = min(int(np.nanmax(laps.tyre_age, initial=0)) for laps in tables)
    known = {"stint": len(stints) > 0, "compound": len(compounds) > 0, "age": oldest > 1, "part": len(parts) > 0}
    known["quick"] = not (known["part"] or is_race(session))
    kinds = {kind: words for kind, words in LAP_KINDS.items() if known.get(kind, True)}
    default = "part" if known["part"] else "quick" if known["quick"] else "racing"
    in_key = "-".join(kind for kind in known if known[kind])
    kind = choose_one("Laps", "laps-of", kinds, default, LAP_HELP, options_key=in_key)
    if kind == "range":
        last = max(2, *(int(laps.number.max()) for laps in tables))
        first, end = span("Laps from / to", 1, last, (1, min(10, last)), key="laps", options_key=options_key)
        return f"{first}-{end}"
    if kind == "age":
        start = (1, min(10, oldest))
        first, end = span("Tyre age from / to", 1, oldest, start, key="tyres", options_key=options_key)
        return f"age={first}-{end}"
    lists = {"stint": stints, "compound": compounds, "part": ["all", *parts]}
    if kind in lists:
        shown = {value: "Q1 to Q3" if value == "all" else value.capitalize() for value in lists[kind]}
        in_key = f"{options_key}-{'-'.join(shown)}"
        return f"{kind}={choose_one(kind.capitalize(), f'laps-{kind}', shown, lists[kind][0], options_key=in_key)}"
    return kind


def _both(tables: list[LapTable], items: Callable[[LapTable], set[str]]) -> list[str]:
    """Return the items that all drivers have, in order."""
    return sorted(set.intersection(*(items(laps) for laps in tables)))
