"""Values of an address that a control does not offer: the nearest one is taken, and one line says so.

Streamlit alone would take the control's default, as if the link had said nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import streamlit as st

from pages.ui import shell

Kind = Callable[[float], float]
_SAID = "_out_of_range"


def within(key: str, name: str, low: float, high: float, kind: Kind = int) -> None:
    """Call before the control `key`, which offers `low` to `high`; `name` is what it is called on the screen."""
    asked = st.query_params.get(key)
    if asked is None or key in st.session_state:
        return
    try:
        value = float(asked)
    except ValueError:  # there is no nearest one
        value = math.nan
    if math.isnan(value):
        _say(f"{name} in the link is “{asked[:20]}”, which is no number: the usual value is used.")
        return
    if not low <= value <= high:
        nearest = kind(min(max(value, low), high))
        st.session_state[key] = nearest
        _say(f"{name} in the link is {asked[:20]}, but {low:g} to {high:g} is offered: {nearest:g} is used.")


def among(key: str, name: str, offered: Iterable[str]) -> None:
    """The same for a control that offers words; `offered` as they are written on the screen, and in the address."""
    asked = st.query_params.get(key)
    if asked and key not in st.session_state and asked not in offered:
        _say(f"{name} in the link is “{asked[:40]}”, which is not offered: the usual choice is used.")


def _say(line: str) -> None:
    st.session_state.setdefault(_SAID, []).append(line)


def tell() -> None:
    """One line for each value that was brought into its range in this run or the one before it was overtaken."""
    for line in st.session_state.pop(_SAID, []):
        shell.quiet(line)
