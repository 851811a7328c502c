"""Values of an address that a control does not offer: the nearest one is taken, and one line says so.

Streamlit alone would take the control's default, as if the link had said nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import streamlit as st
from streamlit.elements.widgets.number_input import NumberInputSerde

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


def whole(text: str) -> int | None:
    """A number of an address that counts something; None where it is none. "²" is a digit for Python and no number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _say(line: str) -> None:
    st.session_state.setdefault(_SAID, []).append(line)


def tell() -> None:
    """One line for each value that was brought into its range in this run or the one before it was overtaken."""
    for line in st.session_state.pop(_SAID, []):
        shell.quiet(line)


def _only_finite_numbers() -> None:
    """Streamlit's number box makes a whole number of what an address or a browser says before it looks whether there is
    one: ?seed=inf ended the page. Such a value counts as not given."""
    plain = NumberInputSerde.deserialize
    if getattr(plain, "only_finite", False):
        return

    def deserialize(self: NumberInputSerde, ui_value: float | None) -> float | None:
        return plain(self, ui_value if ui_value is not None and math.isfinite(ui_value) else None)

    deserialize.only_finite = True  # type: ignore[attr-defined]
    NumberInputSerde.deserialize = deserialize  # type: ignore[method-assign]


_only_finite_numbers()
