"""Figures of a study: recordings, groups, transitions and power."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.study import Flow, Power, Study
from gdm_core.study.finding import Finding
from gdm_core.study.question import Question
from gdm_core.study.states import MEASURES, SHARES
from gdm_core.study.text import format_value
from gdm_core.text import MINUS
from gdm_core.trials import Trial
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import (
    SMALL,
    Dict,
    Figure,
    axis,
    cut_to,
    figure,
    key_above,
    note,
    plain,
    points,
    shape,
    typed,
)
from gdm_studio.plot.figures.states import state_strips
from pages.ui import legend

STRIP_COLUMNS = 400  # pixels of a strip's resolution
LABELLED_ROWS = 26  # most rows with recording names; above, rows get group names
MOST_CHANNELS = 8  # channels per clip
MOST_COLUMNS = 12  # most states or transitions
OTHERS = "the other states"
# Shape and position distinguish groups; colours belong to states.
SYMBOLS = tuple(f"{kind}{fill}" for kind in ("circle", "diamond", "square", "triangle-up") for fill in ("-open", ""))
INKS = ("$muted", "$accent")
IN_INK: Dict = {"tickfont": {"size": 11, "color": "$ink"}}  # row names
Floats = npt.NDArray[np.float64]


def shown_states(study: Study) -> tuple[list[int], list[str]]:
    """Return the positions of states with their own colour, and the names of all colours."""
    k = len(study.states)
    if k <= palette.MAX_STATES:
        return list(range(k)), [study.state_name(state) for state in study.states]
    usage = np.nan_to_num(study.counts.usage).mean(axis=0)
    most = sorted(np.argsort(-usage)[: palette.MAX_STATES - 1].tolist())
    return most, [*(study.state_name(study.states[place]) for place in most), OTHERS]


def colour_of(study: Study, place: int) -> str:
    """Return the colour of a state by its position."""
    own, names = shown_states(study)
    colours = palette.colours(len(names))
    return colours[own.index(place)] if place in own else colours[-1]


def ordered(study: Study, by: str) -> tuple[list[int], list[str]]:
    """Return the positions of recordings in display order, and their groups."""
    frame, animal = study.conditions, study.sheet.animal
    if not by:
        return list(range(len(frame))), [""] * len(frame)
    keys = frame[[by]] if animal in (None, by) else frame[[by, animal]]
    order = keys.sort_values(list(keys.columns), kind="stable", key=_sortable).index.tolist()
    return order, [word(frame[by].iloc[place]) for place in order]


def _sortable(column: Any) -> Any:
    return column if pd.api.types.is_numeric_dtype(column.dtype) else column.astype(str)


def strips(study: Study, sorted_by: str) -> Figure:
    """Draw one row of states per recording, sorted by a column of the sheet."""
    order, groups = ordered(study, sorted_by)
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
        if apart and row and row in starts:  # empty row between groups
            rows["\u200b" * row] = np.full((1, mine.shape[1]), np.nan, np.float32)
        rows[plain(study.sheet.names[place])] = mine.astype(np.float32)
    height = int(np.clip(15 * len(rows), 90, 560))
    made = state_strips(
        rows, start=bin_s / 120, step=bin_s / 60, unit="minutes", names=names, height=height + 44,
        caption="One row per recording, coloured by state"
        + (f"; sorted by {sorted_by}." if sorted_by else "."),
    )  # fmt: skip
    made["data"][0]["ygap"] = 2 if len(rows) <= 60 else 0
    named = [plain(study.sheet.names[place]) for place in order]
    words = [cut_to(one, 18) for one in drop_common_prefix([study.sheet.names[place] for place in order])]
    if len(order) > LABELLED_ROWS:
        ends = [*starts[1:], len(groups)]
        named = [named[(a + b - 1) // 2] for a, b in zip(starts, ends, strict=True)] if apart else []
        words = [cut_to(groups[a], 14) for a in starts] if apart else []
    made["layout"]["yaxis"] |= {
        "tickvals": named, "ticktext": [plain(one) for one in words], "automargin": True, "ticklabelstandoff": 6,
    } | IN_INK  # fmt: skip
    made["alt"] = f"{len(order)} recordings as strips of their states."
    return legend.with_key(made, {"states": legend.states(len(names), names)})


def drop_common_prefix(names: Sequence[str]) -> list[str]:
    """Return names without the words that all of them begin with."""
    letters = takewhile(lambda column: len(set(column)) == 1, zip(*names, strict=False))
    shared = "".join(column[0] for column in letters) if len(names) > 1 else ""
    start = 1 + max(shared.rfind(mark) for mark in "/_ .-")
    return [name[start:] or name for name in names]


def clips(study: Study, trials: Mapping[str, Trial], found: pd.DataFrame, names: Sequence[str], place: int) -> Figure:
    """Draw the channels of clips side by side on common scales; bouts are shaded."""
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
            look = {"color": "$ink", "width": 1.2}
            traces.append(points("lines", at + np.arange(len(y)) / rate, scaled, line=look, showlegend=False))
        x0, x1 = (at + (edge - first) / rate for edge in (begin, end))
        shapes.append(
            shape(
                "rect", (x0, x1), (0, 1), yref="paper", layer="below", fillcolor=colour_of(study, place), opacity=0.25
            )
        )
        ticks.append(at + len(y) / rate / 2)
        at += len(y) / rate + gap
    more = "" if m == model.n_channels else f" The first {m} of {model.n_channels} channels."
    across = axis(
        tickvals=ticks, ticktext=[plain(cut_to(one, max(7, 100 // n))) for one in names], showgrid=False, range=[-gap, at],
        tickfont={"size": 12, "color": "$ink"},
    )  # fmt: skip
    rows = [plain(cut_to(channel, 16)) for channel in model.channels[:m]]
    up = axis(tickvals=[m - 1 - j + 0.45 for j in range(m)], ticktext=rows, showgrid=False) | IN_INK
    state = study.state_name(study.states[place])
    caption = f"Bouts of {state} (shaded), with half a second around each; all clips on the same scales.{more}"
    alt = f"{n} clips of {state}, {m} channels each."
    return figure(traces, caption, alt, 60 + 44 * m, xaxis=across, yaxis=up, shapes=shapes)


GROUP, IN_WORDS = "group of dots", "group in words"


def word(value: Any) -> str:
    """Format a cell of the sheet."""
    return "nothing" if pd.isna(value) else format_value(value)


def with_groups(question: Question, table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with a column of group names."""
    words = list(zip(*([word(value) for value in table[name]] for name in question.between), strict=True))
    return table.assign(**{GROUP: ["_".join(each) for each in words], IN_WORDS: [", ".join(each) for each in words]})


def groups_of(table: pd.DataFrame) -> list[str]:
    """Return the compared groups in order."""
    return [str(name).removeprefix("mean_") for name in table if str(name).startswith("mean_")]


def dots(study: Study, question: Question, finding: Finding) -> Figure:
    """Draw one dot per animal and state with group means and 95% intervals.

    Of many states or transitions, those with the smallest p are drawn.
    """
    found, per_unit = finding.table, finding.per_unit
    assert found is not None
    assert per_unit is not None
    assert finding.means is not None
    averages = with_groups(question, finding.means)
    measure, factors, unit, groups = question.measure, question.between, str(per_unit.columns[0]), groups_of(found)
    n = len(found) // (1 if "term" not in found else found["term"].nunique())
    sure = found["p"].to_numpy()[:n].argsort(kind="stable")
    shown = sorted(sure[:MOST_COLUMNS].tolist())
    values, words = with_groups(question, per_unit), MEASURES.get(measure, measure)
    each = int(values.groupby([unit, *factors], sort=False).size().iloc[0])
    n_labels = len(values) // max(1, values[GROUP].size // each)
    width = 0.76 / len(groups)
    rng = np.random.default_rng(0)
    table = values.assign(place=np.tile(np.arange(n_labels), len(values) // n_labels))
    table = table[table["place"].isin(shown)]
    at = {place: i for i, place in enumerate(shown)}
    x = table["place"].map(at).to_numpy(np.float64)
    which = table[GROUP].map({name: g for g, name in enumerate(groups)}).to_numpy(np.float64)
    spread = (rng.random(len(table)) - 0.5) * width * 0.45
    table = table.assign(x=x + (which - (len(groups) - 1) / 2) * width + spread)
    traces: list[Dict] = [_joined(table, unit, measure)] if question.within else []
    called = dict(zip(table[GROUP], table[IN_WORDS], strict=True))
    for g, one in enumerate(groups):
        mine, group = table[table[GROUP] == one], called.get(one, one)
        ink = INKS[g % 2]
        traces.append(
            points(
                "markers", mine["x"], mine[measure], f"%{{text}} · {plain(group)}<br>%{{y:.3g}}", showlegend=True,
                name=f"{plain(group)} (n = {mine[unit].nunique()})", text=[plain(str(one)) for one in mine[unit]],
                marker={"symbol": SYMBOLS[g % len(SYMBOLS)], "size": 7, "color": ink, "opacity": 0.75},
            )
        )  # fmt: skip
        known = averages[averages[GROUP] == one].iloc[shown]
        beside = np.arange(len(shown)) + (g - (len(groups) - 1) / 2) * width + width * 0.36
        traces.append(
            points(
                "markers", beside, known["mean"], f"mean of {plain(group)}: %{{y:.3g}}", showlegend=False,
                error_y={"type": "data", "symmetric": False, "array": typed(known["high"] - known["mean"]),
                         "arrayminus": typed(known["mean"] - known["low"]), "color": "$ink", "thickness": 1.6, "width": 0},
                marker={"symbol": "line-ew", "size": 11, "line": {"color": "$ink", "width": 2.6}},
            )
        )  # fmt: skip
    names = found["name"].iloc[shown].tolist()
    own = "state" in table and len(names) == len({*names}) and "all" not in table["state"].tolist()
    bars = [
        shape("rect", (i - 0.44, i + 0.44), (-0.022, -0.004), yref="paper", fillcolor=colour_of(study, place))
        for i, place in enumerate(shown)
    ] if own else []  # fmt: skip
    across = axis(
        tickvals=list(range(len(shown))), ticktext=[plain(cut_to(one, 18)) for one in names], showgrid=False,
        range=[-0.6, len(shown) - 0.4], tickfont={"size": 12, "color": "$ink"}, ticklabelstandoff=6,
    )  # fmt: skip
    up = axis(words, tickformat=".0%" if measure in SHARES else "")
    caption = f"One dot per {study.sheet.subject}; mean and 95% CI per group."
    caption += " Lines join repeated measures." if question.within else ""
    caption += f" The {len(shown)} of {n} with the smallest p." if n > len(shown) else ""
    alt = f"{words} of {len(shown)} states in {len(groups)} groups: {', '.join(groups)}."
    return figure(traces, caption, alt, 360, xaxis=across, yaxis=up, shapes=bars, **key_above(", ".join(factors)))


def _joined(table: pd.DataFrame, unit: str, measure: str) -> Dict:
    x: list[float] = []
    y: list[float] = []
    for _, its in table.groupby([unit, "place"], sort=False):
        its = its.sort_values("x")
        x += [*its["x"].tolist(), np.nan]
        y += [*its[measure].tolist(), np.nan]
    return points("lines", x, y, showlegend=False, line={"color": "$faint", "width": 0.8}, connectgaps=False)


def changes(study: Study, flow: Flow) -> Figure:
    """Draw the difference in transitions between the last and the first group as a matrix."""
    first, *_, last = list(flow.means)
    own, _ = shown_states(study)
    names = [plain(cut_to(study.state_name(study.states[place]), 14)) for place in own]
    z = flow.difference[np.ix_(own, own)]
    np.fill_diagonal(z, np.nan)
    most = float(np.nanmax(np.abs(z))) or 1.0
    small: Dict = {"size": 12, "color": "$muted"}
    title = {"text": plain(f"{flow.unit}, {last} minus {first}"), "side": "right", "font": small}
    cells: Dict = {
        "type": "heatmap", "x": names, "y": names, "z": typed(z), "zmin": -most, "zmax": most,
        "colorscale": [[0, "$bad"], [0.5, "$surface"], [1, "$accent"]], "xgap": 2, "ygap": 2,
        "colorbar": {"thickness": 9, "outlinewidth": 0, "tickfont": {"size": 11, "color": "$muted"}, "title": title},
        "hovertemplate": f"%{{y}} to %{{x}}: %{{z:+.2f}} {flow.unit}<extra></extra>",
        "text": [["" if not abs(one) >= most / 20 else f"{one:+.2g}".replace("-", MINUS) for one in row] for row in z],
        "texttemplate": "%{text}" if len(own) <= 8 else "",
    }  # fmt: skip
    quiet: Dict = {"showgrid": False, "tickfont": {"size": 12, "color": "$ink"}}
    caption = (
        f"Difference in {flow.unit}: positive where there are more in {last} than in {first}"
        + ("." if len(own) == len(study.states) else f"; {len(study.states) - len(own)} rarer states not shown.")
    )  # fmt: skip
    axes: Dict = {"xaxis": axis("to", side="top", **quiet), "yaxis": axis("from", autorange="reversed", **quiet)}
    return figure([cells], caption, f"Differences in mean transitions between {first} and {last}.", 400, **axes)


def over_time(table: pd.DataFrame, groups: Sequence[str], words: str, subject: str) -> Figure:
    """Draw the usage of one state over time with intervals by group."""
    traces: list[Dict] = []
    for g, group in enumerate(groups):
        mine = table[table[GROUP] == group].sort_values("minute")
        ink = INKS[g % 2]
        x, mean, low, high = (mine[name].to_numpy() for name in ("minute", "mean", "low", "high"))
        known = np.isfinite(low) & np.isfinite(high)
        around = np.concatenate([x[known], x[known][::-1]]), np.concatenate([high[known], low[known][::-1]])
        dash = ("solid", "solid", "dot", "dot", "dash", "dash")[g % 6]
        traces += [
            points("lines", *around, fill="toself", fillcolor="$band" if g % 2 else "$grid", line={"width": 0}, opacity=0.6,
                   showlegend=False),
            points("lines+markers", x, mean, f"{plain(group)}, minute %{{x:.3g}}: %{{y:.1%}}", name=plain(group),
                   showlegend=True, line={"color": ink, "width": 2, "dash": dash},
                   marker={"symbol": SYMBOLS[g % len(SYMBOLS)], "size": 7, "color": ink}),
        ]  # fmt: skip
    axes: Dict = {
        "xaxis": axis("time (min)"), "yaxis": axis(words, tickformat=".0%", rangemode="tozero"),
    }  # fmt: skip
    caption = f"Group mean with 95% CI, one value per {subject}."
    return figure(traces, caption, f"{words} over time, by group.", 330, **axes, **key_above())


def power(found: Power, subjects: str) -> Figure:
    """Draw power against the number of animals."""
    n, share = list(found.curve), list(found.curve.values())
    here = max(found.sizes.values())
    diamond: Dict = {"symbol": "diamond", "size": 12, "color": "$ink"}
    drawn = [
        points("lines", n, share, "%{x} per group: %{y:.0%}", line={"color": "$accent", "width": 2}),
        points("markers", [here], [found.power], f"this study: {found.power:.0%}", marker=diamond),
    ]
    dotted: Dict = {"color": "$muted", "width": 1, "dash": "dot"}
    goal = note("80% power", 1, 0.8, xref="paper", xanchor="right", yanchor="bottom", font=SMALL)
    place: Dict = {"shapes": [shape("line", (0, 1), (0.8, 0.8), xref="paper", line=dotted)], "annotations": [goal]}
    across = axis(f"{subjects} per group" if "pairs" not in found.sizes else "pairs")
    up = axis("power", tickformat=".0%", range=[0, 1.04])
    tests = f" after Holm over {found.n_tests} tests" if found.n_tests > 1 else ""
    caption = f"Probability of significance{tests} if the effect exists. Diamond: this study."
    return figure(drawn, caption, "Power against sample size.", 300, xaxis=across, yaxis=up, **place)
