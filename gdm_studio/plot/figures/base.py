"""Building blocks of figures: plain dicts that the browser passes to Plotly without validation."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from typing import Any, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

Dict = dict[str, Any]

NARROW = 520  # pixels; a narrower figure is on a phone
_CODES = {"f4": np.float32, "f8": np.float64, "u1": np.uint8, "u2": np.uint16, "i2": np.int16, "i4": np.int32}


class Figure(TypedDict):
    """Plotly traces and layout, a caption and an alternative text.

    cursor  maps time to a point of the figure, or of its first trace, which synchronises the cursors of a group of figures
    widths  variants for wider figures, the narrowest first: {"least": pixels, "height": pixels, "layout": differences}
    """

    data: list[Dict]
    layout: Dict
    caption: str
    alt: str
    height: int
    cursor: NotRequired[Dict]
    widths: NotRequired[list[Dict]]


def fit_to_width(figure: Figure, width: float) -> Figure:
    """Return the variant of a figure for a width; browsers choose it themselves."""
    fitting = [one for one in figure.get("widths", ()) if one["least"] <= width]
    if not fitting:
        return figure
    result: Figure = {
        **figure,
        "layout": {**figure["layout"], **fitting[-1]["layout"]},
        "height": fitting[-1]["height"],
        "widths": [],
    }
    return result


def narrow_and_wide(narrow: int, wide: int) -> list[Dict]:
    """Return the heights of a figure on phones and in wider windows."""
    return [{"least": least, "height": height, "layout": {}} for least, height in ((0, narrow), (NARROW, wide))]


def typed(values: npt.ArrayLike, code: str = "f4") -> Dict:
    """Encode an array as base64 for Plotly, a third of its size as text."""
    array = np.ascontiguousarray(values, dtype=np.dtype(_CODES[code]).newbyteorder("<"))
    packed: Dict = {"dtype": code, "bdata": base64.b64encode(array.tobytes()).decode("ascii")}
    if array.ndim > 1:
        packed["shape"] = ", ".join(map(str, array.shape))
    return packed


def untyped(packed: Dict) -> npt.NDArray[Any]:
    """Decode an array that `typed` encoded."""
    array = np.frombuffer(base64.b64decode(packed["bdata"]), dtype=_CODES[packed["dtype"]])
    return array.reshape([int(n) for n in packed["shape"].split(",")]) if "shape" in packed else array


# The style of all figures, on pages and in files: one font and size, two widths of lines. Files are 85 mm wide
# (pages/ui/components/figure_files.js), in which this text has 6 pt.
TEXT = 12  # pixels
THIN, LINE = 1.0, 2.0  # pixels: auxiliary lines and data
FAMILY = '"Source Sans", "Source Sans Pro", system-ui, sans-serif'
INK: Dict = {"size": TEXT, "color": "$ink"}
SMALL: Dict = {"size": TEXT, "color": "$muted"}
# Heat map with gaps between cells.
CELLS: Dict = {"colorscale": [[0, "$surface"], [1, "$accent"]], "xgap": 2, "ygap": 2}


def axis(title: str = "", **more: Any) -> Dict:
    """Return an axis without a box, with a light grid and a small title.

    Options that are None are left out: Plotly cannot restore the zoom of an axis whose range is null.
    """
    given = {name: value for name, value in more.items() if value is not None}
    return {
        "title": {"text": title, "font": SMALL, "standoff": 4},
        "gridcolor": "$grid",
        "zeroline": False,
        "linecolor": "$line",
        "tickcolor": "$line",
        "ticks": "",
        "tickfont": SMALL,
        "automargin": True,
        "fixedrange": False,
    } | given


def bare(**more: Any) -> Dict:
    """Return a hidden axis."""
    return {"visible": False, "fixedrange": False} | more


def plane() -> Dict:
    """Return hidden axes with equal scale."""
    return {"xaxis": bare(), "yaxis": bare(scaleanchor="x", scaleratio=1)}


def key_above(title: str = "") -> Dict:
    """Return a layout with a horizontal legend above the figure."""
    place: Dict = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": "$clear"}
    named = {"title": {"text": f"{plain(title)}  ", "side": "left", "font": {"size": TEXT}}} if title else {}
    return {"showlegend": True, "legend": place | named, "margin": {"l": 8, "r": 8, "t": 30, "b": 8}}


def layout(**more: Any) -> Dict:
    """Return the layout that all figures share."""
    return {
        "paper_bgcolor": "$clear",
        "plot_bgcolor": "$clear",
        "font": INK | {"family": FAMILY},
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "minreducedheight": 32,  # otherwise axis titles of low figures lie over the ticks
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": "$surface",
            "bordercolor": "$line",
            "font": INK,
            "align": "left",
        },
        "dragmode": "zoom",
        "modebar": {"bgcolor": "$clear", "color": "$faint", "activecolor": "$accent", "orientation": "h"},
        "xaxis": axis(),
        "yaxis": axis(),
    } | more


TIME_MARGIN: Dict = {"l": 76, "r": 10, "t": 6, "b": 2}  # shared by figures over time, so their time axes line up


def figure(
    data: list[Dict],
    caption: str,
    alt: str,
    height: int,
    *,
    phone_height: int | None = None,
    cursor: Dict | None = None,
    **place: Any,
) -> Figure:
    """Build a figure; `place` updates the shared layout."""
    result: Figure = {"data": data, "layout": layout(**place), "caption": caption, "alt": alt, "height": height}
    if phone_height is not None:
        result["widths"] = narrow_and_wide(phone_height, height)
    if cursor is not None:
        result["cursor"] = cursor
    return result


def rows_axis(names: Sequence[str], places: Sequence[Any] | None = None, **more: Any) -> Dict:
    """Return a fixed axis with a tick for each name."""
    rows: Dict = {"tickvals": list(range(len(names))) if places is None else places, "ticktext": list(names)}
    return axis(**rows, showgrid=False, fixedrange=True, tickfont=INK, **more)


def points(mode: str, x: npt.ArrayLike, y: npt.ArrayLike, hover: str = "", **more: Any) -> Dict:
    """Return a scatter trace, which ignores the pointer without a `hover` template."""
    hovering: Dict = {"hovertemplate": f"{hover}<extra></extra>"} if hover else {"hoverinfo": "skip"}
    return {"type": "scatter", "mode": mode, "x": typed(x), "y": typed(y)} | hovering | more


def heatmap(z: npt.ArrayLike, hover: str = "", code: str = "f4", **more: Any) -> Dict:
    """Return a heat map trace without a colour bar."""
    hovering: Dict = {"hovertemplate": f"{hover}<extra></extra>"} if hover else {}
    return {"type": "heatmap", "z": typed(z, code), "showscale": False} | hovering | more


def shape(kind: str, x: tuple[float, float], y: tuple[float, float], **more: Any) -> Dict:
    """Return a "line", "rect" or "circle" shape, without an outline by default."""
    return {"type": kind, "x0": x[0], "x1": x[1], "y0": y[0], "y1": y[1], "line": {"width": 0}} | more


def note(text: str, x: float, y: float | str, **more: Any) -> Dict:
    """Return a text annotation."""
    return {"text": text, "x": x, "y": y, "showarrow": False, "font": INK} | more


def headline(text: str) -> Dict:
    """Return a title in the upper left corner."""
    return note(text, 0, 1, xref="paper", yref="paper", xanchor="left", yanchor="top", font=INK | {"weight": 600})


def names_of(n_states: int, names: tuple[str, ...] | list[str] | None = None) -> list[str]:
    """Return the given names of the states, or S1..SK."""
    return list(names) if names else [f"S{k + 1}" for k in range(n_states)]


def numbered(names: Sequence[str]) -> list[str]:
    """Prefix names with the numbers of their states."""
    return [f"S{k + 1} {name}" for k, name in enumerate(names)]


def cut_to(text: str, most: int) -> str:
    """Shorten a name to at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def plain(text: str) -> str:
    """Escape HTML tags and template variables that Plotly would interpret."""
    return escape(text, quote=False).replace("%{", "%&#123;")


def time_cursor() -> Dict:
    """Return the cursor of a figure whose horizontal axis is time."""
    return {"kind": "time"}


def path_cursor(x: npt.ArrayLike, y: npt.ArrayLike, start: float, step: float) -> Dict:
    """Return the cursor of a path through (x[i], y[i]) at start + i * step."""
    return {"kind": "path", "start": float(start), "step": float(step), "x": typed(x), "y": typed(y)}
