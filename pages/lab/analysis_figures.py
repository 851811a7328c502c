"""Figures that only recordings with experts need: scores trial by trial, the graph of transitions, components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import Dict, Figure, axis, bare, layout, note, typed
from gdm_studio.plot.figures.states import plain

COLUMNS = (
    ("train", "r2", "fitted trials<br>R²", "persistence"),
    ("test", "r2", "new trials<br>R²", "persistence"),
    ("test", "paper_accuracy", "paper's<br>accuracy", "majority"),
    ("test", "balanced_accuracy", "balanced<br>accuracy", "majority_balanced"),
    ("test", "macro_f1", "macro-F1", "majority_f1"),
)


def trial_scores(found: Mapping[str, Any], height: int = 300) -> Figure:
    """Each trial a dot in each column, beside the line that it has to beat in the same trial."""
    traces: list[Dict] = []
    marks: list[Dict] = []
    shown: list[str] = []
    lowest = 0.0
    for side, field, title, line in COLUMNS:
        rows = [row for row in found[side] if row.get(field) is not None]
        if not rows:
            continue
        at = len(shown)
        shown.append(title)
        values = np.array([row[field] for row in rows], float)
        jitter = np.linspace(-0.16, 0.0, len(rows)) if len(rows) > 1 else np.array([-0.08])
        names = [row["name"] for row in rows]
        traces.append(_dots(at + jitter, values, names, "$accent", "the model"))
        lowest = min(lowest, float(values.min()))
        marks.append(_median(at - 0.24, at + 0.04, float(np.median(values)), "$ink"))
        if line is not None and all(row.get(line) is not None for row in rows):
            known = np.array([row[line] for row in rows], float)
            lowest = min(lowest, float(known.min()))
            traces.append(_dots(at + 0.16 + jitter * 0.6 + 0.06, known, names, "$faint", "to beat"))
            marks.append(_median(at + 0.1, at + 0.32, float(np.median(known)), "$muted"))
    return {
        "data": traces,
        "layout": layout(
            shapes=marks,
            xaxis=axis(
                tickvals=list(range(len(shown))),
                ticktext=shown,
                range=[-0.5, max(len(shown), 1) - 0.5],
                showgrid=False,
                fixedrange=True,
                tickfont={"size": 11, "color": "$ink"},
            ),
            yaxis=axis(range=[max(-0.5, lowest - 0.04), 1.03], fixedrange=True, tickvals=[-0.5, 0, 0.25, 0.5, 0.75, 1]),
        ),
        "caption": "Each dot is one trial, each bar a median. Beside them in grey, on the same trial: the sample before "
        "(R²) and always naming the most common behaviour (accuracies, macro-F1).",
        "alt": f"Scores of {len(found['test'])} new and {len(found['train'])} fitted trials.",
        "height": height,
    }


def _dots(x: npt.ArrayLike, y: npt.ArrayLike, names: Sequence[str], colour: str, who: str) -> Dict:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": typed(x),
        "y": typed(y),
        "customdata": [plain(name) for name in names],
        "marker": {"color": colour, "size": 7, "opacity": 0.8},
        "hovertemplate": f"%{{customdata}}<br>{who} %{{y:.3f}}<extra></extra>",
    }


def _median(x0: float, x1: float, y: float, colour: str) -> Dict:
    return {"type": "line", "x0": x0, "x1": x1, "y0": y, "y1": y, "line": {"color": colour, "width": 2}}


def transition_graph(
    matrix: npt.ArrayLike, usage: npt.ArrayLike, names: Sequence[str], columns: Sequence[int], height: int = 340
) -> Figure:
    """States on a circle, as large as they are used; arrows as thick as the share of moves from one to the next.

    matrix [K, K], usage [K] and names belong to all columns; `columns` are those to draw.
    """
    shares = np.nan_to_num(np.asarray(matrix, float))
    weight = np.nan_to_num(np.asarray(usage, float))
    kept = list(columns)
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(kept)) / max(1, len(kept))
    where = np.column_stack([np.cos(angle), np.sin(angle)])
    colours = palette.colours(shares.shape[0])
    radius = 0.10 + 0.16 * np.sqrt(weight[kept] / max(weight[kept].max(initial=0), 1e-9)) if kept else np.zeros(0)
    arrows: list[Dict] = []
    for i, a in enumerate(kept):
        for j, b in enumerate(kept):
            if i == j or shares[a, b] < 0.05:
                continue
            arrows += arrow(where[i], where[j], radius[i], radius[j], float(shares[a, b]), colours[a])
    marks: list[Dict] = [
        {
            "type": "circle",
            "xref": "x",
            "yref": "y",
            "x0": x - r,
            "x1": x + r,
            "y0": y - r,
            "y1": y + r,
            "fillcolor": colours[k],
            "line": {"width": 0},
        }
        for (x, y), r, k in zip(where.tolist(), radius.tolist(), kept, strict=True)
    ]
    words = [
        note(f"{plain(names[k])} {weight[k]:.0%}", x * (1 + (r + 0.14)), y * (1 + r + 0.1), xref="x", yref="y")
        for (x, y), r, k in zip(where.tolist(), radius.tolist(), kept, strict=True)
    ]
    told = ", ".join(
        f"{names[a]} to {names[b]} {shares[a, b]:.0%}" for a in kept for b in kept if a != b and shares[a, b] >= 0.25
    )
    return {
        "data": [],
        "layout": layout(
            shapes=marks,
            annotations=[*arrows, *words],
            xaxis=bare(range=[-1.75, 1.75], fixedrange=True),
            yaxis=bare(range=[-1.5, 1.5], fixedrange=True, scaleanchor="x", scaleratio=1),
        ),
        "caption": "Circles are as large as their state is used. An arrow takes the colour of the state that is left; "
        "the thicker, the more of its bouts go that way (5 % and more).",
        "alt": f"Graph of transitions between {len(kept)} states. Most moves: {told or 'none'}.",
        "height": height,
        "phone_height": 300,
    }


def arrow(
    start: npt.NDArray[Any], end: npt.NDArray[Any], r0: float, r1: float, share: float, colour: str
) -> list[Dict]:
    """An arrow of a graph of states, beside the line from circle to circle, so that there and back do not cover each other."""
    along = end - start
    length = float(np.hypot(*along))
    unit = along / length
    beside = 0.05 * np.array([-unit[1], unit[0]])
    tail = start + unit * (r0 + 0.03) + beside
    head = end - unit * (r1 + 0.05) + beside
    return [
        {
            "x": float(head[0]),
            "y": float(head[1]),
            "ax": float(tail[0]),
            "ay": float(tail[1]),
            "xref": "x",
            "yref": "y",
            "axref": "x",
            "ayref": "y",
            "text": "",
            "showarrow": True,
            "arrowhead": 2,
            "arrowsize": 0.9 if share > 0.4 else 1.2,
            "arrowwidth": 1 + 4.5 * share,
            "arrowcolor": colour,
            "opacity": 0.35 + 0.6 * share,
        }
    ]


def variance_held(shares: npt.ArrayLike, chosen: int, start: int, height: int = 220) -> Figure:
    """How much of the variance the first components hold, with the dimensions in use marked."""
    held = np.asarray(shares, float)[:30]
    number = np.arange(1, len(held) + 1)
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": typed(number),
                "y": typed(held),
                "line": {"color": "$accent", "width": 1.8},
                "marker": {"size": 6, "color": "$accent"},
                "hovertemplate": "first %{x}: %{y:.1%}<extra></extra>",
            }
        ],
        "layout": layout(
            xaxis=axis("components (D)", showgrid=False, dtick=max(1, len(held) // 10), range=[0.5, len(held) + 0.5]),
            yaxis=axis(range=[0, 1.04], tickformat=".0%", tickvals=[0, 0.5, 0.9, 1], fixedrange=True),
            shapes=[
                {"type": "line", "x0": d, "x1": d, "y0": 0, "y1": 1.04, "line": {"color": colour, "width": 1.5, "dash": dash}}
                for d, colour, dash in ((chosen, "$ink", "solid"), (start, "$faint", "dot"))
            ],
        ),
        "caption": "Share of the variance of the standardised channels. The line: dimensions in use; dotted: where they start.",
        "alt": f"The first {chosen} components hold {held[min(chosen, len(held)) - 1]:.0%} of the variance.",
        "height": height,
    }  # fmt: skip


def scatter(scores: npt.ArrayLike, states: npt.ArrayLike | None, height: int = 260) -> Figure:
    """Samples on their first two components [T, 2], in mixed colours where there are states."""
    xy = np.asarray(scores, np.float32)
    stride = max(1, -(-len(xy) // 3000))
    xy = xy[::stride]
    groups: list[tuple[npt.NDArray[np.bool_], str]] = [(np.ones(len(xy), bool), "$accent")]
    if states is not None:
        buckets = palette.quantise(np.asarray(states)[::stride], limit=24)
        groups = [(buckets.index == b, colour) for b, colour in enumerate(buckets.css)]
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "x": typed(xy[of, 0]),
                "y": typed(xy[of, 1]),
                "marker": {"size": 4, "color": colour},
                "hoverinfo": "skip",
            }
            for of, colour in groups
            if of.any()
        ],
        "layout": layout(
            xaxis=axis("first component", showgrid=False), yaxis=axis("second", showgrid=False, automargin=True)
        ),
        "caption": "Each dot is a moment of the trial, placed by its two strongest components.",
        "alt": f"{len(xy)} moments on their first two principal components.",
        "height": height,
    }
