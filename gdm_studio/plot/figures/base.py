"""What every figure is made of: a plain dict that the browser draws as it stands, with no validation on the way."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from typing import Any, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

Dict = dict[str, Any]

_CODES = {"f4": np.float32, "f8": np.float64, "u1": np.uint8, "u2": np.uint16, "i2": np.int16, "i4": np.int32}


class Figure(TypedDict):
    """Traces and layout as Plotly takes them, a caption on how to read it, and what it shows for who cannot see it.

    cursor  where a moment in time lies on this figure, so that figures of one group can point at it together
    widths  layouts for figures from some width on: each {"least": pixels, "height": pixels, "layout": what differs}, the
            narrowest first
    """

    data: list[Dict]
    layout: Dict
    caption: str
    alt: str
    height: int
    phone_height: NotRequired[int]
    cursor: NotRequired[Dict]
    widths: NotRequired[list[Dict]]


def at_width(figure: Figure, width: float) -> Figure:
    """The figure as it is drawn at a width, for a file: in a browser it chooses for itself."""
    fitting = [one for one in figure.get("widths", ()) if one["least"] <= width]
    if not fitting:
        return figure
    made: Figure = {
        **figure,
        "layout": {**figure["layout"], **fitting[-1]["layout"]},
        "height": fitting[-1]["height"],
        "widths": [],
    }
    return made


def typed(values: npt.ArrayLike, code: str = "f4") -> Dict:
    """An array as bytes: a third of its size as text, and nothing to parse in the browser."""
    array = np.ascontiguousarray(values, dtype=np.dtype(_CODES[code]).newbyteorder("<"))
    packed: Dict = {"dtype": code, "bdata": base64.b64encode(array.tobytes()).decode("ascii")}
    if array.ndim > 1:
        packed["shape"] = ", ".join(map(str, array.shape))
    return packed


def untyped(packed: Dict) -> npt.NDArray[Any]:
    """The array that `typed` packed."""
    array = np.frombuffer(base64.b64decode(packed["bdata"]), dtype=_CODES[packed["dtype"]])
    return array.reshape([int(n) for n in packed["shape"].split(",")]) if "shape" in packed else array


SMALL: Dict = {"size": 12, "color": "$muted"}  # letters of what is said beside a figure
FINE: Dict = {"size": 11, "color": "$muted"}  # and of what is said in it
# Cells of a heat map with room between them.
CELLS: Dict = {"colorscale": [[0, "$surface"], [1, "$accent"]], "xgap": 2, "ygap": 2}


def axis(title: str = "", **more: Any) -> Dict:
    """A quiet axis: no box, a light grid, its title in small muted letters."""
    return {
        "title": {"text": title, "font": SMALL, "standoff": 8},
        "gridcolor": "$grid",
        "zeroline": False,
        "linecolor": "$line",
        "tickcolor": "$line",
        "ticks": "",
        "tickfont": {"size": 11, "color": "$muted"},
        "automargin": True,
        "fixedrange": False,
    } | more


def bare(**more: Any) -> Dict:
    """An axis that is not drawn."""
    return {"visible": False, "fixedrange": False} | more


def plane() -> Dict:
    """Both axes of a plane, undrawn: a place is as far up as it is to the right."""
    return {"xaxis": bare(), "yaxis": bare(scaleanchor="x", scaleratio=1)}


def framed(x: tuple[float, float], y: tuple[float, float]) -> Dict:
    """The same, from edge to edge of what is said: nobody zooms into it, and Plotly makes no room of its own."""
    across, up = (
        bare(range=list(x), fixedrange=True),
        bare(range=list(y), fixedrange=True, scaleanchor="x", scaleratio=1),
    )
    return {"xaxis": across, "yaxis": up}


def key_above(title: str = "") -> Dict:
    """What the traces are, in words above the figure, and the room for them."""
    place: Dict = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": "$clear"}
    named = {"title": {"text": f"{plain(title)}  ", "side": "left", "font": {"size": 12}}} if title else {}
    return {"showlegend": True, "legend": place | named, "margin": {"l": 8, "r": 8, "t": 30, "b": 8}}


def layout(**more: Any) -> Dict:
    """The look that all figures share."""
    return {
        "paper_bgcolor": "$clear",
        "plot_bgcolor": "$clear",
        "font": {"family": '"Source Sans", "Source Sans Pro", system-ui, sans-serif', "size": 12, "color": "$ink"},
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": "$surface",
            "bordercolor": "$line",
            "font": {"size": 12, "color": "$ink"},
            "align": "left",
        },
        "dragmode": "zoom",
        "modebar": {"bgcolor": "$clear", "color": "$faint", "activecolor": "$accent", "orientation": "h"},
        "xaxis": axis(),
        "yaxis": axis(),
    } | more


TIME_MARGIN: Dict = {"l": 68, "r": 10, "t": 6, "b": 8}  # one left edge for all figures over time: moments line up


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
    """Traces, how to read them, and `place`: what of the layout is this figure's own."""
    made: Figure = {"data": data, "layout": layout(**place), "caption": caption, "alt": alt, "height": height}
    if phone_height is not None:
        made["phone_height"] = phone_height
    if cursor is not None:
        made["cursor"] = cursor
    return made


def rows_axis(names: Sequence[str], places: Sequence[Any] | None = None, **more: Any) -> Dict:
    """An axis with a row for each name, which nobody zooms into."""
    rows: Dict = {"tickvals": list(range(len(names))) if places is None else places, "ticktext": list(names)}
    return axis(**rows, showgrid=False, fixedrange=True, tickfont={"size": 12, "color": "$ink"}, **more)


def points(mode: str, x: npt.ArrayLike, y: npt.ArrayLike, says: str = "", **more: Any) -> Dict:
    """Places on a figure as "lines", "markers" or both; `says` what a pointer is told of one, "" that there is nothing to tell."""
    told: Dict = {"hovertemplate": f"{says}<extra></extra>"} if says else {"hoverinfo": "skip"}
    return {"type": "scatter", "mode": mode, "x": typed(x), "y": typed(y)} | told | more


def heatmap(z: npt.ArrayLike, says: str = "", code: str = "f4", **more: Any) -> Dict:
    """Cells coloured by numbers, without a scale beside them; `says` what a pointer is told of one."""
    told: Dict = {"hovertemplate": f"{says}<extra></extra>"} if says else {}
    return {"type": "heatmap", "z": typed(z, code), "showscale": False} | told | more


def shape(kind: str, x: tuple[float, float], y: tuple[float, float], **more: Any) -> Dict:
    """A "line", a "rect" or a "circle" from corner to corner, without an edge unless `line` says one."""
    return {"type": kind, "x0": x[0], "x1": x[1], "y0": y[0], "y1": y[1], "line": {"width": 0}} | more


def note(text: str, x: float, y: float | str, **more: Any) -> Dict:
    """A label on the figure itself, instead of a legend beside it."""
    return {"text": text, "x": x, "y": y, "showarrow": False, "font": {"size": 12, "color": "$ink"}} | more


def headline(text: str) -> Dict:
    """The figure's own title, in its upper left corner."""
    return note(
        text, 0, 1, xref="paper", yref="paper", xanchor="left", yanchor="top", font={"size": 13, "color": "$ink"}
    )


def names_of(n_states: int, names: tuple[str, ...] | list[str] | None = None) -> list[str]:
    """The states' names: those given, or S1..SK."""
    return list(names) if names else [f"S{k + 1}" for k in range(n_states)]


def numbered(names: Sequence[str]) -> list[str]:
    """Names with the numbers that states have everywhere."""
    return [f"S{k + 1} {name}" for k, name in enumerate(names)]


def cut_to(text: str, most: int) -> str:
    """A name for a place that has no room for more than so many letters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def plain(text: str) -> str:
    """A name as it is typed: Plotly takes <b> and the like for its own, and %{x} in a template."""
    return escape(text, quote=False).replace("%{", "%&#123;")


def time_cursor() -> Dict:
    """This figure's horizontal axis is time."""
    return {"kind": "time"}


def path_cursor(x: npt.ArrayLike, y: npt.ArrayLike, start: float, step: float, numbered: bool) -> Dict:
    """This figure shows a path: sample i, at time start + i * step, lies at (x[i], y[i]).

    numbered  whether each point's custom data begins with its sample number, so that a hover knows its time
    """
    place: Dict = {"kind": "path", "start": float(start), "step": float(step), "numbered": numbered}
    return place | {"x": typed(x), "y": typed(y)}
