"""Controls whose value is in the page's address. Each has a name there, a default, and a range or a list of options.

A link with any other value gets the nearest value or the default, and the page says so. Values from a browser are clamped
again. `settings.key` makes names of values that belong to a recording; `place` is where the control is drawn.
"""

from __future__ import annotations

import math
import types
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import streamlit as st

from gdm_core.errors import ConfigError
from pages.ui import settings
from pages.ui.component import component

N = TypeVar("N", int, float)
W = TypeVar("W", bound=str)
V = TypeVar("V", bound=Hashable)
_MOST = 2.0**53  # beyond it a browser's numbers are not exact


@dataclass(frozen=True)
class Scale:
    """Range and steps of a slider, and the decimals of its values."""

    min: float
    max: float
    step: float
    whole: bool
    digits: int

    def fit(self, value: float) -> float:
        """Return the nearest value within the range, which may lie between two steps."""
        inside = min(max(value, self.min), self.max)
        return round(inside) if self.whole else round(float(inside), 10)


def make_scale(
    label: str, low: float, high: float, start: float, step: float | None, digits: int | None = None
) -> Scale:
    """Check the range of a slider and return its scale."""
    whole = all(isinstance(v, int) for v in (low, high, start)) and isinstance(step, int | None)
    size = step if step is not None else 1 if whole else (high - low) / 100
    if not (low < high and size > 0 and low <= start <= high and math.isfinite(high - low)):
        raise ConfigError(
            f"The slider {label!r} from {low} to {high} in steps of {size} cannot start at {start}: "
            "give a range that grows, a step above zero and a start within the range."
        )
    needed = max(2, *(len(f"{v:.10f}".rstrip("0").partition(".")[2]) for v in (size, low)))
    return Scale(low, high, size, whole, 0 if whole else needed if digits is None else digits)


def parse_move(message: Any) -> tuple[float, bool, int] | None:
    """Return (value, whether it is held, number) of a message of a slider, None if it is invalid."""
    if not isinstance(message, Mapping):
        return None
    value, count = (
        float(sent) if isinstance(sent, int | float) and abs(sent) < _MOST else None
        for sent in (message.get("value"), message.get("number"))
    )
    return None if value is None or count is None else (value, message.get("held") is True, int(count))


def slide(
    label: str, low: N, high: N, start: N, step: N | None = None, *, key: str, digits: int | None = None,
    help: str | None = None, disabled: bool = False, live: bool = False, chips: Mapping[str, float] = types.MappingProxyType({}),
) -> N:  # fmt: skip
    """Show a slider (components/slider.js), of whole numbers if its range and step are.

    step    1 for whole numbers, a hundredth of the range otherwise
    digits  decimals of its values; as many as the step has, and at least two, by default
    live    whether the page also reruns while the slider is held
    chips   values to try, as buttons below it
    """
    first = number_in_address(key, label, low, high, start)
    scale = make_scale(label, low, high, first, step, digits)
    element = f"slider-{settings.widget_key(key)}"
    move = None if disabled else parse_move((st.session_state.get(element) or {}).get("moved"))
    sent, held, heard = (first, False, 0) if move is None else move
    value = scale.fit(sent)
    data = {
        "key": key,
        "label": label,
        "help": help or "",
        "disabled": disabled,
        "live": live,
        "chips": list(chips.items()),
        "value": value,
        "heard": heard,
        "scale": asdict(scale),
    }
    component("slider")(key=element, data=data, on_moved_change=lambda: None)
    settings.keep(key, None if value == start else f"{value:.10g}", settled=not held)
    return value  # type: ignore[return-value]


def number(label: str, low: N, high: N, start: N, *, key: str, place: Any = st, called: str = "", **more: Any) -> N:
    """Show a number box, of whole numbers if its range is; `called` names it in messages.

    Streamlit's own limits would keep an invalid number in the box, next to an icon without words.
    """
    kind = type(_whole_or_not(low, high, start))
    widget, called = settings.widget_key(key), called or label
    first = number_in_address(key, called, low, high, start)
    limits = {"on_change": _clamp, "args": (widget, called, low, high)}
    found = place.number_input(label, value=first, key=widget, **limits, **more)
    value = kind(min(max(start if found is None else found, low), high))
    settings.keep(key, None if value == start else f"{value:.10g}")
    return value


def _clamp(widget: str, called: str, low: float, high: float) -> None:
    typed = st.session_state[widget]
    if typed is not None and not low <= typed <= high:
        nearest = st.session_state[widget] = type(typed)(min(max(typed, low), high))
        st.toast(f"{called} is {low:g} to {high:g}: {typed:g} was changed to {nearest:g}.")


def span(
    label: str, low: int, high: int, start: tuple[int, int], *, key: str, options_key: str = ""
) -> tuple[int, int]:
    """Show a slider with two thumbs; the address names both ends, as in "3-10"."""
    found = [whole(part) for part in (settings.text(key) or "").split("-")]
    ends = [min(max(end, low), high) for end in found if end is not None]
    first = (ends[0], ends[1]) if len(ends) == 2 and ends[0] <= ends[1] else start
    if found != list(first):
        settings.report(key, label, settings.text(key) or "", f"{first[0]}-{first[1]}")
    chosen = st.slider(label, low, high, first, key=settings.widget_key(key, options_key))
    settings.keep(key, f"{chosen[0]}-{chosen[1]}")
    return chosen


def one_of(
    label: str,
    options: Mapping[W, str] | Sequence[W],
    start: W | None = None,
    *,
    key: str,
    options_key: str = "",
    as_ids: bool = False,
    always: bool = False,
    **more: Any,
) -> W:
    """Show a choice of one option, the first by default; further arguments go to `pick`.

    options  words on the screen and in the address, by option
    options_key    what the options depend on: the control starts again if that changes
    as_ids   whether the address names options instead of their words
    always   whether the address names the default too, which may change from day to day
    """
    words: dict[W, str] = dict(options) if isinstance(options, Mapping) else {option: option for option in options}
    start = start if start is not None and start in words else next(iter(words))
    asked = settings.text(key)
    known = {str(option) if as_ids else text: option for option, text in words.items()}
    first = start if asked is None else known.get(asked, start)
    if asked is not None and asked not in known:
        settings.report(key, label, asked, words[start])
    chosen = pick(label, words, first, key=settings.widget_key(key, options_key), **more)
    settings.keep(key, None if chosen == start and not always else str(chosen) if as_ids else words[chosen])
    return chosen


def pick(
    label: str, words: Mapping[V, str], start: V, *, place: Any = st, row: bool = False, tall: bool = False, **more: Any
) -> V:
    """Show a choice that is not in the address: a box, a `row` of buttons or a `tall` list of them."""
    names = list(words)
    more["format_func"] = lambda one: words.get(one, str(one))
    if row:
        chosen = place.segmented_control(label, names, default=start, required=True, **more)
    elif tall:
        chosen = place.radio(label, names, names.index(start), **more)
    else:
        chosen = place.selectbox(label, names, names.index(start), **more)
    return chosen if chosen in words else start


def switch(label: str, start: bool, *, key: str, place: Any = st, **more: Any) -> bool:
    asked = settings.text(key)
    first = start if asked is None else asked.lower() == "true"
    chosen = bool(place.toggle(label, first, key=settings.widget_key(key), **more))
    settings.keep(key, None if chosen == start else str(chosen).lower())
    return chosen


def several(label: str, options: Sequence[str], start: Sequence[str], *, key: str, **more: Any) -> list[str]:
    """Show a choice of several options; return them in the order in which they were chosen."""
    asked = settings.texts(key)
    known = list(start) if asked is None else [word for word in asked if word in options]
    if unknown := [word for word in asked or () if word not in options]:
        settings.report(key, label, ", ".join(unknown))
    chosen = st.multiselect(label, list(options), known, key=settings.widget_key(key), **more)
    found = [word for word in chosen if word in options]
    settings.keep(key, None if found == list(start) else found)
    return found


def text(label: str, start: str = "", *, key: str, place: Any = st, **more: Any) -> str:
    asked = settings.text(key)
    found = place.text_input(label, start if asked is None else asked, key=settings.widget_key(key), **more) or ""
    settings.keep(key, None if found == start else found)
    return str(found).strip()


def tabs(names: Sequence[str], key: str = "view") -> list[tuple[str, Any]]:
    """Return (name, place) of each tab; the page draws the one whose place is `open`."""
    widget, asked = settings.widget_key(key), settings.text(key)
    if asked is not None and asked not in names:
        settings.report(key, "Tab", asked, names[0])
    elif asked is not None:
        st.session_state.setdefault(widget, asked)
    places = st.tabs(list(names), key=widget, on_change="rerun")
    found = list(zip(names, places, strict=True))
    opened = next((name for name, place in found if place.open), names[0])
    settings.keep(key, None if opened == names[0] else opened)
    return found


# ---- numbers in an address ------------------------------------------------------------------------------------------
def whole(text: str) -> int | None:
    """Return a count in an address, None if it is none; Python takes "²" for a digit."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def number_in_address(name: str, label: str, low: N, high: N, start: N) -> N:
    """Return the number that the address has, within its range."""
    asked = settings.text(name)
    if asked is None:
        return start
    try:
        value = float(asked) if asked.isascii() else math.nan
    except ValueError:
        value = math.nan
    found = start if math.isnan(value) else type(_whole_or_not(low, high, start))(min(max(value, low), high))
    if value != min(max(value, low), high):  # NaN differs from everything
        settings.report(name, label, asked, f"{found:g}")
    return found


def _whole_or_not(*values: N) -> N:
    """Return a value of the type that all of them can be read as."""
    return next((value for value in values if not isinstance(value, int)), values[0])
