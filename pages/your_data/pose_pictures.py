"""Poses before anything is fitted: what is wrong with them, part by part over time, and one pose with the names of its parts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from datasets.calms21 import EDGES, PARTS
from datasets.keypoints import KeypointTable
from datasets.readers.quality import identity_swaps, outlier_mask, side_flips
from gdm_studio.plot.figures.base import (
    FINE,
    Dict,
    Figure,
    axis,
    figure,
    framed,
    note,
    plain,
    points,
    rows_axis,
    shape,
    typed,
)
from gdm_studio.plot.figures.states import numbered_colours

# Number in the picture: (word, colour). A cell shows the one that most of its frames have.
KINDS: dict[int, tuple[str, str]] = {
    1: ("not tracked", "#8a8fa0"),
    2: ("low score", "#ff874b"),
    3: ("jumps", "#e1000f"),
    4: ("left and right changed", "#7887ff"),
    5: ("animals changed", "#1e784b"),
}
LEVELS = ((0.05, "66"), (0.5, "aa"), (1.0, "ff"))  # up to this share of the frames, this opacity
COLUMNS = 240
ROW_PX = 13


def problems_in(table: KeypointTable, min_score: float) -> npt.NDArray[np.uint8]:
    """[T, A, P] the kind of problem of each part at each moment, 0 for none."""
    xy = np.asarray(table.xy, np.float32)  # [T, A, 2, P]
    n, a, _, p = xy.shape
    codes = np.zeros((n, a, p), np.uint8)
    for one, other, frames in identity_swaps(table):
        codes[np.ix_(frames, np.array([one, other]))] = 5
    codes[side_flips(table)] = 4
    out = outlier_mask(np.array(table.masked(min_score), np.float32).reshape(n, -1)).reshape(xy.shape)
    codes[out.any(axis=2)] = 3
    if table.scores is not None and min_score > 0:
        codes[np.asarray(table.scores) < min_score] = 2
    codes[~np.isfinite(xy).all(axis=2)] = 1
    return codes


def problem_shares(codes: npt.NDArray[np.uint8]) -> Mapping[str, float]:
    """How much of all parts and moments has which problem; those that there are."""
    count = np.bincount(codes.ravel(), minlength=max(KINDS) + 1) / max(codes.size, 1)
    return {word: float(count[kind]) for kind, (word, _) in KINDS.items() if count[kind] > 0}


def problem_picture(codes: npt.NDArray[np.uint8], table: KeypointTable) -> Figure:
    """A row for each part of each animal, time to the right."""
    n, a, p = codes.shape
    flat = codes.reshape(n, a * p)
    width = -(-n // COLUMNS)
    starts = np.arange(0, n, width)
    size = np.diff(np.append(starts, n))[:, None]
    share = np.stack([np.add.reduceat(flat == kind, starts, axis=0) / size for kind in KINDS])  # [kinds, columns, rows]
    worst, most = share.argmax(axis=0), share.max(axis=0)
    level = np.searchsorted([edge for edge, _ in LEVELS], most - 1e-9).clip(0, len(LEVELS) - 1)
    cells = np.where(most > 0, 1 + worst * len(LEVELS) + level, 0).T  # [rows, columns]
    kept = np.rint(100 * (1 - share.sum(axis=0))).T.clip(0, 100)
    colours = ["$grid", *(f"{colour}{alpha}" for _, colour in KINDS.values() for _, alpha in LEVELS)]
    lone = a == 1
    rows = [plain(part if lone else f"{animal} {part}") for animal in table.animals for part in table.parts]
    step = width / table.rate_hz
    shown: Dict = {
        "type": "heatmap", "z": typed(cells, "u1"), "x0": step / 2, "dx": step, "ygap": 1,
        "customdata": typed(kept, "u1"), "text": [[row] * len(starts) for row in rows],
        "hovertemplate": "%{text}, %{x:.4~g} s: %{customdata} % without a problem<extra></extra>",
    }  # fmt: skip
    down = rows_axis(rows, autorange="reversed") | {"tickfont": FINE}
    caption = "Each row is a part. The stronger the colour, the more of the frames have that problem."
    told = ", ".join(f"{word} {share:.1%}" for word, share in problem_shares(codes).items()) or "none"
    alt = f"Problems of {len(rows)} parts over {n / table.rate_hz:.0f} s: {told}."
    across, high = axis("s", showgrid=False), 64 + ROW_PX * len(rows)
    return figure([shown | numbered_colours(colours)], caption, alt, high, xaxis=across, yaxis=down)


# ---- one pose, so that somebody who renames "part 1" sees which one it is ---------------------------------------------
MOST_LOOKED_AT = 400
HEIGHT, AWAY = 260, 16  # pixels: of the figure, and from a part to its name


def clearest(table: KeypointTable) -> tuple[int, int]:
    """(frame, animal) of a pose with as many parts as there ever are, and those as far apart as they come."""
    known = np.isfinite(np.asarray(table.xy)).all(axis=2)  # [T, A, P]
    count = known.sum(axis=2)
    found = np.argwhere(count == count.max())
    found = found[:: -(-len(found) // MOST_LOOKED_AT)]
    xy = np.array([table.xy[t, a] for t, a in found], float)  # [S, 2, P]
    apart = np.hypot(*np.moveaxis(xy[..., :, None] - xy[..., None, :], 1, 0))  # [S, P, P]
    apart[:, np.arange(xy.shape[2]), np.arange(xy.shape[2])] = np.inf
    nearest = np.where(np.isfinite(apart), apart, np.inf).min(axis=(1, 2))
    frame, animal = found[int(np.argmax(np.where(np.isfinite(nearest), nearest, 0)))]
    return int(frame), int(animal)


def sketch(table: KeypointTable, frame: int, animal: int) -> Figure:
    """The parts of one animal in one frame, as the image has them."""
    x, y = np.asarray(table.xy[frame, animal], float)
    known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    away = np.stack([x - x[known].mean(), y - y[known].mean()]) if len(known) else np.zeros((2, len(x)))
    away /= np.maximum(np.hypot(*away), 1e-9)
    ends = [(v[known].min(), v[known].max()) for v in (x, y)] if len(known) else [(0.0, 1.0)] * 2
    middle = [float(low + high) / 2 for low, high in ends]
    half = max(float(high - low) for low, high in ends) / 2 or 1.0
    edges = table.edges or (EDGES if table.parts == PARTS else ())
    bones: list[Dict] = [
        shape("line", (x[a], x[b]), (y[a], y[b]), line={"color": "$faint", "width": 2})
        for a, b in edges
        if {a, b} <= set(known.tolist())
    ]
    names = [
        note(plain(table.parts[p]), float(x[p]), float(y[p]), xref="x", yref="y")
        | {"xshift": AWAY * away[0, p], "yshift": -AWAY * away[1, p]}
        | {"xanchor": "left" if away[0, p] > 0.3 else "right" if away[0, p] < -0.3 else "center"}
        for p in known
    ]
    shown = [table.parts[p] for p in known]
    dots = points("markers", x[known], y[known], marker={"size": 8, "color": "$accent"})
    caption = f"{table.animals[animal]} in frame {frame:,}, with each part under its name."
    alt = f"A pose of {table.animals[animal]} with {len(shown)} of {len(table.parts)} parts: {', '.join(shown)}."
    # Framed, since Plotly would make room for the names within the axes and leave little for the pose.
    place: Dict = {"margin": {"l": 56, "r": 56, "t": 20, "b": 20}, "shapes": bones, "annotations": names}
    x0, y0 = middle
    return figure([dots], caption, alt, HEIGHT, **place, **framed((x0 - half, x0 + half), (y0 + half, y0 - half)))
