"""Delta between two drivers by corner, sector, minisector and state: words and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from datasets.formula1 import TimeWon
from gdm_studio.plot.figures.base import INK, Dict, Figure, axis, cut_to, figure, note, plain, points, typed
from pages.formula1 import teams
from pages.formula1.circuit import Circuit
from pages.formula1.circuit_map import LINE, STATIONS, cursor
from pages.formula1.comparison import KINDS, Between, Gain
from pages.formula1.data import Race
from pages.formula1.driver_states import DriverReading, race_of
from pages.formula1.map_labels import SMALLEST_MAP, lay_out
from pages.formula1.pairs import middles
from pages.formula1.teams import LineStyle
from pages.lab import Undecoded, View, together

Floats = npt.NDArray[np.float64]


def gains_of(
    view: View, found: Between, drivers: Sequence[DriverReading | Undecoded], names: Sequence[str]
) -> Mapping[str, Gain]:
    """Return the deltas by part, including states once both drivers are decoded."""
    known = together(drivers)
    if len(known) < 2:
        return found.gains
    gain: Gain = view.state.memoize(
        ("won-by-state", found.codes, found.won.pairs),
        lambda: in_states(race_of(view).circuit, found.won, known, names),
        inputs=(found, known[0].states, known[1].states),
        settings=tuple(names),
    )
    return {**found.gains, "state": gain}


def in_states(circuit: Circuit, won: TimeWon, drivers: Sequence[DriverReading], names: Sequence[str]) -> Gain:
    """Distribute the delta over states by their mean proportions at each distance."""
    mean = np.mean([driver.average(circuit) for driver in drivers], axis=0)  # [bins, K]
    bins = (np.arange(circuit.n_bins) + 0.5) * circuit.length / circuit.n_bins
    here = np.column_stack([np.interp(middles(circuit, won), bins, share, period=circuit.length) for share in mean.T])
    here /= here.sum(axis=1, keepdims=True)
    shown = names if len(names) == mean.shape[1] else [f"S{k + 1}" for k in range(mean.shape[1])]
    return Gain.from_estimate(won.sum_parts(here), shown)


# ---- words ----------------------------------------------------------------------------------------------------------
def largest(found: Between) -> tuple[Gain, int] | None:
    """Return the delta by braking zone, or else by minisector, and its largest significant part."""
    gain = found.gains.get("joint") or found.gains["minisector"]
    sizes = np.where(gain.sure, np.abs(gain.mean), 0)
    return (gain, int(sizes.argmax())) if sizes.max(initial=0) > 0 else None


def sentence(found: Between, reason: str = "") -> str:
    """Describe the pace difference and the part of the lap that differs most.

    reason   why, such as "later braking"
    """
    whole = found.won.whole
    winner, loser = found.names if whole.mean > 0 else found.names[::-1]
    size, wide = abs(float(whole.mean)), float(whole.margin)
    if found.single and size < 0.0005:
        text = f"{winner} and {loser} took the same time."
    elif found.single:
        text = f"{winner} is {size:.3f} s faster than {loser}."
    elif whole.sure:
        text = f"{winner} is {size:.2f} s/lap faster than {loser} (±{wide:.2f})."
    else:
        text = f"Too close to call: {winner} {size:.2f} s/lap ahead (±{wide:.2f})."
    if (most := largest(found)) is None:
        return f"{text} No part of the lap differs significantly."
    gain, part = most
    return f"{text} Biggest gain: {faster(found, gain, part)} in {gain.names[part]}{f', {reason}' if reason else ''}."


def faster(found: Between, gain: Gain, part: int) -> str:
    """Return who is faster in a part of the lap and by how much, with the interval."""
    who = found.names[0] if gain.mean[part] > 0 else found.names[1]
    unsure = "" if gain.sure[part] else ", could be chance"
    return f"{who} {abs(gain.mean[part]):.3f} s (±{gain.margin[part]:.3f}){unsure}"


def exported(race: Race, found: Between) -> dict[str, Callable[[], Figure]]:
    """Return the figures of the comparison for export."""
    codes, styles = found.names, teams.line_styles(race.session, found.codes)
    by_part = {
        f"Delta by {kind}": partial(bars, codes, gain, kind, styles)
        for kind, gain in found.gains.items()
        if kind in KINDS
    }
    return {"Delta on the map": lambda: gain_map(race.circuit, codes, found.gains["minisector"], styles)} | by_part


def as_table(found: Between) -> pd.DataFrame:
    """Return one row per part of the lap."""
    parts = (
        pd.DataFrame({"Delta by": words, "Part": gain.names, f"{found.names[0]} gains (s/lap)": gain.mean,
                      "95% interval ±": gain.margin, "Significant": np.where(gain.sure, "yes", "")})
        for kind, words in KINDS.items() if (gain := found.gains.get(kind)) is not None
    )  # fmt: skip
    return pd.concat(parts, ignore_index=True)


# ---- figures: differences that are not significant are pale ------------------------------------------------------------
PALE = 0.35  # opacity where the difference is not significant
PALEST = 0.7  # opacity of the smallest significant difference on the map


def _strength(gain: Gain) -> npt.NDArray[np.float64]:
    """Return the opacity per part [P], by the size of the difference."""
    top = np.abs(gain.mean[gain.sure]).max(initial=0)
    share = np.abs(gain.mean) / top if top > 0 else np.zeros(len(gain.mean))
    return np.where(gain.sure, PALEST + (1 - PALEST) * np.clip(share, 0, 1), PALE)


def _hover_text(codes: tuple[str, str], gain: Gain) -> list[str]:
    """Return hover text per part [P]."""
    return [
        f"{plain(name)}<br>{codes[winner]} faster by {abs(mean):.3f} ± {margin:.3f} s/lap"
        + ("" if sure else "<br>could be chance")
        for name, winner, mean, margin, sure in zip(
            gain.names, gain.winners, gain.mean, gain.margin, gain.sure, strict=True
        )
    ]


def gain_map(circuit: Circuit, codes: tuple[str, str], gain: Gain, styles: Sequence[LineStyle]) -> Figure:
    """Draw the track coloured by the faster driver."""
    assert gain.edges is not None
    winners = [styles[winner] for winner in gain.winners]
    traces = draw_stretches(circuit, gain.edges, winners, _strength(gain), _hover_text(codes, gain))
    alt = (
        f"Map of {circuit.title} coloured by the faster driver, {codes[0]} or {codes[1]}, in {len(gain.names)} stretches: "
        f"{_count(gain, codes)}."
    )
    layout = lay_out(circuit, *SMALLEST_MAP)
    marks = {"annotations": layout.corner_names(circuit)} | layout.axes
    key = f"Who is faster: {codes[0]} solid, {codes[1]} dashed. Pale: could be chance."
    return figure(traces, key, alt, 380, phone_height=SMALLEST_MAP[1], cursor=cursor(circuit), **marks)


def bars(codes: tuple[str, str], gain: Gain, what: str, styles: Sequence[LineStyle]) -> Figure:
    """Draw the delta per part in s/lap with 95% intervals."""
    places = list(range(len(gain.names)))
    reach = 1.08 * float((np.abs(gain.mean) + gain.margin).max(initial=0.01))
    above: Dict = {"xref": "paper", "yref": "paper", "yanchor": "bottom", "font": INK}
    sides = [
        note(f"{styles[1].mark('◂')} {codes[1]} faster", 0, 1, xanchor="left", **above),
        note(f"{codes[0]} faster {styles[0].mark('▸')}", 1, 1, xanchor="right", **above),
    ]
    colours = [styles[winner].colour for winner in gain.winners]
    hatched = {"shape": ["/" if winner == 1 else "" for winner in gain.winners], "fillmode": "overlay", "size": 5}
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
    measure = f"Time gained in each {what}" if what in ("state", "habit") else f"Time gained per {KINDS[what].lower()}"
    caption = (
        f"{measure}; bars add up to the lap delta. {codes[1]} is hatched; pale: could be chance; lines: 95% interval."
    )
    alt = f"Seconds per lap that {codes[0]} gains on {codes[1]} in each {what}: {_count(gain, codes)}."
    place: Dict = {"annotations": sides, "margin": {"l": 8, "r": 10, "t": 22, "b": 8}}
    return figure([drawn], caption, alt, 74 + 19 * len(places), **axes, **place)


def _count(gain: Gain, codes: tuple[str, str]) -> str:
    first, second = int((gain.sure & (gain.mean > 0)).sum()), int((gain.sure & (gain.mean < 0)).sum())
    return f"{codes[0]} faster in {first} of {len(gain.names)}, {codes[1]} in {second}, the rest not significant"


def draw_stretches(
    circuit: Circuit,
    edges: npt.NDArray[np.float64],
    styles: Sequence[LineStyle],
    opacity: Iterable[float],
    hover: Sequence[str],
) -> list[Dict]:
    """Return a line for each stretch of the lap between `edges` [M + 1], in the style of its driver."""
    grid = np.linspace(0, circuit.length, len(circuit.line))
    traces: list[Dict] = []
    for start, end, style, strength, text in zip(edges[:-1], edges[1:], styles, opacity, hover, strict=True):
        along = np.unique(np.concatenate([[start], grid[(grid > start) & (grid < end)], [end]]))
        x, y = circuit.position_at(np.minimum(along, circuit.length * (1 - 1e-9))).T
        stations = typed(np.round(along / circuit.length * STATIONS)[:, None] % STATIONS, "u1")
        line = {"color": style.colour, "width": LINE, "dash": "solid" if style.dash == "solid" else "6px,3px"}
        more: Dict = {"customdata": stations, "line": line, "opacity": float(strength), "cliponaxis": False}
        traces.append(points("lines", x, y, text, showlegend=False, **more))
    return traces
