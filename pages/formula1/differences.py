"""The tab Differences: states of the difference between two drivers along the lap, and their cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from html import escape
from typing import Any

import numpy as np
import streamlit as st

from datasets.f1.differences import Differences, Habit, differences, find_habits
from datasets.formula1 import TimeWon
from gdm_core.analysis.repeatable import FEWEST, RETURNS, RepeatableStates, repeatable_states
from gdm_core.text import listed
from gdm_studio.plot import figures, palette
from gdm_studio.plot.figures.base import Figure
from pages.formula1 import circuit_map, teams, time_gained
from pages.formula1.circuit import Floats
from pages.formula1.comparison import Between, Gain
from pages.formula1.data import Race
from pages.formula1.selection import Place
from pages.formula1.sessions import open_session
from pages.lab import live
from pages.lab.live.background import Task, show_progress, visitor_jobs
from pages.ui import shell
from pages.ui.plot import plot

# Least difference to mention, and words for more and less.
WORDS = {
    "throttle": (3.0, "{:.0f}% more throttle", "{:.0f}% less throttle"),
    "brake": (0.02, "brakes {:.0%} more", "brakes {:.0%} less"),
    "speed": (1.0, "{:.1f} km/h faster", "{:.1f} km/h slower"),
}
NOTHING = "little difference"
N_CORNERS = 3


@st.cache_resource(max_entries=16, show_spinner=False)
def measure(place: Place, codes: tuple[str, str], pairs: tuple[tuple[int, int], ...], by: str, _won: TimeWon) -> Any:
    """Return the differences over pairs, cached to compute their fingerprint once."""
    return differences(open_session(place), codes, _won)


def tab(race: Race, found: Between) -> None:
    """Show what the second driver does differently, where, and its price."""
    won = found.won
    apart: Differences | None = measure(race.pick.place, found.codes, won.pairs, won.by, won)
    if apart is None:
        shell.empty("No differences", "The feed has neither speed nor pedals of both drivers.")
        return
    if len(won.pairs) < FEWEST:
        shell.empty(
            "Too few pairs of laps",
            f"There are {len(won.pairs)}; {FEWEST} are needed, because half are kept aside to confirm what is found. "
            "Compare run by run, other drivers, or early and late laps of one driver in a race.",
        )
        return
    trials = apart.trials
    key = "differences", trials.fingerprint
    task: Task = visitor_jobs().get(
        key, lambda: Task(partial(_fit, trials), "Fitting 2 to 5 states to half of the pairs")
    )
    ended = task.wait(0.3)
    show_progress("differences-progress", task, ended)
    if not ended:
        shell.empty("Looking for differences", "States are fitted to half of the pairs and checked on the others.")
    elif task.error is not None:
        again = partial(visitor_jobs().forget, key)
        shell.error("States could not be fitted", str(task.error), retry="differences-retry", again=again)
    else:
        show(race, found, apart, task.value)


def _fit(trials: Any, _: Task) -> RepeatableStates:
    engine, session = live.panels.engine(), f"{live.visitor()}/differences/{trials.fingerprint}"
    try:
        fitted: RepeatableStates = engine.submit(repeatable_states, trials, session=session).result()
        return fitted
    finally:
        engine.forget(session)


def show(race: Race, found: Between, apart: Differences, fitted: RepeatableStates) -> None:
    """Show sentence, map, strip, cards and bars of a finished fit."""
    habits, rest = find_habits(apart, fitted.places, fitted.aside, fitted.agreement, RETURNS)
    every = [*habits, *([rest] if rest is not None else [])]
    names = [f"S{k + 1} {describe(habit)}" for k, habit in enumerate(habits)] + ["the rest"] * (rest is not None)
    shell.finding(sentence(found, habits))
    shell.state_key(len(every), names)
    left, right = st.columns([0.55, 0.45], gap="small")
    with left, shell.panel("difference-map", f"{found.names[1]} against {found.names[0]}, along the lap"):
        plot(
            draw_map(race, mixed(fitted.places, every), names),
            key="difference-map",
            still=True,
            filename=f"{race.stem}-differences",
        )
        plot(draw_strips(race, fitted, every, names), key="difference-strips", still=True)
    with right, shell.panel("prices", "What it costs"):
        styles = teams.line_styles(race.session, race.codes)
        plot(time_gained.bars(found.names, prices(every, names), "habit", styles), key="prices", still=True)
    with right:
        cards = "".join(card_html(race, found, habit, k, len(every)) for k, habit in enumerate(habits))
        shell.html(f'<div class="f1-corners" role="list" aria-label="Habits">{cards}</div>')
    shell.quiet(about(fitted, rest is not None))


def describe(habit: Habit) -> str:
    """Return what the second driver does: significant differences in words."""
    parts = []
    for name, (least, more, less) in WORDS.items():
        if name in habit.apart and habit.apart[name].sure and abs(mean := float(habit.apart[name].mean)) >= least:
            parts.append((more if mean > 0 else less).format(abs(mean)))
    return ", ".join(parts) or NOTHING


def sentence(found: Between, habits: Sequence[Habit]) -> str:
    """Describe the most expensive confirmed habit, preferring habits with a name."""
    sure = sorted((habit for habit in habits if habit.confirmed), key=lambda habit: describe(habit) == NOTHING)
    if not sure:
        return f"No habit of {found.names[1]} against {found.names[0]} is confirmed by the pairs kept aside."
    many = f"{len(sure)} habits" if len(sure) > 1 else "One habit"
    return f"{many} of {found.names[1]} against {found.names[0]} confirmed. The largest: {describe(sure[0])}; {cost(sure[0])}."


def cost(habit: Habit) -> str:
    """Return the price with its interval."""
    mean = float(habit.price.mean)
    return f"{'loses' if mean > 0 else 'gains'} {abs(mean):.2f} s/lap (±{float(habit.price.margin):.2f})"


def where(race: Race, found: Between, habit: Habit) -> str:
    """Return the corners in whose windows most of the price arises."""
    shares = (found.won.edges[1:] + found.won.edges[:-1]) / 2
    middles = shares * race.circuit.length
    price = found.won.won.mean(axis=0) * habit.here[(shares * len(habit.here)).astype(int)]
    corner = race.circuit.nearest_corner(middles)
    total = np.bincount(corner, price, len(race.circuit.corners)) * np.sign(float(habit.price.mean))
    top = [int(c) for c in np.argsort(-total)[:N_CORNERS] if total[c] > 0]
    return listed([f"T{race.circuit.corners[c][0]}" for c in sorted(top)])


def card_html(race: Race, found: Between, habit: Habit, number: int, n_states: int) -> str:
    """Return one habit as a card."""
    colour = palette.colours(n_states)[number]
    place = f"Mostly around {where(race, found, habit)}. " if race.circuit.segments else ""
    verdict = "Confirmed by the pairs kept aside." if habit.confirmed else "Not confirmed: could be chance."
    return (
        f'<div role="listitem"><p><b><i style="border-top: 0.7rem solid {colour}"></i>S{number + 1}</b> '
        f"{escape(found.names[1])} {cost(habit)}</p><p>{escape(describe(habit).capitalize())}. {place}"
        f"{habit.here.mean():.0%} of the lap. {verdict}</p></div>"
    )


def prices(habits: Sequence[Habit], names: Sequence[str]) -> Gain:
    """Return what the first driver gains in each state."""
    mean, error, freedom = (
        np.array([float(getattr(habit.price, part)) for habit in habits]) for part in ("mean", "error", "freedom")
    )
    return Gain(mean, error, freedom, tuple(names))


def mixed(shares: Floats, habits: Sequence[Habit]) -> Floats:
    """Return the shares [T, H] of habits and rest, from those of the fitted states [T, K]."""
    sums = np.column_stack([shares[:, list(habit.states)].sum(axis=1) for habit in habits])
    return np.asarray(sums / sums.sum(axis=1, keepdims=True), np.float32)


def draw_map(race: Race, states: Floats, names: Sequence[str]) -> Figure:
    """Draw the lap in the mixed colours of the states [T, H]."""
    circuit, nothing = race.circuit, np.zeros(len(states), np.int64)
    along = ((np.arange(len(states)) + 0.5) * circuit.length / len(states)).astype(np.float32)
    place, segment = circuit.position_at(along), circuit.segment_at(along)
    laps = replace(race.train, place=place, distance=along, segment=segment, lap=nothing, car={})
    caption = "Mixed, paler colours: several states share the place."
    return circuit_map.circuit_map(circuit, laps, states, caption=caption, names=names)


def draw_strips(race: Race, fitted: RepeatableStates, habits: Sequence[Habit], names: Sequence[str]) -> Figure:
    """Draw the mean shares of the fitted pairs, and of those kept aside."""
    sides = {"fitted": ~fitted.aside, "kept aside": fitted.aside}
    rows = {label: mixed(fitted.states[chosen].mean(axis=0), habits) for label, chosen in sides.items()}
    return figures.state_strips(
        rows, **race.circuit.axis, names=names, caption="Pairs that were fitted, and pairs kept aside."
    )


def about(fitted: RepeatableStates, joined: bool) -> str:
    """Describe how the states were chosen, next to the baseline."""
    ours, theirs = (", ".join(f"{value:.2f}" for value in one) for one in (fitted.agreement, fitted.clusters))
    return (
        f"K = {fitted.states.shape[2]}: the most states whose places return in the pairs kept aside (correlation {ours}; "
        f"k-means {theirs}). {'The rest: states whose place or price does not return. ' if joined else ''}"
        "A price is the time where its state is the strongest on average; a confirmed one is significant in both halves."
    )
