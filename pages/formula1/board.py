"""The big picture: the map in the colours of the states, and both drivers along the lap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st

from gdm_core.analysis.segments import composition
from pages.formula1 import pictures, segments
from pages.formula1.data import Circuit, along_lap
from pages.formula1.view import Here, Together, View, Where, lap_average
from pages.lab import live
from pages.ui import figures, shell
from pages.ui.figures.base import Figure
from pages.ui.plot import plot


@dataclass(frozen=True)
class Badges:
    """Which states are written beside each segment, as the paper's figure has it."""

    on: bool
    weight: float
    presence: float
    complementary: float
    all_of_them: bool


def annotation_controls() -> Badges:
    """The labels' thresholds, behind one button."""
    with st.popover("Labels", icon=":material/label:"):
        on = st.toggle("States beside each segment", True, key="badges", bind="query-params")
        weight = st.slider(
            "A state counts where it has more than (%)", 1, 50, 1, key="badge-weight", bind="query-params",
            help="The paper counts a state in a sample where its share is above 1 %.",
        )  # fmt: skip
        presence = st.slider(
            "Main states: in more than (% of samples)", 5, 95, 20, 5, key="badge-presence", bind="query-params",
            help="The paper's main figure: 20 %.",
        )  # fmt: skip
        grey = st.toggle(
            "Complementary states in grey", False, key="badge-grey", bind="query-params",
            help="Also those that are present less often, down to 5 % of samples (the paper's appendix).",
        )  # fmt: skip
    return Badges(on, min(max(weight, 1), 50) / 100, min(max(presence, 5), 95) / 100, 0.05, grey)


def map_caption(badge: Badges, marks: Sequence[Any], *, averaged: bool) -> str:
    """How to read the map."""
    what = (
        "The mean state at each place of the lap" if averaged else "Each dot is one sample"
    ) + ", in the mixed colour of its states; faint ones are undecided."
    if not marks:
        return what
    rest = "; the rest in grey" if badge.all_of_them else ""
    return (
        f"{what} On a wide screen, beside each segment its states (weight above {badge.weight:.0%} in more than "
        f"{badge.presence:.0%} of samples), most present first, larger where they weigh more{rest}."
    )


def segment_at(circuit: Circuit, distance: npt.ArrayLike) -> npt.NDArray[np.int64] | None:
    """[T] the segment at each distance along the lap."""
    if not circuit.segments:
        return None
    return np.mod(np.searchsorted(circuit.edges, np.asarray(distance), side="right") - 1, len(circuit.segments))


@dataclass(frozen=True, eq=False)
class Board:
    """What is drawn, for whom, and with which labels. `draw` looks at a picture that may still move."""

    view: View
    which: str
    drawn: str
    badge: Badges

    def draw(self, now: live.Shown) -> None:
        """The map and the strips along the lap."""
        if now.wanted is None or not now.train:
            shell.empty("The first fit is on its way", "The workers start with the server; this takes a few seconds.")
            return
        where: Where = now.wanted.where
        ours, theirs = self.view.of(where.train, "", now), self.view.of(where.test, "other", now)
        here = theirs if self.which == "test" else ours
        if here.states is None:
            shell.empty(f"{where.pick.test} comes in a moment", "The fitted model is applied, nothing is learned anew.")
        else:
            name = ("map", self.which, self.drawn, self.badge)
            plot(
                now.once(name, lambda: self.track_map(where, here), of=(here.states,)),
                key="map",
                state=here.state,
                revision=str(where.pick.place),
            )
        self._strips(now, where, Together.those_of(ours, theirs))
        if here.states is not None:
            plot(
                now.once(("shares", self.which), lambda: shares(where.circuit, here), of=(here.states,)),
                key="shares",
                state=here.state,
                revision=str(where.pick.place),
            )

    def track_map(self, where: Where, here: Here) -> Figure:
        """The map of one driver."""
        assert here.states is not None
        laps, line, badge = here.laps, where.circuit, self.badge
        states, marks = here.states, []
        if laps.segment is not None and badge.on:
            parts = composition(
                states,
                laps.segment,
                len(line.segments),
                weight=badge.weight,
                presence=badge.presence,
                complementary=badge.complementary,
            )
            marks = segments.badges(line, parts, states.shape[1], all_of_them=badge.all_of_them)
        what = f"{laps.code}, {laps.n_laps} lap{'s' * (laps.n_laps > 1)}"
        if self.drawn != "mean":
            return pictures.circuit_map(
                line,
                laps.place,
                states,
                distance=laps.distance,
                lap=laps.lap,
                speed=laps.speed,
                segment=laps.segment,
                badges=marks,
                title=what,
                caption=map_caption(badge, marks, averaged=False),
            )
        around = np.arange(line.n_bins + 1) % line.n_bins  # the line closes where it began
        distance = (around + 0.5) * line.length / line.n_bins
        return pictures.circuit_map(
            line,
            line.at(distance),
            lap_average(line, here)[around],
            distance=distance,
            lap=np.zeros(len(around)),
            speed=along_lap(laps.distance, laps.speed, line.n_bins, line.length)[around],
            segment=segment_at(line, distance),
            badges=marks,
            title=f"{what}, averaged",
            caption=map_caption(badge, marks, averaged=True),
        )

    def _strips(self, now: live.Shown, where: Where, drivers: Together | None) -> None:
        if drivers is None:
            return
        codes = (where.train.code, where.test.code)
        plot(
            now.once("strips", lambda: strips(where.circuit, drivers, codes), of=drivers.states, settings=codes),
            key="strips",
            state=drivers.state,
            revision=str(where.pick.place),
        )


def strips(line: Circuit, together: Together, codes: Sequence[str]) -> Figure:
    """The average lap of each driver; the row of one whose states are still to come stays empty, so that nothing moves."""
    step = line.length / line.n_bins
    known = {here.laps.code: lap_average(line, here) for here in together.drivers}
    nothing = np.full_like(next(iter(known.values())), np.nan)
    figure = figures.state_strips(
        {code: known.get(code, nothing) for code in dict.fromkeys(codes)},
        start=step / 2,
        step=step,
        unit="m",
        ticks=line.ticks,
        caption="The average lap of each driver from line to line; T1, T2, … are corners. Point at it: the map follows.",
    )
    return pictures.without_title(figure)


def shares(line: Circuit, here: Here) -> Figure:
    """Stacked mean shares along the lap."""
    step = line.length / line.n_bins
    figure = figures.proportions(
        lap_average(line, here),
        start=step / 2,
        step=step,
        unit="m",
        ticks=line.ticks,
        height=150,
        caption=f"{here.laps.code}: the mean share of each state at every place of the lap.",
    )
    return pictures.without_title(figure)
