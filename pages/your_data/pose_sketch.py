"""One pose with the names of its parts, so that somebody who renames "part 1" sees which one it is."""

from __future__ import annotations

import numpy as np

from datasets.calms21 import EDGES, PARTS
from datasets.keypoints import KeypointTable
from gdm_studio.plot.figures.base import Dict, Figure, bare, layout, note, typed
from gdm_studio.plot.figures.states import plain

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
        {"type": "line", "x0": x[a], "y0": y[a], "x1": x[b], "y1": y[b], "line": {"color": "$faint", "width": 2}}
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
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "x": typed(x[known]),
                "y": typed(y[known]),
                "marker": {"size": 8, "color": "$accent"},
                "hoverinfo": "skip",
            }
        ],
        "layout": layout(
            shapes=bones,
            annotations=names,
            margin={"l": 56, "r": 56, "t": 20, "b": 20},
            # Said, since Plotly would make room for the names within the axes and leave little for the pose.
            xaxis=bare(range=[middle[0] - half, middle[0] + half], fixedrange=True),
            yaxis=bare(range=[middle[1] + half, middle[1] - half], fixedrange=True, scaleanchor="x", scaleratio=1),
        ),
        "caption": f"{table.animals[animal]} in frame {frame:,}, with each part under its name.",
        "alt": f"A pose of {table.animals[animal]} with {len(shown)} of {len(table.parts)} parts: {', '.join(shown)}.",
        "height": HEIGHT,
    }
