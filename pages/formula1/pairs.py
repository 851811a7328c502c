"""The pairs of laps that the whole page compares, chosen once, and the delta by part of the lap over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import cast

import numpy as np
import numpy.typing as npt
import streamlit as st

from datasets import formula1
from datasets.f1.clock import sector_lines
from datasets.f1.corners import PHASES, corner_windows, joint_corners, phases
from datasets.f1.laps import best_laps, is_qualifying, is_race, pairs_around_stops, pairs_in_stints, pairs_of_runs
from datasets.f1.time_won import FEWEST_LAPS, By, minisector_edges
from datasets.formula1 import Session, TimeWon
from pages.formula1.circuit import Circuit, open_circuit
from pages.formula1.comparison import Between, Floats, Gain
from pages.formula1.controls import choose_one
from pages.formula1.data import Laps, Race, laps_of
from pages.formula1.selection import Selection
from pages.formula1.tables import clock
from pages.ui.controls import one_of, switch

CELL_M = 10.0
MEAN, TWO, RUNS, STINT, STOP = "mean", "two", "runs", "stint", "stop"
WAYS = {
    MEAN: "Mean of clean laps",
    RUNS: "Fast laps, run by run",
    STINT: "Early and late in stints",
    STOP: "Before and after stops",
    TWO: "One lap each",
}
HIMSELF = {  # pairs of laps of one driver, names of both sides, and how they are paired
    STINT: (pairs_in_stints, ("early", "late"), "first and second half of stints; fuel and tyres differ"),
    STOP: (pairs_around_stops, ("before", "after"), "before and after stops; fuel and tyres differ"),
    RUNS: (
        lambda session, code: pairs_of_runs(session, code, code),
        ("first", "last"),
        "first and last run of Q1 to Q3",
    ),
}
PAIRED = {"tyre age": "Tyre age", "lap number": "Lap number"}
HOW_PAIRED = "Tyre age: same compound and age, corrected for fuel and track evolution. Lap number: same lap, any tyres."


@lru_cache(maxsize=32)
def between(
    session: Session,
    codes: tuple[str, str],
    selection: Selection,
    by: By = "tyre age",
    keep_close: bool = False,
    pairs: tuple[tuple[int, int], ...] | None = None,
    names: tuple[str, str] | None = None,
    how: str = "",
) -> Between | None:
    """Compare the chosen laps, or given pairs of them; return None if too few have a partner.

    names   of both sides; the codes of the drivers by default
    how     in words, how given pairs are paired
    """
    circuit, lines = open_circuit(session), sector_lines(session)
    official = np.zeros(0) if lines is None else np.array([0, *lines.shares, 1]) * circuit.length
    even = minisector_edges(circuit.length)
    windows = corner_windows(circuit.edges.astype(np.float64), circuit.length) if circuit.segments else even
    grid = np.linspace(0, circuit.length, max(2, round(circuit.length / CELL_M)) + 1)
    edges = np.unique(np.concatenate([grid, even, official, np.mod(windows, circuit.length)])) / circuit.length
    laps = None if pairs else [np.unique(laps_of(session, code, selection).lap).tolist() for code in codes]
    chosen = None if laps is None else (laps[0], laps[1])
    won = formula1.time_won(session, codes, edges, by=by, laps=chosen, keep_close=keep_close, pairs=pairs)
    if won is None:
        return None
    where, gains = middles(circuit, won), dict[str, Gain]()
    joint: tuple[tuple[int, int], ...] = ()
    if circuit.segments:
        gains["phase"] = in_parts(won, PHASES, phases(session, where))
        corner, joint = circuit.nearest_corner(where), joint_corners(session)
        corners = [f"T{name}" for name, *_ in circuit.corners]
        gains["corner"] = in_parts(won, corners, corner)
        whose = np.repeat(np.arange(len(joint)), [last - first + 1 for first, last in joint])
        called = [corners[a] if a == b else f"{corners[a]}–{corners[b]}" for a, b in joint]
        gains["joint"] = in_parts(won, called, whose[corner])
    if len(official):
        gains["sector"] = in_parts(won, ("Sector 1", "Sector 2", "Sector 3"), _stretch(official, where), official)
    named = named_by_place(circuit, even, [str(number) for number in range(1, len(even))])
    gains["minisector"] = in_parts(won, named, _stretch(even, where), even)
    how = how or ("same tyre and age" if by == "tyre age" else "same lap number, tyres may differ")
    return Between(codes, names or codes, won, gains, how, joint)


def usual(session: Session, codes: tuple[str, str], selection: Selection) -> Between | None:
    """Compare laps of equal tyre age, or else of equal number."""
    ways: tuple[By, By] = ("tyre age", "lap number")
    return next((found for by in ways if (found := between(session, codes, selection, by)) is not None), None)


def in_parts(won: TimeWon, names: Sequence[str], part: npt.NDArray[np.int64], edges: Floats | None = None) -> Gain:
    """Sum the delta in parts of the lap; `part` [M] is that of each cell."""
    return Gain.from_estimate(won.sum_parts(np.eye(len(names))[part]), names, edges)


def _stretch(edges: Floats, where: Floats) -> npt.NDArray[np.int64]:
    """Return the part [M] that each position is in."""
    return np.clip(np.searchsorted(edges, where, side="right") - 1, 0, len(edges) - 2)


def middles(circuit: Circuit, won: TimeWon) -> Floats:
    """Return [M] metres from the start line at the middle of each cell."""
    return (won.edges[1:] + won.edges[:-1]) / 2 * circuit.length


def named_by_place(circuit: Circuit, edges: Floats, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of parts with their segments, or their distance without corners."""
    where = circuit.segment_at((edges[1:] + edges[:-1]) / 2)
    if where is None:
        return tuple(f"{a / 1000:.2f}–{b / 1000:.2f} km" for a, b in pairwise(edges))
    return tuple(f"{name}, {circuit.segments[k]}" for name, k in zip(names, where, strict=True))


# ---- the choice -------------------------------------------------------------------------------------------------------
def choose(race: Race) -> Between | None:
    """Show how laps are paired; return the comparison, None without timed laps."""
    pick, codes = race.pick, race.codes
    found = usual(race.session, codes, pick.selection) if is_race(race.session) else None
    ready: dict[str, Callable[[], Between | None]] = {}
    if found is not None:
        ready[MEAN] = lambda: _over_pairs(race, found)
    if codes[0] == codes[1]:
        for way, (find, sides, how) in HIMSELF.items():
            if own := find(race.session, codes[0]):
                names = f"{codes[0]} {sides[0]}", f"{codes[0]} {sides[1]}"
                ready[way] = partial(between, race.session, codes, pick.selection, pairs=own, names=names, how=how)
    elif len(runs := pairs_of_runs(race.session, *codes)) > 1:
        ready[RUNS] = partial(between, race.session, codes, pick.selection, pairs=runs, how="run by run")
    ready[TWO] = lambda: _of_two_laps(race)
    usual_way = TWO if is_qualifying(race.session) and codes[0] != codes[1] else next(iter(ready))
    ways = {way: words for way, words in WAYS.items() if way in ready}
    way = (
        one_of("Laps compared", ways, usual_way, key="shown", as_ids=True, options_key="-".join(ways))
        if len(ways) > 1
        else TWO
    )
    return ready[way]()


def _over_pairs(race: Race, usual: Between) -> Between:
    by = cast(By, one_of("Pair laps by", PAIRED, usual.won.by, key="pair", as_ids=True, help=HOW_PAIRED, row=True))
    close = switch("Keep laps within 1 s of the car ahead", False, key="close", help="DRS and tow change their speed.")
    found = between(race.session, race.codes, race.pick.selection, by, close)
    if found is None:
        st.caption(f"Fewer than {FEWEST_LAPS} clean lap pairs: paired by {usual.won.by}.")
    return found or usual


def _of_two_laps(race: Race) -> Between | None:
    """Show the choice of one lap per driver; return their comparison."""
    numbers: list[int] = []
    for side, laps in zip("ab", (race.train, race.test), strict=True):
        timed = {str(n): f"{n} · {clock(took)}" for n, took in laps_by_time(race, laps)}
        order = list(timed)
        second = side == "b" and race.train.code == race.test.code and len(order) > 1
        first = order[1] if second else next(iter(order), "")
        in_key = f"{laps.code}-{race.pick.selection.laps}-{race.pick.place}"
        lap = choose_one(f"Lap of {laps.code}", f"lap-{side}", timed, first, "Fastest first.", options_key=in_key)
        if not lap:
            return None
        numbers.append(int(lap))
    names = race.codes
    if names[0] == names[1]:
        names = f"{names[0]} {numbers[0]}", f"{names[1]} {numbers[1]}"
    return between(race.session, race.codes, race.pick.selection, pairs=((numbers[0], numbers[1]),), names=names)


def laps_by_time(race: Race, laps: Laps) -> list[tuple[int, float]]:
    """Return (lap, seconds) of a driver's timed laps, best lap of the session first."""
    table = race.session.driver(laps.code).laps
    there = np.isin(table.number, laps.lap) & np.isfinite(table.seconds)
    order = np.argsort(table.seconds[there], kind="stable")
    found = [(int(n), float(s)) for n, s in zip(table.number[there][order], table.seconds[there][order], strict=True)]
    best = {one.number for one in best_laps(race.session) if one.code == laps.code}
    last = max((n for n in best if any(n == number for number, _ in found)), default=None)
    return sorted(found, key=lambda one: one[0] != last) if not is_race(race.session) else found
