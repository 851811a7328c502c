"""A slider that reports its value while it is dragged, to the browser and to the page (components/slider.js)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import streamlit as st

from gdm_core.errors import ConfigError
from pages.ui.component import component

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


def parse_move(message: Any) -> tuple[float, bool, int] | None:
    """Return (value, whether it is held, number) of a message of a slider, None if it is invalid."""
    if not isinstance(message, Mapping):
        return None
    value, count = number(message.get("value")), number(message.get("number"))
    return None if value is None or count is None else (value, message.get("held") is True, int(count))


def number(value: Any) -> float | None:
    """Return a number that a browser sent, None if it is none."""
    return float(value) if isinstance(value, int | float) and abs(value) < _MOST else None


def slider(
    label: str,
    low: float,
    high: float,
    start: float,
    step: float | None = None,
    *,
    key: str,
    name: str = "",
    help: str | None = None,
    digits: int | None = None,
    disabled: bool = False,
    live: bool = False,
) -> tuple[float, bool]:
    """Show a slider; return its value, an int if its range and step are, and whether it is held.

    step    1 for whole numbers, a hundredth of the range otherwise
    name    its key in browser events
    digits  decimals of its values; as many as the step has, and at least two, by default
    live    whether the page also reruns while the slider is held
    """
    scale = make_scale(label, low, high, start, step, digits)
    element = f"slider-{key}"
    state = st.session_state.get(element) or {}
    move = None if disabled else parse_move(state.get("moved"))
    value, held, heard = (start, False, 0) if move is None else move
    data = {
        "key": name or key,
        "label": label,
        "help": help or "",
        "disabled": disabled,
        "live": live,
        "value": scale.fit(value),
        "heard": heard,
        "scale": asdict(scale),
    }
    component("slider")(key=element, data=data, on_moved_change=lambda: None)
    return scale.fit(value), held


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
