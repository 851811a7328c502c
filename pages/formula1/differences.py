"""The tab Differences: states of the difference between two drivers along the lap, and their cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from html import escape

import numpy as np
import pandas as pd
import streamlit as st

from datasets.f1.differences import UNUSUAL, Differences, Habit, differences, find_habits
from gdm_core.analysis.repeatable import FEWEST, RETURNS, RepeatableStates, repeatable_states
from gdm_core.engine.job import Job
from gdm_core.text import listed
from gdm_studio.plot import figures, palette
from gdm_studio.plot.figures.base import Figure
from pages import lab
from pages.formula1 import circuit_map, teams, time_gained
from pages.formula1.circuit import Floats
from pages.formula1.comparison import Between, Gain
from pages.formula1.data import Race
from pages.lab.live.background import show_progress, submit_once, visitor_jobs
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
FEW = 16  # pairs


measure = lru_cache(maxsize=16)(differences)


def request(race: Race, found: Between) -> tuple[Differences, Job] | None:
    """Return the differences and their fit in the background; None without common channels or with too few pairs."""
    won = found.won
    apart: Differences | None = measure(race.session, found.codes, won)
    if apart is None or len(won.pairs) < FEWEST:
        return None
    key, words = ("differences", apart.trials.fingerprint), "Fitting 2 to 5 states to half of the pairs"
    return apart, submit_once(key, words, repeatable_states, apart.trials)


def tab(race: Race, found: Between) -> None:
    """Show what the second driver does differently, where, and its price."""
    requested = request(race, found)
    if requested is None and len(found.won.pairs) >= FEWEST:
        shell.empty("No differences", "The feed has neither speed nor pedals of both drivers.")
        return
    if requested is None:
        shell.empty(
            "Too few pairs of laps",
            f"There are {len(found.won.pairs)}; {FEWEST} are needed, because half are kept aside to confirm what is found. "
            "Compare run by run, other drivers, or early and late laps of one driver in a race.",
        )
        return
    apart, job = requested
    ended = job.wait(0.3)
    show_progress("differences-progress", job, ended)
    view = job.poll()
    if not ended:
        shell.empty("Looking for differences", "States are fitted to half of the pairs and checked on the others.")
    elif view.message:
        again = partial(visitor_jobs().forget, ("differences", apart.trials.fingerprint))
        shell.error("States could not be fitted", view.message, retry="differences-retry", again=again)
    else:
        show(Habits(race, found, apart, view.result))


class Habits:
    """Habits of the second driver and the rest, as figures and a table.

    known   habits, the dearest first
    every   habits, and the rest if there is one
    names   of `every`; `short` without words
    """

    def __init__(self, race: Race, found: Between, apart: Differences, fitted: RepeatableStates) -> None:
        self.race, self.found, self.apart, self.fitted = race, found, apart, fitted
        self.known, rest = find_habits(apart, fitted.places, fitted.aside, fitted.agreement, RETURNS)
        self.every = [*self.known, *([rest] if rest is not None else [])]
        self.names = [f"S{k + 1} {describe(habit)}" for k, habit in enumerate(self.known)]
        self.names += ["Rest"] * (rest is not None)
        self.short = [name.partition(" ")[0] for name in self.names]

    def figures(self) -> dict[str, Callable[[], Figure]]:
        """Return the figures by name."""
        styles = teams.line_styles(self.race.session, self.race.codes)
        cost = partial(time_gained.bars, self.found.names, prices(self.every, self.short), "habit", styles)
        return {
            "Differences on the map": self.draw_map,
            "Differences along the lap": self.draw_strips,
            "Cost of differences": cost,
        }

    def draw_map(self) -> Figure:
        """Draw the lap in the colours of the habits at their places."""
        circuit, states = self.race.circuit, np.column_stack([habit.here for habit in self.every]).astype(np.float32)
        along = ((np.arange(len(states)) + 0.5) * circuit.length / len(states)).astype(np.float32)
        place, segment = circuit.position_at(along), circuit.segment_at(along)
        laps = replace(
            self.race.train, place=place, distance=along, segment=segment, lap=np.zeros(len(states), np.int64), car={}
        )
        caption = "Places of each difference; the strips show how often it is there."
        return circuit_map.circuit_map(circuit, laps, states, caption=caption, names=self.names)

    def draw_strips(self) -> Figure:
        """Draw the mean shares of the fitted pairs, and of those kept aside."""
        sides = {"fitted": ~self.fitted.aside, "kept aside": self.fitted.aside}
        rows = {label: mixed(self.fitted.states[pairs].mean(axis=0), self.every) for label, pairs in sides.items()}
        caption = "Pairs that were fitted, and pairs kept aside."
        return figures.state_strips(rows, **self.race.circuit.axis, names=self.names, caption=caption)

    def show_moment(self) -> None:
        """Draw the mean shares at one place of the lap as bars, which follow map and strips."""
        shares = mixed(self.fitted.states.mean(axis=0), self.every)
        looks = {"names": self.short, "colours": palette.colours(len(self.every))}
        lab.show_clock(self.apart.trials.fingerprint, "the differences", shares, looks, self.race.circuit.axis)

    def table(self) -> pd.DataFrame:
        """Return one row per habit, and one for the rest."""
        return pd.DataFrame(
            {
                "Difference": name, "Mostly around": where(self.race, self.found, habit),
                "Share of lap (%)": 100 * float(habit.here.mean()), "Cost (s/lap)": float(habit.price.mean),
                "95% interval ±": float(habit.price.margin),
                "Confirmed": "yes" if habit.confirmed else "",
            } | {f"{channel} difference": float(apart.mean) for channel, apart in habit.apart.items()}
            for name, habit in zip(self.names, self.every, strict=True)
        )  # fmt: skip


def show(habits: Habits) -> None:
    """Show sentence, map, strip, cards and bars of a finished fit."""
    race, found, known = habits.race, habits.found, habits.known
    shell.finding(sentence(found, known))
    shell.state_key(len(habits.every), habits.names)
    track, along, cost = (make() for make in habits.figures().values())
    left, right = st.columns([0.55, 0.45], gap="small")
    with left, shell.panel("difference-map", f"{found.names[1]} against {found.names[0]}, along the lap"):
        plot(track, key="difference-map", still=True, filename=f"{race.stem}-differences")
        plot(along, key="difference-strips", still=True)
        habits.show_moment()
    with right, shell.panel("prices", "What it costs"):
        plot(cost, key="prices", still=True)
    with right:
        cards = "".join(card_html(race, found, habit, k, len(habits.every)) for k, habit in enumerate(known))
        shell.html(f'<div class="f1-corners" role="list" aria-label="Habits">{cards}</div>')
    shell.quiet(about(habits))


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
    """Return the corners in whose windows most of the price arises; "" without corners."""
    if not race.circuit.segments:
        return ""
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
    place = f"Mostly around {corners}. " if (corners := where(race, found, habit)) else ""
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


def about(habits: Habits) -> str:
    """Describe how the states were chosen, next to the baseline."""
    fitted, n = habits.fitted, len(habits.found.won.pairs)
    ours, theirs = (", ".join(f"{value:.2f}" for value in one) for one in (fitted.agreement, fitted.clusters))
    few = f" Only {n} pairs: small habits cannot be confirmed." if n < FEW else ""
    return (
        f"K = {fitted.states.shape[2]}: the most states whose places return in the pairs kept aside (correlation {ours}; "
        f"k-means {theirs}). Places: where a state is at least {UNUSUAL} times as frequent as over the lap. The rest: everywhere "
        f"else. Confirmed: significant in both halves.{few}"
    )
