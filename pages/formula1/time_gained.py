"""Where time is won: the same laps of a race by two drivers, segment by segment, with how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datasets.formula1 import LapClock, Session, lap_clock
from pages.formula1.data import Circuit, Laps
from pages.ui.figures.base import Figure, axis, layout, typed

FEWEST_LAPS = 5
SURE = 1.96
SURE_OF_MANY = 3.0  # standard errors: among some twenty segments, chance alone would name one at two

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Gain:
    """Seconds a lap that the first driver wins on the second, over laps that both drove undisturbed.

    mean, error   [C] of each segment, with its standard error: over laps, and of clocks between official times
    whole         (mean, standard error) of the lap
    """

    laps: int
    mean: Floats
    error: Floats
    whole: tuple[float, float]


def measured(session: Session, circuit: Circuit, one: Laps, other: Laps) -> Gain | None:
    """From all laps of the same number that both drove cleanly; None where they are too few, or nothing has a name."""
    both = np.intersect1d(_clean(session, one), _clean(session, other))
    pairs = [(lap_clock(session, one.code, int(n)), lap_clock(session, other.code, int(n))) for n in both]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(known) < FEWEST_LAPS or len(circuit.segments) < 2 or one.code == other.code:
        return None
    won = np.stack([_segments(circuit, b) - _segments(circuit, a) for a, b in known])  # [L, C]
    root = np.sqrt(len(won))
    # What the clock itself leaves open between official times is much the same on every lap of a driver: no mean of laps
    # makes it smaller.
    clock = np.mean([_variance(circuit, a) + _variance(circuit, b) for a, b in known], axis=0)
    whole = won.sum(axis=1)
    return Gain(
        len(won),
        won.mean(axis=0),
        np.sqrt(won.var(axis=0, ddof=1) / len(won) + clock),
        (float(whole.mean()), float(whole.std(ddof=1) / root)),
    )


def _clean(session: Session, laps: Laps) -> npt.NDArray[np.int64]:
    """Numbers of the chosen laps that nothing disturbed."""
    table = session.driver(laps.code).laps
    clean = table.accurate & np.isfinite(table.seconds) & ~(table.pit_in | table.pit_out | table.neutralised)
    return np.asarray(table.number[clean & np.isin(table.number, laps.lap)], np.int64)


def _segments(circuit: Circuit, clock: LapClock) -> Floats:
    """[C] seconds in each segment; the last one runs over the start line."""
    at = clock.at(circuit.edges / circuit.length)
    lap = float(clock.at(1.0) - clock.at(0.0))
    return np.append(np.diff(at), lap - (at[-1] - at[0]))


def _variance(circuit: Circuit, clock: LapClock) -> Floats:
    """[C] squared seconds that the clock is unsure by in each segment."""
    edges = circuit.edges / circuit.length
    over_line = clock.variance(edges[-1], 1.0) + clock.variance(0.0, edges[0])
    return np.append(clock.variance(edges[:-1], edges[1:]), over_line)


def sentence(circuit: Circuit, codes: tuple[str, str], gain: Gain) -> str:
    """The finding: who is ahead by how much a lap, and in which segments beyond chance."""
    whole, error = gain.whole
    winner, loser = codes if whole >= 0 else codes[::-1]
    over = f"over {gain.laps} laps that both drove undisturbed"
    if abs(whole) <= SURE * error:
        lead = f"Neither gains on the other {over}: {whole:+.3f} ± {SURE * error:.3f} s a lap for {codes[0]}"
    else:
        lead = f"{winner} gains {abs(whole):.2f} ± {SURE * error:.2f} s a lap on {loser} {over}"
    sure = [c for c in np.argsort(-np.abs(gain.mean)) if abs(gain.mean[c]) > SURE_OF_MANY * gain.error[c]][:3]
    if not sure:
        return f"{lead}; no segment stands out beyond chance."
    listed = ", ".join(
        f"{codes[0] if gain.mean[c] > 0 else codes[1]} {abs(gain.mean[c]):.2f} ± {SURE * gain.error[c]:.2f} s in "
        f"{circuit.segments[c]}"
        for c in sure
    )
    return f"{lead}. Most of all: {listed} (± 95 %)."


def bars(circuit: Circuit, codes: tuple[str, str], gain: Gain) -> Figure:
    """Seconds a lap in each segment, with 95 % of what laps and clocks leave open."""
    return {
        "data": [
            {
                "type": "bar",
                "x": list(circuit.segments),
                "y": typed(gain.mean),
                "error_y": {"type": "data", "array": (SURE * gain.error).tolist(), "color": "$ink", "thickness": 1},
                "marker": {"color": "$accent"},
                "hovertemplate": "%{x}: %{y:+.3f} s a lap<extra></extra>",
            }
        ],
        "layout": layout(
            xaxis=axis(tickangle=-50),
            yaxis=axis("s", fixedrange=True, zeroline=True, zerolinecolor="$line"),
            margin={"l": 52, "r": 12, "t": 8, "b": 64},
        ),
        "caption": f"Above zero {codes[0]} wins time on {codes[1]}. Laps of the same number, so that both carry alike much "
        "fuel; their tyres may differ in age.",
        "alt": f"Seconds a lap that {codes[0]} wins on {codes[1]} in each of {len(circuit.segments)} segments.",
        "height": 200,
    }
