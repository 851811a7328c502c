"""What an address holds that a page cannot take, said in one line each: of a value that a control does not offer the nearest one
is taken, and a name that the page does not know is taken out.

Streamlit alone would take the control's default, as if the link had said nothing. The line stays until the control is
changed: a page runs again by itself within a second, when its fit is done.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import streamlit as st

from pages.ui import navigation, shell
from pages.ui.streamlit_internals import release_address, take_finite_numbers, this_run

Kind = Callable[[float], float]
N = TypeVar("N", int, float)
# What the names in an address begin with, up to a digit or what names a recording (K, K-1a2b3c, K-A, name3, badge-weight), on every
# page, and by the address of a page those that it alone knows.
EVERYWHERE = (
    "D K adaptive and blocks channel clips colours columns correct counted covariates data dice features fill "
    "gamma horizon hue into is kept measured model moment name names nclips outliers path rate scale score seed seeds "
    "sees settings shortest smooth sort source stay tau then track trial values view where window"
)
ONLY = {
    "nascar": "T scenario soft soft_appendix standard standard_appendix variable_speed variable_speed_appendix",
    "formula1": "badge badges channels circuit corner drawn driver event fuel lap laps pair rslds session stint test train tyres "
    "watch who won year zoom",
    "behaviour": "file frames mice ntest ntrain",
    "your-data": "apart even example fps places posed unit",
    "study": "animals between change effect fitted found hold said within",
    "compare": "grid measure",
    "playground": "about logit noise other softness",
    "paper": "on panel protocol",
}
NAMES = frozenset(EVERYWHERE.split()).union(*(names.split() for names in ONLY.values()))
_SAID = "_out_of_range"  # by the control's key


@dataclass
class _Line:
    """What is said of a control on a page, how to know where it stands, and where it stood when that was said first."""

    text: str
    page: str
    now: Callable[[], Any]
    value: Any = None
    told: bool = False


def within(key: str, name: str, low: float, high: float, kind: Kind = int) -> None:
    """Call before the control `key`, which offers `low` to `high`; `name` is what it is called on the screen."""
    asked = st.query_params.get(key)
    if asked is None or key in st.session_state:
        return
    value = decimal(asked)
    if math.isnan(value):  # there is no nearest one
        _say(key, f"{name} in the link is “{asked[:20]}”, which is no number: the usual value is used.")
        return
    if not low <= value <= high:
        nearest = kind(min(max(value, low), high))
        st.session_state[key] = nearest
        _say(key, f"{name} in the link is {asked[:20]}, but {low:g} to {high:g} is offered: {nearest:g} is used.")


def among(key: str, name: str, offered: Iterable[str]) -> None:
    """The same for a control that offers words; `offered` as they are written on the screen, and in the address."""
    asked = st.query_params.get(key)
    if asked and key not in st.session_state and asked not in offered:
        _say(key, f"{name} in the link is “{asked[:40]}”, which is not offered: the usual choice is used.")


def whole(text: str) -> int | None:
    """A number of an address that counts something; None where it is none. "²" is a digit for Python and no number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def decimal(text: str) -> float:
    """A number of an address; NaN where it is none."""
    try:
        return float(text) if text.isascii() else math.nan
    except ValueError:
        return math.nan


def inside(value: N | None, low: float, high: float) -> N | None:
    """The value where it lies in the range, else None."""
    return value if value is not None and low <= value <= high else None


def say(key: str, text: str, now: Callable[[], Any]) -> None:
    """Have `tell` say `text` of a control, as long as `now` says that it stands where it does by then."""
    st.session_state.setdefault(_SAID, {})[key] = _Line(text, this_run().page, now)


def _say(key: str, text: str) -> None:
    say(key, text, lambda: st.session_state.get(key))


def tell() -> None:
    """One line for each control of this page that still has the value which was taken in place of the link's, and one for
    names in the address that the page does not know, which are taken out: a mistyped one would be passed over in silence."""
    here = navigation.address_of_page()
    foreign = {name for page, names in ONLY.items() if page != here for name in names.split()}
    known = NAMES if here is None else NAMES - foreign
    unread = [name for name in st.query_params if (re.match(r"[^\W\d]+", name) or [""])[0] not in known]
    if unread:
        named = ", ".join(f"“{name[:20]}”" for name in unread[:5])
        say(
            "?",
            f"The link also has {named}, which this page does not know and takes out of the address.",
            lambda: None,
        )
        release_address(unread)
        for name in unread:
            del st.query_params[name]
    said: dict[str, _Line] = st.session_state.get(_SAID, {})
    for key, line in list(said.items()):
        value = line.now()
        if line.page != this_run().page or (line.told and value != line.value):
            del said[key]
            continue
        line.value, line.told = value, True
        shell.quiet(line.text)


take_finite_numbers()
