"""Places or moves: what a state is made of, in a sentence and a picture each."""

from __future__ import annotations

import base64

import streamlit as st

from gdm_studio.plot import palette
from pages.ui.model_controls import Choice

A, B, C = palette.colours(3)

# A bend driven twice: coloured by where the car is, and by what it does.
_PLACES = (
    f'<path d="M6 40 L40 40" stroke="{A}"/><path d="M40 40 Q62 40 62 22" stroke="{B}"/>'
    f'<path d="M62 22 Q62 8 84 8 L114 8" stroke="{C}"/>'
)
_MOVES = (
    f'<path d="M6 40 L40 40" stroke="{A}"/><path d="M40 40 Q62 40 62 22" stroke="{B}"/>'
    f'<path d="M62 22 Q62 8 84 8" stroke="{B}"/><path d="M84 8 L114 8" stroke="{A}"/>'
)
# What a state is where the model sees the place of a car, what it is where it sees what the car does, and a picture.
WORDS = {
    "places": (
        "A state is where the car is: each owns a piece of the map, whatever the car does there. "
        "This is the paper's linear posterior.",
        "A state is what the car does at a moment: how fast it is, what its pedals and gear are. Each owns a range of these.",
        _PLACES,
    ),
    "moves": (
        "A state is what the car does from one moment to the next: straights far apart can share one, as bends can.",
        "A state is how that changes from one moment to the next: letting off, turning in, picking up the throttle.",
        _MOVES,
    ),
}


def _image(picture: str, alt: str) -> str:
    """The picture as an <img>: inline SVG does not survive on a page."""
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 48" width="96" height="38" fill="none" '
        f'stroke-width="6" stroke-linecap="round">{picture}</svg>'
    )
    packed = base64.b64encode(svg.encode()).decode("ascii")
    return f'<img alt="{alt}" src="data:image/svg+xml;base64,{packed}" style="margin-top:0.2rem">'


def kind_of(choice: Choice) -> str:
    """What a state is made of, in a word; "" where the family offers no choice."""
    return {"linear": "places", "window": "moves"}.get(str(choice.config.get("posterior", "")), "")


def explain(choice: Choice, *, drives: bool) -> None:
    """Both meanings; the one behind this page's numbers is marked. `drives`: of what the car does, not of where it is."""
    parts = []
    for name, (of_place, of_driving, picture) in WORDS.items():
        text = of_driving if drives else of_place
        mark = " (behind every number here)" if name == kind_of(choice) else ""
        parts.append(
            '<div style="display:flex;flex-wrap:wrap;gap:0.2rem 0.8rem;margin-top:0.7rem">'
            + _image(picture, f"A bend coloured by {name}")
            + f'<p class="gdm-quiet" style="flex:1 1 11rem"><b>{name.capitalize()}{mark}.</b> {text}</p></div>'
        )
    st.html(f'<p class="gdm-panel-title" style="margin-top:1rem">What a state is made of</p>{"".join(parts)}')
