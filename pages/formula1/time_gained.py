"""Delta between two drivers by segment, sector, minisector and state, with uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import streamlit as st

from datasets import formula1
from datasets.f1.clock import sector_lines
from datasets.f1.time_won import FEWEST_LAPS, By, Estimate, minisector_edges
from datasets.formula1 import LapClock, Session, TimeWon
from pages.formula1 import data
from pages.formula1.data import Circuit, DriverReading, Observation, Place, Race, race_of
from pages.lab import Undecoded, View, together

CELL_M = 10.0
KINDS = {"segment": "Segment", "sector": "Sector", "minisector": "Minisector", "state": "State"}

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Gain(Estimate):
    """Seconds per lap that the first driver gains on the second in P parts of the lap.

    names         names of the parts; `edges` [P + 1] in metres, None for states
    """

    names: tuple[str, ...]
    edges: Floats | None = None

    @classmethod
    def from_estimate(cls, won: Estimate, names: Sequence[str], edges: Floats | None = None) -> Gain:
        return cls(won.mean, won.error, won.freedom, tuple(names), edges)

    def most(self, side: float) -> int | None:
        """Return the significant part in which the faster driver gains most (`side` is the sign)."""
        ours = np.where(self.sure, self.mean * side, 0)
        return int(ours.argmax()) if len(ours) and ours.max() > 0 else None


@dataclass(frozen=True, eq=False)
class Gap:
    """Gap between two laps in seconds at shares of the lap."""

    one: LapClock
    other: LapClock

    def behind(self, share: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the seconds [...] by which the other is behind."""
        return self.other.seconds_at(share) - self.one.seconds_at(share)

    def grown(self, first: npt.ArrayLike, last: npt.ArrayLike) -> Estimate:
        """Return the change in gap [...] between shares of the lap, which may cross the start line."""
        a, b = np.asarray(first, float), np.asarray(last, float)
        ends = np.where(b < a, 1.0, b), np.where(b < a, b, 0.0)  # of this lap, and from the line on
        mean = self.behind(ends[0]) - self.behind(a) + self.behind(ends[1])
        variance = sum(
            clock.variance(a, ends[0]) + clock.variance(np.zeros_like(b), ends[1]) for clock in (self.one, self.other)
        )
        return Estimate(mean, np.sqrt(variance), np.full(mean.shape, np.inf))


def named_by_place(circuit: Circuit, edges: Floats, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of parts with their segments, or their distance and share of the lap without corners."""
    where = circuit.segment_at((edges[1:] + edges[:-1]) / 2)
    if where is None:
        return tuple(f"{a:.0f}-{b:.0f} m ({a / circuit.length:.0%})" for a, b in pairwise(edges))
    return tuple(f"{name}, {circuit.segments[k]}" for name, k in zip(names, where, strict=True))


def sectors(session: Session, circuit: Circuit) -> Floats:
    """Return the edges [4] of the official sectors in metres; [0] if unknown."""
    lines = sector_lines(session)
    return np.zeros(0) if lines is None else np.array([0, *lines.shares, 1]) * circuit.length


def cells(circuit: Circuit, more: Floats) -> Floats:
    """Return the edges [M + 1] of the smallest cells, which no larger part divides."""
    even = np.linspace(0, circuit.length, max(2, round(circuit.length / CELL_M)) + 1)
    return np.unique(np.concatenate([even, minisector_edges(circuit.length), circuit.edges.astype(np.float64), more]))


@dataclass(frozen=True, eq=False)
class Between:
    """Clean-lap pairs of two drivers, and the delta by part.

    gains   by key of KINDS, as far as the circuit has such parts
    """

    codes: tuple[str, str]
    won: TimeWon
    gains: Mapping[str, Gain]


@st.cache_resource(max_entries=32, show_spinner=False)
def between(
    place: Place, codes: tuple[str, str], looked: Observation, by: By, keep_close: bool = False
) -> Between | None:
    """Compare the chosen laps; return None if too few have a partner."""
    session, circuit = data.open_session(place), data.circuit(place)
    laps = [np.unique(data.laps_of(place, code, looked).lap).tolist() for code in codes]
    official, even = sectors(session, circuit), minisector_edges(circuit.length)
    edges = cells(circuit, official) / circuit.length
    won = formula1.time_won(session, codes, edges, by=by, laps=(laps[0], laps[1]), keep_close=keep_close)
    if won is None:
        return None
    where, gains = _middles(circuit, won), dict[str, Gain]()
    if (segment := circuit.segment_at(where)) is not None:  # the last one crosses the start line
        gains["segment"] = in_parts(won, circuit.segments, segment)
    if len(official):
        gains["sector"] = in_parts(won, ("Sector 1", "Sector 2", "Sector 3"), _stretch(official, where), official)
    named = named_by_place(circuit, even, [str(number) for number in range(1, len(even))])
    gains["minisector"] = in_parts(won, named, _stretch(even, where), even)
    return Between(codes, won, gains)


def usual(place: Place, codes: tuple[str, str], looked: Observation) -> Between | None:
    """Compare laps of equal tyre age, or else of equal number."""
    ways: tuple[By, By] = ("tyre age", "lap number")
    return next((found for by in ways if (found := between(place, codes, looked, by)) is not None), None)


def usual_of(race: Race) -> Between | None:
    """Compare the reference driver with the comparison driver."""
    return usual(race.pick.place, (race.train.code, race.test.code), race.pick.looked)


def gains_of(
    view: View, found: Between, drivers: Sequence[DriverReading | Undecoded], names: Sequence[str]
) -> Mapping[str, Gain]:
    """Return the deltas by part, including states once both drivers are decoded."""
    known = together(drivers)
    if len(known) < 2:
        return found.gains
    gain: Gain = view.state.memoize(
        ("won-by-state", found.codes, found.won.by),
        lambda: in_states(race_of(view).circuit, found.won, known, names),
        of=(found, known[0].states, known[1].states),
        settings=tuple(names),
    )
    return {**found.gains, "state": gain}


def in_parts(won: TimeWon, names: Sequence[str], of: npt.NDArray[np.int64], edges: Floats | None = None) -> Gain:
    """Sum the delta in parts of the lap; `of` [M] is the part of each cell."""
    return Gain.from_estimate(won.among(np.eye(len(names))[of]), names, edges)


def _stretch(edges: Floats, where: Floats) -> npt.NDArray[np.int64]:
    """Return the part [M] that each position is in."""
    return np.clip(np.searchsorted(edges, where, side="right") - 1, 0, len(edges) - 2)


def in_states(circuit: Circuit, won: TimeWon, drivers: Sequence[DriverReading], names: Sequence[str]) -> Gain:
    """Distribute the delta over states by their mean proportions at each distance."""
    mean = np.mean([driver.average(circuit) for driver in drivers], axis=0)  # [bins, K]
    at = (np.arange(circuit.n_bins) + 0.5) * circuit.length / circuit.n_bins
    here = np.column_stack([np.interp(_middles(circuit, won), at, share, period=circuit.length) for share in mean.T])
    here /= here.sum(axis=1, keepdims=True)
    shown = names if len(names) == mean.shape[1] else [f"S{k + 1}" for k in range(mean.shape[1])]
    return Gain.from_estimate(won.among(here), shown)


def _middles(circuit: Circuit, won: TimeWon) -> Floats:
    return (won.edges[1:] + won.edges[:-1]) / 2 * circuit.length


# ---- words ----------------------------------------------------------------------------------------------------------
def sentence(found: Between, corner: str = "") -> str:
    """Describe the pace difference and where it is significant.

    corner   sentence about the corner that differs most, used instead of segments
    """
    whole, codes, segments = found.won.whole, found.codes, found.gains.get("segment")
    winner, loser = codes if whole.mean > 0 else codes[::-1]
    if whole.sure:
        said = f"{winner} is {abs(whole.mean):.2f} ± {whole.margin:.2f} s/lap quicker than {loser}"
        if corner:
            return f"{said}. {corner}"
        place = None if segments is None else segments.most(float(whole.mean))
        if segments is None or place is None:
            return f"{said}; spread over the lap."
        largest = f"{abs(segments.mean[place]):.2f} ± {segments.margin[place]:.2f} s"
        return f"{said}; largest significant difference in {segments.names[place]} ({largest})."
    said = f"No significant pace difference: {winner} faster by {abs(whole.mean):.2f} ± {whole.margin:.2f} s/lap."
    if corner or segments is None:
        return f"{said} {corner}".strip()
    sure = [c for c in np.argsort(-np.abs(segments.mean)) if segments.sure[c]][:3]
    if not sure:
        return f"{said} No segment differs significantly."
    listed = ", ".join(
        f"{codes[0] if segments.mean[c] > 0 else codes[1]} faster by {abs(segments.mean[c]):.2f} ± "
        f"{segments.margin[c]:.2f} s in {segments.names[c]}"
        for c in sure
    )
    return f"{said} Significant: {listed} (± 95% CI)."


def about_laps(found: Between) -> str:
    """Describe which laps were compared."""
    codes, won, trend = found.codes, found.won, found.won.trend
    close = ""
    if won.n_close:
        close = (
            f" {won.n_close} laps within 1 s of the car ahead left out."
            if won.free
            else f" Fewer than {FEWEST_LAPS} pairs without laps within 1 s of the car ahead: all laps are shown."
        )
    if won.by == "lap number":
        return f"{len(won.pairs)} clean-lap pairs with the same lap number: similar fuel, tyre age may differ.{close}"
    said = f"{len(won.pairs)} clean-lap pairs on tyres of the same compound and age.{close}"
    if trend is None or abs(won.later) < 0.05:
        return said
    return (
        f"{said} {codes[0]}'s are {abs(won.later):.1f} laps {'later' if won.later > 0 else 'earlier'} on average, so "
        f"{abs(won.taken_off):.2f} s/lap is {'subtracted' if won.taken_off > 0 else 'added'}: lap times change by "
        f"{trend.lap:+.3f} s per lap of the race (fuel, track)."
    )
