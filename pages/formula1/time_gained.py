"""Delta between two drivers by segment, sector, minisector and state, with uncertainty, and its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import streamlit as st

from datasets import formula1
from datasets.f1.clock import sector_lines
from datasets.f1.time_won import FEWEST_LAPS, By, Estimate, minisector_edges
from datasets.formula1 import LapClock, Session, TimeWon
from gdm_studio.plot.figures.base import (
    Dict,
    Figure,
    axis,
    cut_to,
    figure,
    note,
    plain,
    points,
    typed,
)
from pages.formula1 import data, teams
from pages.formula1.circuit_map import LINE, MARGIN, STATIONS, cursor, map_axes, name_corners, place
from pages.formula1.controls import Observation
from pages.formula1.data import Circuit, DriverReading, Place, Race, race_of
from pages.formula1.teams import LineStyle
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


def exported(view: View, drivers: Sequence[DriverReading], names: Sequence[str]) -> dict[str, Callable[[], Figure]]:
    """Return the figures of the comparison for export."""
    race = race_of(view)
    found = usual_of(race)
    if found is None:
        return {}
    codes, gains = found.codes, gains_of(view, found, drivers, names)
    looks = teams.looks(data.open_session(race.pick.place), codes)
    by_part = {f"Delta by {kind}": partial(bars, codes, gain, kind, looks) for kind, gain in gains.items()}
    return {"Delta on the map": lambda: gain_map(race.circuit, codes, gains["minisector"], looks)} | by_part


# ---- figures: differences that are not significant are pale ------------------------------------------------------------
PALE = 0.35  # opacity where the difference is not significant
PALEST = 0.7  # opacity of the smallest significant difference on the map
SMALLEST_MAP = (300, 300)  # pixels; corner names that are clear here are clear on larger maps


def who(gain: Gain) -> list[int]:
    """Return the faster driver per part [P], significantly or not."""
    return [int(mean < 0) for mean in gain.mean]


def _strength(gain: Gain) -> npt.NDArray[np.float64]:
    """Return the opacity per part [P], by the size of the difference."""
    top = np.abs(gain.mean[gain.sure]).max(initial=0)
    share = np.abs(gain.mean) / top if top > 0 else np.zeros(len(gain.mean))
    return np.where(gain.sure, PALEST + (1 - PALEST) * np.clip(share, 0, 1), PALE)


def _hover_text(codes: tuple[str, str], gain: Gain) -> list[str]:
    """Return hover text per part [P]."""
    return [
        f"{plain(name)}<br>{codes[winner]} faster by {abs(mean):.3f} ± {margin:.3f} s/lap"
        + ("" if sure else "<br>not significant")
        for name, winner, mean, margin, sure in zip(
            gain.names, who(gain), gain.mean, gain.margin, gain.sure, strict=True
        )
    ]


def key(codes: tuple[str, str]) -> str:
    return f"Faster driver: {codes[0]} solid, {codes[1]} dashed. Pale: not significant (95% CI)."


def gain_map(circuit: Circuit, codes: tuple[str, str], gain: Gain, looks: Sequence[LineStyle]) -> Figure:
    """Draw the track coloured by the faster driver."""
    assert gain.edges is not None
    winners = [looks[winner] for winner in who(gain)]
    traces = draw_stretches(circuit, gain.edges, winners, _strength(gain), _hover_text(codes, gain))
    at = place(circuit, SMALLEST_MAP, ())
    alt = (
        f"Map of {circuit.title} coloured by the faster driver, {codes[0]} or {codes[1]}, in {len(gain.names)} stretches: "
        f"{_count(gain, codes)}."
    )
    layout: Dict = {"annotations": name_corners(circuit, at), "margin": MARGIN} | map_axes(at)
    return figure(traces, key(codes), alt, 380, phone_height=SMALLEST_MAP[1], cursor=cursor(circuit), **layout)


def bars(codes: tuple[str, str], gain: Gain, what: str, looks: Sequence[LineStyle]) -> Figure:
    """Draw the delta per part in s/lap with 95% intervals."""
    places = list(range(len(gain.names)))
    reach = 1.08 * float((np.abs(gain.mean) + gain.margin).max(initial=0.01))
    sides = [
        note(f"◂ {codes[1]} faster", 0, 1, xref="paper", yref="paper", xanchor="left", yanchor="bottom",
             font={"size": 12, "color": looks[1].colour}),
        note(f"{codes[0]} faster ▸", 1, 1, xref="paper", yref="paper", xanchor="right", yanchor="bottom",
             font={"size": 12, "color": looks[0].colour}),
    ]  # fmt: skip
    colours = [looks[winner].colour for winner in who(gain)]
    hatched = {"shape": ["/" if winner == 1 else "" for winner in who(gain)], "fillmode": "overlay", "size": 5}
    drawn: Dict = {
        "type": "bar", "orientation": "h", "y": places, "x": typed(gain.mean),
        "error_x": {"type": "data", "array": gain.margin.tolist(), "color": "$ink", "thickness": 1, "width": 2},
        "marker": {"color": colours, "pattern": hatched, "opacity": np.where(gain.sure, 1, PALE).tolist()},
        "customdata": _hover_text(codes, gain), "hovertemplate": "%{customdata}<extra></extra>",
    }  # fmt: skip
    rows: Dict = {"tickvals": places, "ticktext": [plain(cut_to(name, 22)) for name in gain.names]}
    axes: Dict = {
        "xaxis": axis("s/lap", fixedrange=True, zeroline=True, zerolinecolor="$line", range=[-reach, reach], nticks=5),
        "yaxis": axis(**rows, showgrid=False, fixedrange=True, range=[len(places) - 0.4, -0.6]),
    }
    caption = f"Delta per {what} (s/lap), in lap order. {codes[1]} is hatched; pale: not significant; lines: 95% CI."
    alt = f"Seconds per lap that {codes[0]} gains on {codes[1]} in each {what}: {_count(gain, codes)}."
    place: Dict = {"annotations": sides, "margin": {"l": 8, "r": 10, "t": 22, "b": 8}}
    return figure([drawn], caption, alt, 74 + 19 * len(places), **axes, **place)


def _count(gain: Gain, codes: tuple[str, str]) -> str:
    first, second = int((gain.sure & (gain.mean > 0)).sum()), int((gain.sure & (gain.mean < 0)).sum())
    return f"{codes[0]} faster in {first} of {len(gain.names)}, {codes[1]} in {second}, the rest not significant"


def draw_stretches(
    circuit: Circuit,
    edges: npt.NDArray[np.float64],
    looks: Sequence[LineStyle],
    opacity: Iterable[float],
    says: Sequence[str],
) -> list[Dict]:
    """Return a line for each stretch of the lap between `edges` [M + 1], in the look of its driver."""
    grid = np.linspace(0, circuit.length, len(circuit.line))
    traces: list[Dict] = []
    for start, end, look, strength, text in zip(edges[:-1], edges[1:], looks, opacity, says, strict=True):
        along = np.unique(np.concatenate([[start], grid[(grid > start) & (grid < end)], [end]]))
        x, y = circuit.position_at(np.minimum(along, circuit.length * (1 - 1e-9))).T
        stations = typed(np.round(along / circuit.length * STATIONS)[:, None] % STATIONS, "u1")
        line = {"color": look.colour, "width": LINE, "dash": "solid" if look.dash == "solid" else "6px,3px"}
        more: Dict = {"customdata": stations, "line": line, "opacity": float(strength), "cliponaxis": False}
        traces.append(points("lines", x, y, text, showlegend=False, **more))
    return traces
