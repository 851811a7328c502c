"""Legends of states inside exported figures.

Entries are as wide as the longest name; pages limit the length of names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import INK, NARROW, Dict, Figure, narrow_and_wide, plain

Key = Mapping[str, Sequence[tuple[str, str]]]
_CHARACTER, _MARK, _ROW = 7.4, 44, 20  # pixels; fonts of other machines may be wider
_PADDING = 8  # Plotly's, around all rows
_ROOM = (560, 250)  # width of a figure between its margins, in a panel and on a phone


def states(
    n_states: int, names: Sequence[str] | None = None, kept: Sequence[int] | None = None
) -> list[tuple[str, str]]:
    """Return (name, colour) of each state, or of the `kept` ones."""
    colours = palette.colours(n_states)
    return [(names[k] if names else f"S{k + 1}", colours[k]) for k in (range(n_states) if kept is None else kept)]


def with_key(figure: Figure, key: Key) -> Figure:
    """Return the figure with a legend above it. `key` has entries by kind of row, such as states and expert labels."""
    several = sum(1 for entries in key.values() if entries) > 1
    shown = [
        (f"{kind}: {name}" if several else name, colour) for kind, entries in key.items() for name, colour in entries
    ]
    if not shown:
        return figure
    marks: list[Dict] = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [None],
            "y": [None],
            "name": plain(name),
            "marker": {"symbol": "square", "size": 10, "color": colour},
            "hoverinfo": "skip",
            "showlegend": True,
        }
        for name, colour in shown
    ]
    width = max(24, round(max(len(name) for name, _ in shown) * _CHARACTER))
    wide, narrow = (_height(len(shown), width, room) for room in _ROOM)
    others: list[Dict] = [{**trace, "showlegend": False} for trace in figure["data"]]
    legend: Dict = {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "y": 1,
        "yanchor": "bottom",
        "bgcolor": "$clear",
        "font": INK,
        "entrywidth": width,
        "traceorder": "normal",  # stacked areas would reverse it
        "maxheight": narrow + _PADDING,  # instead of a scroll bar
        "itemclick": False,
        "itemdoubleclick": False,
    }
    made: Figure = {
        **figure,
        "data": [*others, *marks],
        "layout": {**figure["layout"], "showlegend": True, "legend": legend},
        "height": figure["height"] + wide,
        "widths": [
            {**one, "height": one["height"] + (wide if one["least"] >= NARROW else narrow)}
            for one in figure.get("widths") or narrow_and_wide(figure["height"], figure["height"])
        ],
    }
    return made


def _height(entries: int, width: int, room: int) -> int:
    """Return the height of the legend in pixels."""
    a_row = max(1, room // (width + _MARK))
    return -(-entries // a_row) * _ROW + 6
