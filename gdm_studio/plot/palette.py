"""Colours of states, their mixtures for soft states, and the other colours of figures in light and dark themes.

The twelve colours differ for normal, protan, deutan and tritan vision on both backgrounds. A soft state has the mixture of
its states' colours in OKLab (a perceptually uniform space), with an opacity equal to its largest proportion. Dark themes draw
it over grey: over a dark surface, faint colours would turn brown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError

Array = npt.NDArray[np.float32]

PALETTE = (
    "#783ce1", "#ffc300", "#e1000f", "#00c3ff", "#781e5a", "#b48796",
    "#1e3ca5", "#7887ff", "#b4d2c3", "#ff874b", "#1e784b", "#b44ba5",
)  # fmt: skip
MAX_STATES = len(PALETTE)
MAX_CELLS = 800  # of the colour grid; more are slower without a visible difference

# Linear sRGB -> cone response -> OKLab (Ottosson 2020).
_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
_FROM_LMS = np.linalg.inv(_TO_LMS)
_FROM_LAB = np.linalg.inv(_TO_LAB)


def rgb(colours: tuple[str, ...] | list[str]) -> npt.NDArray[np.uint8]:
    """Convert '#rrggbb' strings to uint8 [n, 3]."""
    return np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in colours], dtype=np.uint8)


def hex_colours(values: npt.NDArray[Any]) -> list[str]:
    """Convert uint8 [n, 3] to '#rrggbb' strings."""
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in np.asarray(values, np.uint8).reshape(-1, 3).tolist()]


def to_linear(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Convert sRGB bytes to linear light."""
    v = np.asarray(values, np.float64) / 255
    result: npt.NDArray[np.float64] = np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)
    return result


def to_oklab(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Convert sRGB bytes to OKLab [n, 3]."""
    result: npt.NDArray[np.float64] = np.cbrt(to_linear(values) @ _TO_LMS.T) @ _TO_LAB.T
    return result


def from_oklab(lab: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Convert OKLab [n, 3] to sRGB bytes, clipped to the gamut."""
    lms = (lab @ _FROM_LAB.T.astype(lab.dtype)) ** 3
    linear = np.clip(lms @ _FROM_LMS.T.astype(lab.dtype), 0, 1)
    value = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.power(linear, 1 / 2.4) - 0.055)
    return (value * 255 + 0.5).astype(np.uint8)


def difference(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the OKLab distances [n, m], times 100, between two lists of sRGB colours."""
    a, b = to_oklab(first), to_oklab(second)
    result: npt.NDArray[np.float64] = 100 * np.linalg.norm(a[:, None] - b[None], axis=-1)
    return result


DIFFERENCES = difference(rgb(PALETTE), rgb(PALETTE))  # [colours, colours]


@lru_cache(maxsize=MAX_STATES)
def _palette_oklab(n_states: int) -> Array:
    return to_oklab(rgb(PALETTE[:n_states])).astype(np.float32)


def colours(n_states: int) -> list[str]:
    """Return the colour of each state."""
    if not 1 <= n_states <= MAX_STATES:
        raise ConfigError(f"{n_states} states cannot be coloured; the palette has {MAX_STATES} colours.")
    return list(PALETTE[:n_states])


def _check_states(states: npt.ArrayLike) -> Array:
    s = np.asarray(states, np.float32)
    if s.ndim != 2:
        raise DataError(f"Soft states have shape {s.shape}; expected [time, states].")
    colours(s.shape[1])
    return s


def mix(states: npt.ArrayLike) -> tuple[npt.NDArray[np.uint8], Array]:
    """Return rgb [T, 3] and opacity [T] of soft states; missing rows are transparent."""
    s = _check_states(states)
    lab = np.nan_to_num(s @ _palette_oklab(s.shape[1]))  # [T, 3]
    return from_oklab(lab), np.nan_to_num(s.max(axis=1)) if len(s) else np.zeros(0, np.float32)


def mixing_constants(n_states: int) -> dict[str, Any]:
    """Return the palette in OKLab and matrices to sRGB, for mixing in the browser."""
    return {
        "lab": _palette_oklab(n_states).tolist(),
        "from_lab": _FROM_LAB.tolist(),
        "from_lms": _FROM_LMS.tolist(),
    }


@dataclass(frozen=True)
class Buckets:
    """Quantised colours: sample t has the colour `css[index[t]]`."""

    index: npt.NDArray[np.uint8]  # [T]
    rgb: npt.NDArray[np.uint8]  # [B, 3]
    opacity: Array  # [B]

    @property
    def css(self) -> list[str]:
        """Colours as #rrggbbaa, which Plotly parses several times faster than rgba(...)."""
        rgba = np.column_stack([self.rgb, np.rint(255 * self.opacity).astype(np.uint8)])
        return [f"#{row.tobytes().hex()}" for row in rgba]


def quantise(states: npt.ArrayLike, limit: int = 40, cell: float = 0.03) -> Buckets:
    """Quantise the mixed colours of soft states [T, K] to at most `limit` colours.

    Colours (OKLab and opacity) are counted in cells of a grid. Three iterations of k-means on the cells, started from the
    fullest ones, give the buckets. The result is deterministic.
    """
    s = _check_states(states)
    if not 1 <= limit <= 255:
        raise ConfigError(f"limit is {limit}; it must be from 1 to 255.")
    if not len(s):
        return Buckets(np.zeros(0, np.uint8), np.zeros((0, 3), np.uint8), np.zeros(0, np.float32))
    s = np.nan_to_num(s)
    # Opacity is a fourth axis with a lower weight, because differences in opacity are less visible.
    feature = np.column_stack([s @ _palette_oklab(s.shape[1]), 0.35 * s.max(axis=1)])  # [T, 4]
    while True:
        grid = np.floor(feature / cell + 0.5).astype(np.int64) + 64
        code = ((grid[:, 0] * 128 + grid[:, 1]) * 128 + grid[:, 2]) * 128 + grid[:, 3]
        _, cell_of, count = np.unique(code, return_inverse=True, return_counts=True)
        if len(count) <= MAX_CELLS:
            break
        cell *= 1.6
    mean = np.column_stack([np.bincount(cell_of, feature[:, i]) for i in range(4)]) / count[:, None]  # [cells, 4]
    centre = mean[np.sort(np.argsort(-count, kind="stable")[:limit])]  # [B, 4]
    for _ in range(3 if len(mean) > limit else 0):
        nearest = ((mean[:, None] - centre[None]) ** 2).sum(-1).argmin(axis=1)
        weight = np.bincount(nearest, count, len(centre))
        moved = np.column_stack([np.bincount(nearest, count * mean[:, i], len(centre)) for i in range(4)])
        centre = np.where(weight[:, None] > 0, moved / np.maximum(weight, 1)[:, None], centre)
    bucket_of = ((mean[:, None] - centre[None]) ** 2).sum(-1).argmin(axis=1).astype(np.uint8)
    lab = centre.astype(np.float32)
    return Buckets(bucket_of[cell_of], from_oklab(lab[:, :3]), np.clip(lab[:, 3] / 0.35, 0, 1))


def text_colour(colour: str) -> str:
    """Return black or white, whichever has more contrast with `colour`."""
    luminance = float(to_linear(rgb([colour]))[0] @ np.array([0.2126, 0.7152, 0.0722]))
    return "#14151c" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "#ffffff"


# Figures refer to theme colours by name, such as "$ink". The browser fills in the current theme, and `resolve` does so for
# notebooks and files.
_TOKENS = {  # light, dark
    "ink": ("#1d1f27", "#e8e9ee"),
    "muted": ("#5d6172", "#a3a8b8"),
    "faint": ("#9ba0ae", "#6c7284"),
    "grid": ("#e8eaf0", "#272b34"),
    "line": ("#cfd3dd", "#3b404c"),
    "surface": ("#ffffff", "#1a1d23"),
    "undecided": ("", "#6c6f79"),  # below faint colours of states; "" for the surface
    "ground": ("#fafafc", "#14161b"),
    "accent": ("#17789f", "#46a0b5"),
    "good": ("#18794e", "#5cc596"),
    "bad": ("#b3372f", "#f0897f"),
    "band": ("rgba(23,120,159,0.18)", "rgba(95,183,201,0.18)"),
    "band2": ("rgba(23,120,159,0.30)", "rgba(95,183,201,0.32)"),
    "band0": ("rgba(23,120,159,0)", "rgba(95,183,201,0)"),
    "clear": ("rgba(0,0,0,0)", "rgba(0,0,0,0)"),
}
TOKENS = {theme: {name: pair[i] for name, pair in _TOKENS.items()} for i, theme in enumerate(("light", "dark"))}


def over_undecided(colour: str, theme: str) -> str:
    """Return the colour '#rrggbbaa' of soft states, opaque over grey in a dark theme."""
    below = TOKENS[theme]["undecided"]
    if not below or colour.endswith("00"):  # missing states stay transparent
        return colour
    opacity = int(colour[7:], 16) / 255
    mixed = opacity * rgb([colour[:7]]) + (1 - opacity) * rgb([below])
    return hex_colours(np.rint(mixed))[0]


def resolve(value: Any, theme: str = "light") -> Any:
    """Return a copy of a figure or a part with theme colours filled in."""
    if isinstance(value, str):
        if len(value) == 9 and value[0] == "#":
            return over_undecided(value, theme)
        return TOKENS[theme].get(value[1:], value) if value.startswith("$") else value
    if isinstance(value, dict):
        return {k: resolve(v, theme) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [resolve(item, theme) for item in value]
    return value
