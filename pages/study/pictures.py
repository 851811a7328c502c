"""Figures of a study: all recordings as strips, animals as dots, what changes into what, and how many animals it would take."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.study import Flow, Power, Study
from gdm_core.study.states import SHARES
from gdm_core.trials import Trial
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import Dict, Figure, axis, bare, layout, note, plain, typed
from gdm_studio.plot.figures.strips import state_strips
from pages.lab.analysis_figures import arrow
from pages.ui.exports import legend

STRIP_COLUMNS = 400  # of a strip: more than its few pixels of height let an eye tell apart
LABELLED_ROWS = 26  # strips whose recordings are named at their left; of more, groups are
MOST_ARROWS = 12  # of the graph of changes
MOST_CHANNELS = 8  # that clips show
MOST_COLUMNS = 12  # states or changes that dots are drawn for
OTHERS = "the other states"
MINUS = "\N{MINUS SIGN}"  # a hyphen before a number is taken for the beginning of a formula elsewhere
# Groups are told apart by shape and place, not by colour, which belongs to states.
SYMBOLS = (
    "circle-open",
    "circle",
    "diamond-open",
    "diamond",
    "square-open",
    "square",
    "triangle-up-open",
    "triangle-up",
)
INKS = ("$muted", "$accent")
Floats = npt.NDArray[np.float64]


def shown_states(study: Study) -> tuple[list[int], list[str]]:
    """(places of the states that have a colour of their own, names of all colours): of many states, those used most."""
    k = len(study.states)
    if k <= palette.MAX_STATES:
        return list(range(k)), [study.called(state) for state in study.states]
    usage = np.nan_to_num(study.counts.usage).mean(axis=0)
    most = sorted(np.argsort(-usage)[: palette.MAX_STATES - 1].tolist())
    return most, [*(study.called(study.states[place]) for place in most), OTHERS]


def colour_of(study: Study, place: int) -> str:
    """The colour of a state, by its place among the states."""
    own, names = shown_states(study)
    colours = palette.colours(len(names))
    return colours[own.index(place)] if place in own else colours[-1]


def strips(study: Study, order: Sequence[int], groups: Sequence[str], sorted_by: str) -> Figure:
    """All recordings, one a row. `order` are their places, `groups` what each row of it belongs to."""
    longest = max(one.n_samples / one.rate_hz for one in study.counts.recordings)
    bin_s = longest / STRIP_COLUMNS
    shares = study.counts.usage_over_time(bin_s)
    own, names = shown_states(study)
    starts = [i for i, group in enumerate(groups) if i == 0 or group != groups[i - 1]]
    apart = bool(sorted_by) and len(starts) <= LABELLED_ROWS
    rows: dict[str, Any] = {}
    for row, place in enumerate(order):
        mine = shares[place][:, own]
        if len(names) > len(own):
            mine = np.hstack([mine, np.maximum(0.0, 1 - mine.sum(axis=1, keepdims=True))])
        if apart and row and row in starts:  # an empty row between two groups
            rows["\u200b" * row] = np.full((1, mine.shape[1]), np.nan, np.float32)
        rows[plain(study.sheet.names[place])] = mine.astype(np.float32)
    height = int(np.clip(15 * len(rows), 90, 560))
    made = state_strips(
        rows, start=bin_s / 120, step=bin_s / 60, unit="minutes", names=names, height=height + 44,
        caption="One recording a row, time to the right, in the colours of its states"
        + (f"; rows by {sorted_by}." if sorted_by else "."),
    )  # fmt: skip
    made["data"][0]["ygap"] = 2 if len(rows) <= 60 else 0
    named = [plain(study.sheet.names[place]) for place in order]
    words = [_short(one, 18) for one in _apart([study.sheet.names[place] for place in order])]
    if len(order) > LABELLED_ROWS:
        ends = [*starts[1:], len(groups)]
        named = [named[(a + b - 1) // 2] for a, b in zip(starts, ends, strict=True)] if apart else []
        words = [_short(groups[a], 14) for a in starts] if apart else []
    made["layout"]["yaxis"] |= {
        "tickvals": named, "ticktext": [plain(one) for one in words], "automargin": True, "ticklabelstandoff": 6,
        "tickfont": {"size": 11, "color": "$ink"},
    }  # fmt: skip
    made["alt"] = f"{len(order)} recordings as strips of their states."
    return legend.with_key(made, {"states": legend.states(len(names), names)})


def clips(study: Study, trials: Mapping[str, Trial], found: pd.DataFrame, names: Sequence[str], place: int) -> Figure:
    """Channels of clips, one clip beside the other on the same scales; the bout itself stands in the colour of its state."""
    model = trials[found["recording"].iloc[0]]
    n, m, gap = len(found), min(model.n_channels, MOST_CHANNELS), 0.12
    places: list[tuple[Any, ...]] = [tuple(row) for row in found.to_numpy().tolist()]
    parts = [trials[name].y[first:after, :m] for name, first, after, _, _ in places]
    low, high = np.nanmin(np.concatenate(parts), axis=0), np.nanmax(np.concatenate(parts), axis=0)
    traces, shapes, at = [], [], 0.0
    ticks: list[float] = []
    for (name, first, _, begin, end), y in zip(places, parts, strict=True):
        rate = trials[name].rate_hz
        for j in range(m):
            scaled = m - 1 - j + 0.9 * (y[:, j] - low[j]) / max(float(high[j] - low[j]), 1e-9)
            traces.append({"type": "scatter", "mode": "lines", "x": typed(at + np.arange(len(y)) / rate), "y": typed(scaled),
                           "line": {"color": "$ink", "width": 1.2}, "hoverinfo": "skip", "showlegend": False})  # fmt: skip
        x0, x1 = (at + (edge - first) / rate for edge in (begin, end))
        shapes.append({"type": "rect", "xref": "x", "yref": "paper", "x0": x0, "x1": x1, "y0": 0, "y1": 1, "layer": "below",
                       "fillcolor": colour_of(study, place), "opacity": 0.25, "line": {"width": 0}})  # fmt: skip
        ticks.append(at + len(y) / rate / 2)
        at += len(y) / rate + gap
    more = "" if m == model.n_channels else f" The first {m} of {model.n_channels} channels."
    return {
        "data": traces,
        "layout": layout(
            xaxis=axis(tickvals=ticks, ticktext=[plain(_short(one, max(7, 100 // n))) for one in names], showgrid=False,
                       range=[-gap, at], tickfont={"size": 12, "color": "$ink"}),
            yaxis=axis(tickvals=[m - 1 - j + 0.45 for j in range(m)], ticktext=[plain(_short(c, 16)) for c in model.channels[:m]],
                       showgrid=False, tickfont={"size": 11, "color": "$ink"}, automargin=True),
            shapes=shapes,
        ),
        "caption": f"Bouts of {study.called(study.states[place])} (shaded), with half a second around each; all clips on the same "
        f"scales.{more}",
        "alt": f"{n} clips of {study.called(study.states[place])}, {m} channels each.",
        "height": 60 + 44 * m,
    }  # fmt: skip


def _apart(names: Sequence[str]) -> list[str]:
    """Names without the beginning and the ending that all share: what is left tells them apart."""
    if len(set(names)) < 2:
        return list(names)
    front = _shared(names)
    begin = 1 + max(front.rfind(mark) for mark in "_-. /")
    end = _shared([name[::-1] for name in names]).find(".") + 1  # as a whole, never a digit of a number
    return [name[begin : len(name) - end] or name for name in names]


def _shared(names: Sequence[str]) -> str:
    same = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in same)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def dots(
    study: Study, values: pd.DataFrame, measure: str, words: str, unit: str, factors: Sequence[str], groups: Sequence[str],
    paired: bool, shown: Sequence[int],
) -> Figure:  # fmt: skip
    """A dot an animal, state by state: beside it the mean of each group with its 95 % interval, paired ones joined.

    values   as `Study.per_unit` gives them
    words    of the measure
    unit     what a dot is
    factors  columns that are compared
    groups   their values in order, as `values["group of dots"]` has them
    shown    rows of the comparison that are drawn, as places among the labels
    """
    each = int(values.groupby([unit, *factors], sort=False).size().iloc[0])
    n_labels = len(values) // max(1, values[GROUP].size // each)
    width = 0.76 / len(groups)
    rng = np.random.default_rng(0)
    table = values.assign(place=np.tile(np.arange(n_labels), len(values) // n_labels))
    table = table[table["place"].isin(list(shown))]
    at = {place: i for i, place in enumerate(shown)}
    x = table["place"].map(at).to_numpy(np.float64)
    which = table[GROUP].map({name: g for g, name in enumerate(groups)}).to_numpy(np.float64)
    spread = (rng.random(len(table)) - 0.5) * width * 0.45
    table = table.assign(x=x + (which - (len(groups) - 1) / 2) * width + spread)
    traces: list[Dict] = [_joined(table, unit, measure)] if paired else []
    called = dict(zip(table[GROUP], table[SAID], strict=True))
    for g, one in enumerate(groups):
        mine, group = table[table[GROUP] == one], called.get(one, one)
        ink = INKS[g % 2]
        traces.append(
            {
                "type": "scatter", "mode": "markers", "showlegend": True,
                "name": f"{plain(group)} (n = {mine[unit].nunique()})",
                "x": typed(mine["x"]), "y": typed(mine[measure]),
                "text": [plain(str(one)) for one in mine[unit]],
                "marker": {"symbol": SYMBOLS[g % len(SYMBOLS)], "size": 7, "color": ink, "opacity": 0.75},
                "hovertemplate": f"%{{text}} · {plain(group)}<br>%{{y:.3g}}<extra></extra>",
            }
        )  # fmt: skip
        means, halves = _means(mine, measure, len(shown), at)
        traces.append(
            {
                "type": "scatter", "mode": "markers", "showlegend": False,
                "x": typed(np.arange(len(shown)) + (g - (len(groups) - 1) / 2) * width + width * 0.36),
                "y": typed(means),
                "error_y": {"type": "data", "array": typed(halves), "color": "$ink", "thickness": 1.6, "width": 0},
                "marker": {"symbol": "line-ew", "size": 11, "line": {"color": "$ink", "width": 2.6}},
                "hovertemplate": f"mean of {plain(group)}: %{{y:.3g}}<extra></extra>",
            }
        )  # fmt: skip
    names = [label_of(study, table[table["place"] == place].iloc[0]) for place in shown]
    own = "state" in table and len(names) == len({*names}) and "all" not in table["state"].tolist()
    bars = [
        {"type": "rect", "xref": "x", "yref": "paper", "x0": i - 0.44, "x1": i + 0.44, "y0": -0.022, "y1": -0.004,
         "fillcolor": colour_of(study, place), "line": {"width": 0}}
        for i, place in enumerate(shown)
    ] if own else []  # fmt: skip
    joined = " Lines join the same one." if paired else ""
    return {
        "data": traces,
        "layout": layout(
            xaxis=axis(tickvals=list(range(len(shown))), ticktext=[plain(_short(one, 18)) for one in names], showgrid=False,
                       range=[-0.6, len(shown) - 0.4], tickfont={"size": 12, "color": "$ink"}, ticklabelstandoff=6),
            yaxis=axis(words, tickformat=".0%" if measure in SHARES else ""),
            shapes=bars,
            margin={"l": 8, "r": 8, "t": 30, "b": 8},
            showlegend=True,
            legend=_legend(", ".join(factors)),
        ),
        "caption": f"A dot is one {unit}. Beside each group its mean and 95 % interval.{joined}",
        "alt": f"{words} of {len(shown)} states in {len(groups)} groups: {', '.join(groups)}.",
        "height": 330,
    }  # fmt: skip


GROUP, SAID = "group of dots", "group in words"


def _legend(title: str) -> Dict:
    place: Dict = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": "$clear"}
    return place | ({"title": {"text": f"{plain(title)}  ", "side": "left", "font": {"size": 12}}} if title else {})


def label_of(study: Study, row: Any) -> str:
    """What a row of a comparison is about."""
    if "to_state" in row:
        return f"{study.called(row['from_state'])} to {study.called(row['to_state'])}"
    return "whole recording" if row["state"] == "all" else study.called(row["state"])


def _means(mine: pd.DataFrame, measure: str, n: int, at: Mapping[int, int]) -> tuple[Floats, Floats]:
    from scipy import stats

    means, halves = np.full(n, np.nan), np.full(n, np.nan)
    for place, i in at.items():
        known = mine.loc[mine["place"] == place, measure].dropna().to_numpy(np.float64)
        if len(known):
            means[i] = known.mean()
        if len(known) > 1:
            halves[i] = stats.t.ppf(0.975, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known))
    return means, halves


def _joined(table: pd.DataFrame, unit: str, measure: str) -> Dict:
    x: list[float] = []
    y: list[float] = []
    for _, its in table.groupby([unit, "place"], sort=False):
        its = its.sort_values("x")
        x += [*its["x"].tolist(), np.nan]
        y += [*its[measure].tolist(), np.nan]
    return {
        "type": "scatter", "mode": "lines", "x": typed(x), "y": typed(y), "hoverinfo": "skip", "showlegend": False,
        "line": {"color": "$faint", "width": 0.8}, "connectgaps": False,
    }  # fmt: skip


def changes(study: Study, flow: Flow) -> Figure:
    """What the last group changes more often than the first: from the row's state to the column's."""
    first, *_, last = list(flow.means)
    own, _ = shown_states(study)
    names = [plain(_short(study.called(study.states[place]), 14)) for place in own]
    z = flow.difference[np.ix_(own, own)]
    np.fill_diagonal(z, np.nan)
    most = float(np.nanmax(np.abs(z))) or 1.0
    return {
        "data": [
            {
                "type": "heatmap", "x": names, "y": names, "z": typed(z), "zmin": -most, "zmax": most,
                "colorscale": [[0, "$bad"], [0.5, "$surface"], [1, "$accent"]], "xgap": 2, "ygap": 2,
                "colorbar": {"thickness": 9, "outlinewidth": 0, "tickfont": {"size": 11, "color": "$muted"},
                             "title": {"text": plain(f"changes a recording, {last} minus {first}"), "side": "right",
                                       "font": {"size": 12, "color": "$muted"}}},
                "hovertemplate": "%{y} to %{x}: %{z:+.2f} a recording<extra></extra>",
                "text": [["" if not abs(one) >= 0.05 else f"{one:+.1f}".replace("-", MINUS) for one in row] for row in z],
                "texttemplate": "%{text}" if len(own) <= 8 else "",
            }
        ],
        "layout": layout(
            xaxis=axis("to", side="top", showgrid=False, tickfont={"size": 12, "color": "$ink"}),
            yaxis=axis("from", autorange="reversed", showgrid=False, tickfont={"size": 12, "color": "$ink"}),
        ),
        "caption": f"Changes a recording that {last} makes more often than {first} (blue), or less often (red). Their sizes add "
        f"up to the distance of the flow test{'' if len(flow.means) == 2 else ' between these two'}"
        + ("." if len(own) == len(study.states) else f", with {len(study.states) - len(own)} rarer states that are not drawn."),
        "alt": f"Differences of mean changes between {first} and {last}.",
        "height": 400,
    }  # fmt: skip


def graph(study: Study, flow: Flow) -> Figure:
    """The same as a graph: states on a circle, and the arrows whose changes differ most between the first and the last group."""
    first, *_, last = list(flow.means)
    own, names = shown_states(study)
    weight = np.nan_to_num(study.counts.usage).mean(axis=0)[own]
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(own)) / len(own)
    where = np.column_stack([np.cos(angle), np.sin(angle)])
    radius = 0.1 + 0.14 * np.sqrt(weight / max(float(weight.max()), 1e-9))
    z = flow.difference[np.ix_(own, own)]
    np.fill_diagonal(z, 0.0)
    most = float(np.abs(z).max()) or 1.0
    arrows: list[Dict] = []
    for place in np.argsort(-np.abs(z), axis=None)[:MOST_ARROWS]:
        a, b = divmod(int(place), len(own))
        share = float(abs(z[a, b])) / most
        if share > 0.05:
            arrows += arrow(where[a], where[b], radius[a], radius[b], share, "$accent" if z[a, b] > 0 else "$bad")
    circles = [
        {"type": "circle", "xref": "x", "yref": "y", "x0": x - r, "x1": x + r, "y0": y - r, "y1": y + r,
         "fillcolor": colour_of(study, place), "line": {"width": 0}}
        for (x, y), r, place in zip(where.tolist(), radius.tolist(), own, strict=True)
    ]  # fmt: skip
    words = [
        note(
            plain(_short(name, 14)),
            x * (1.05 + r),
            y * (1.08 + r),
            xref="x",
            yref="y",
            yanchor="middle",
            xanchor="left" if x > 0.1 else "right" if x < -0.1 else "center",
        )
        for (x, y), r, name in zip(where.tolist(), radius.tolist(), names, strict=False)
    ]
    signs = [(f"more in {last}", "$accent", 1.0), (f"less in {last}", "$bad", 0.93)]
    words += [note(plain(text), 0, y, xref="paper", yref="paper", xanchor="left", yanchor="top",
                   font={"size": 12, "color": ink}) for text, ink, y in signs]  # fmt: skip
    return {
        "data": [],
        "layout": layout(
            shapes=circles, annotations=[*arrows, *words],
            xaxis=bare(range=[-1.8, 1.8], fixedrange=True),
            yaxis=bare(range=[-1.5, 1.5], fixedrange=True, scaleanchor="x", scaleratio=1),
        ),
        "caption": f"Arrows: what {last} does more often than {first} (blue) or less often (red), the thicker the more; of many "
        f"the {MOST_ARROWS} largest. Circles are as large as their state is used.",
        "alt": f"Graph of the changes that differ most between {first} and {last}.",
        "height": 400,
        "phone_height": 320,
    }  # fmt: skip


def over_time(table: pd.DataFrame, groups: Sequence[str], words: str) -> Figure:
    """Usage of one state by the minute: `table` has group of dots, minute, mean and half."""
    traces: list[Dict] = []
    for g, group in enumerate(groups):
        mine = table[table[GROUP] == group].sort_values("minute")
        ink = INKS[g % 2]
        x, mean, half = (mine[name].to_numpy() for name in ("minute", "mean", "half"))
        known = np.isfinite(half)
        high, low = np.minimum(mean + half, 1)[known], np.maximum(mean - half, 0)[known]
        traces.append(
            {"type": "scatter", "mode": "lines", "x": typed(np.concatenate([x[known], x[known][::-1]])),
             "y": typed(np.concatenate([high, low[::-1]])), "fill": "toself",
             "fillcolor": "$band" if g % 2 else "$grid", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False,
             "opacity": 0.6}
        )  # fmt: skip
        traces.append(
            {"type": "scatter", "mode": "lines+markers", "name": plain(group), "showlegend": True, "x": typed(x),
             "y": typed(mean), "line": {"color": ink, "width": 2, "dash": ("solid", "solid", "dot", "dot", "dash", "dash")[g % 6]},
             "marker": {"symbol": SYMBOLS[g % len(SYMBOLS)], "size": 7, "color": ink},
             "hovertemplate": f"{plain(group)}, minute %{{x:.3g}}: %{{y:.1%}}<extra></extra>"}
        )  # fmt: skip
    return {
        "data": traces,
        "layout": layout(
            xaxis=axis("minutes since the recording began"), yaxis=axis(words, tickformat=".0%", rangemode="tozero"),
            margin={"l": 8, "r": 8, "t": 30, "b": 8}, showlegend=True,
            legend=_legend(""),
        ),
        "caption": "The mean of each group with its 95 % interval, an animal counting once.",
        "alt": f"{words} over time, by group.",
        "height": 330,
    }  # fmt: skip


def power(found: Power) -> Figure:
    """The share of studies that would find the difference, against how many animals they have."""
    n, share = list(found.curve), list(found.curve.values())
    here = max(found.sizes.values())
    return {
        "data": [
            {"type": "scatter", "mode": "lines+markers", "x": n, "y": share, "line": {"color": "$accent", "width": 2},
             "marker": {"size": 6, "color": "$accent"}, "hovertemplate": "%{x} a group: %{y:.0%}<extra></extra>"},
            {"type": "scatter", "mode": "markers", "x": [here], "y": [found.power],
             "marker": {"symbol": "diamond", "size": 12, "color": "$ink"},
             "hovertemplate": f"this study: {found.power:.0%}<extra></extra>"},
        ],
        "layout": layout(
            xaxis=axis("animals a group" if "pairs" not in found.sizes else "pairs"),
            yaxis=axis("studies that find it", tickformat=".0%", range=[0, 1.04]),
            shapes=[{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 0.8, "y1": 0.8,
                     "line": {"color": "$muted", "width": 1, "dash": "dot"}}],
            annotations=[note("four studies of five", 1, 0.8, xref="paper", xanchor="right", yanchor="bottom",
                              font={"size": 11, "color": "$muted"})],
        ),
        "caption": "How often such a study would come to p < .05 if the difference is there. The diamond is this one.",
        "alt": "Power against the number of animals.",
        "height": 300,
    }  # fmt: skip
