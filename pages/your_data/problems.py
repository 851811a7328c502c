"""What is wrong with poses, part by part over time, before anything is fitted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from datasets.keypoints import KeypointTable
from datasets.readers.flips import identity_swaps, side_flips
from datasets.readers.quality import outlier_mask
from gdm_studio.plot.figures.base import Figure, axis, layout, typed
from gdm_studio.plot.figures.states import plain
from gdm_studio.plot.figures.strips import discrete

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


def found_in(table: KeypointTable, min_score: float) -> npt.NDArray[np.uint8]:
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


def shares(codes: npt.NDArray[np.uint8]) -> Mapping[str, float]:
    """How much of all parts and moments has which problem; those that there are."""
    count = np.bincount(codes.ravel(), minlength=max(KINDS) + 1) / max(codes.size, 1)
    return {word: float(count[kind]) for kind, (word, _) in KINDS.items() if count[kind] > 0}


def picture(codes: npt.NDArray[np.uint8], table: KeypointTable) -> Figure:
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
    return {
        "data": [
            {
                "type": "heatmap",
                "z": typed(cells, "u1"),
                "x0": step / 2,
                "dx": step,
                "customdata": typed(kept, "u1"),
                "text": [[row] * len(starts) for row in rows],
                "colorscale": discrete(colours),
                "zmin": -0.5,
                "zmax": len(colours) - 0.5,
                "showscale": False,
                "ygap": 1,
                "hovertemplate": "%{text}, %{x:.4~g} s: %{customdata} % without a problem<extra></extra>",
            }
        ],
        "layout": layout(
            xaxis=axis("s", showgrid=False),
            yaxis=axis(
                autorange="reversed", showgrid=False, fixedrange=True, tickvals=list(range(len(rows))), ticktext=rows
            ),
        ),
        "caption": "Each row is a part. The stronger the colour, the more of the frames have that problem.",
        "alt": f"Problems of {len(rows)} parts over {n / table.rate_hz:.0f} s: "
        + (", ".join(f"{word} {share:.1%}" for word, share in shares(codes).items()) or "none")
        + ".",
        "height": 64 + ROW_PX * len(rows),
    }
