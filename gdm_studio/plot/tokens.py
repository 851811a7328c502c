"""The colours of everything in a figure that is not a state, in light and dark.

Figures name them as "$ink", "$grid" and so on; a browser fills in the theme of the moment, which may change under an open page, and
`resolve` does the same for a notebook or a file.
"""

from __future__ import annotations

from typing import Any

TOKENS: dict[str, dict[str, str]] = {
    "light": {
        "ink": "#1d1f27",
        "muted": "#5d6172",
        "faint": "#9ba0ae",
        "grid": "#e8eaf0",
        "line": "#cfd3dd",
        "surface": "#ffffff",
        "ground": "#fafafc",
        "accent": "#17789f",
        "good": "#18794e",
        "bad": "#b3372f",
        "band": "rgba(23,120,159,0.18)",
        "band2": "rgba(23,120,159,0.30)",
        "band0": "rgba(23,120,159,0)",
        "clear": "rgba(0,0,0,0)",
    },
    "dark": {
        "ink": "#e8e9ee",
        "muted": "#a3a8b8",
        "faint": "#6c7284",
        "grid": "#272b34",
        "line": "#3b404c",
        "surface": "#1a1d23",
        "ground": "#14161b",
        "accent": "#46a0b5",
        "good": "#5cc596",
        "bad": "#f0897f",
        "band": "rgba(95,183,201,0.18)",
        "band2": "rgba(95,183,201,0.32)",
        "band0": "rgba(95,183,201,0)",
        "clear": "rgba(0,0,0,0)",
    },
}


def resolve(value: Any, theme: str = "light") -> Any:
    """A copy of a figure (or any part of it) with theme colours filled in."""
    if isinstance(value, str):
        return TOKENS[theme].get(value[1:], value) if value.startswith("$") else value
    if isinstance(value, dict):
        return {k: resolve(v, theme) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [resolve(item, theme) for item in value]
    return value
