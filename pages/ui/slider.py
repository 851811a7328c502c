"""A slider that speaks while it is held, where Streamlit's own speaks once it is let go. The look, keys and address are the same.

k, held = slider("States (K)", 2, 12, 4, key="K", bind="query-params", live=True)     # 4, or what ?K= says
tau, _ = slider("Softness (τ)", 0.01, 3.0, 0.99, 0.01, key="tau", bind="query-params")  # waits for the release

The value is `st.session_state[key]`: set it there before the call, and the slider stands there. A `live` slider runs the page
while it is held, with `held` true: show what can be shown at once, and leave the rest for the release. One request of the
page is under way at a time, and the next one carries the latest value. Every movement also reaches pictures that the
browser draws by itself, as the event "gdm:slider" of the window, with {key, value, held}; where one prevents its default, the
page is not asked before the release.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import streamlit as st

from gdm_core.errors import ConfigError
from pages.ui.streamlit_internals import renderer, this_run

_KNOWN = "sliders"  # in the session: what is known of each slider of the page
_ALSO = "_address"
_MOST = 2.0**53  # a number of the browser beyond it is no value of a slider; NaN and what is infinite are not below it
_FORMAT = re.compile(r"([^%]*)%(?:\.(\d+))?([dfi])([^%]*)$")


class Position(NamedTuple):
    """Where a slider stands: an int where its range and steps are, and whether somebody is holding it."""

    value: Any
    held: bool


def moved(message: Any) -> tuple[float, bool, int] | None:
    """(where the slider stands, whether it is held, the message's number), as the browser says; None where it is no message of
    ours, since anybody may send anything."""
    if not isinstance(message, Mapping):
        return None
    value, count = number(message.get("value")), number(message.get("number"))
    return None if value is None or count is None else (value, message.get("held") is True, int(count))


def number(value: Any) -> float | None:
    """A number of a message of the browser; None where it is none, or none that anything here could be."""
    return float(value) if isinstance(value, int | float) and abs(value) < _MOST else None


@dataclass(frozen=True)
class _Scale:
    """Range and steps of a slider, and how a value is written."""

    min: float
    max: float
    step: float
    whole: bool
    before: str
    digits: int
    after: str

    def fit(self, value: float) -> float:
        """The nearest value within the range. The page and an address may stand between two steps."""
        inside = min(max(value, self.min), self.max)
        return round(inside) if self.whole else round(float(inside), 10)

    def read(self, text: str | None) -> float | None:
        """What an address says; None where that is no number."""
        try:
            value = float(text) if text is not None else math.nan
        except ValueError:
            return None
        return self.fit(value) if math.isfinite(value) else None


@dataclass
class _Memory:
    """What is known of a slider between runs: the number of the last message heard, and whether it is held."""

    heard: int = 0
    held: bool = False
    bound: bool = False
    shown: bool = True
    start: float = 0.0


def slider(
    label: str,
    min_value: float,
    max_value: float,
    value: float,
    step: float | None = None,
    *,
    key: str,
    help: str | None = None,
    bind: Literal["query-params"] | None = None,
    format: str | None = None,
    disabled: bool = False,
    live: bool = False,
) -> Position:
    """Show the slider and say where it stands.

    step    1 for whole numbers, a hundredth of the range otherwise
    help    behind a question mark that a mouse, a key or a finger opens
    bind    "query-params" keeps the value in the address: what an address says is moved into the range, and the start
            value is left out of it
    format  how a value is written, such as "%d", "%.2f" or "%.1f s"; as many digits as the step has otherwise
    live    run the page while the slider is held
    """
    scale = _scale(label, min_value, max_value, value, step, format)
    memory = _remember(key, scale, value, bind is not None)

    def take() -> None:
        # On a slow server a thumb may still be moved after its visitor has turned to a page that knows nothing of it.
        heard = moved((st.session_state.get(element) or {}).get("moved"))
        if heard is not None:
            stands, held, count = heard
            st.session_state[key] = scale.fit(stands)
            known = st.session_state.setdefault(_KNOWN, {}).setdefault(key, _Memory())
            known.heard, known.held = count, held and live

    element = f"slider-{key}"
    at = st.session_state[key]
    data = {
        "key": key,
        "label": label,
        "help": help or "",
        "disabled": disabled,
        "live": live,
        "value": at,
        "heard": memory.heard,
        "scale": asdict(scale),
    }
    renderer("slider")(key=element, data=data, on_moved_change=take)
    return Position(at, memory.held and not disabled)


def also_in_address(name: str, text: str | None) -> None:
    """A parameter that no control has: written after those of the sliders, since it says how their result is shown."""
    st.session_state.setdefault(_ALSO, {})[name] = text


def finish_run() -> None:
    """Call when a page has run to its end: tells the browser that the sliders were answered, and writes the address."""
    known: dict[str, _Memory] = st.session_state.get(_KNOWN, {})
    also: dict[str, str | None] = st.session_state.pop(_ALSO, {})
    if not known:
        _write(also)
        return
    wanted: dict[str, str | None] = {}
    for key, memory in list(known.items()):
        if not memory.shown:
            wanted |= {key: None} if memory.bound else {}
            del known[key]
            st.session_state.pop(key, None)
        elif memory.bound and not memory.held:
            value = st.session_state[key]
            wanted[key] = None if value == memory.start else f"{value:.10g}"
        memory.shown = False
    _write(wanted)
    _write(also)
    with st.container(key="sliders-answered"):
        renderer("slider")(key="sliders-heard", data={"answered": {k: memory.heard for k, memory in known.items()}})


def _write(wanted: dict[str, str | None]) -> None:
    """Sliders that came to rest together make one entry of the browser's history (components/history.js)."""
    changed = {key: text for key, text in wanted.items() if text is not None and st.query_params.get(key) != text}
    if changed:
        st.query_params.update(changed)
    for key, text in wanted.items():
        if text is None and key in st.query_params:
            del st.query_params[key]


def _remember(key: str, scale: _Scale, start: float, bound: bool) -> _Memory:
    """What is known of the slider, with its value in its place: set before, said by the address, or the start."""
    state = st.session_state
    known: dict[str, _Memory] = state.setdefault(_KNOWN, {})
    new = key not in known
    memory = known.setdefault(key, _Memory())
    memory.shown, memory.bound, memory.start = True, bound, scale.fit(start)
    run = this_run()
    found: Any = None
    if bound and run.stepped:
        found = scale.read(run.last(key))
    elif key in state:
        found = state[key]
    elif bound and new:
        found = scale.read(st.query_params.get(key))
    if found is not None and (
        isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found)
    ):
        raise ConfigError(f"The slider {key!r} was set to {found!r}; it takes a number.")
    state[key] = memory.start if found is None else scale.fit(found)
    return memory


def _scale(label: str, low: float, high: float, start: float, step: float | None, format: str | None) -> _Scale:
    """The range checked, and what follows from it."""
    whole = all(isinstance(v, int) for v in (low, high, start)) and isinstance(step, int | None)
    size = step if step is not None else 1 if whole else (high - low) / 100
    if not (low < high and size > 0 and low <= start <= high):
        raise ConfigError(
            f"The slider {label!r} from {low} to {high} in steps of {size} cannot start at {start}: "
            "give a range that grows, a step above zero and a start within the range."
        )
    digits = 0 if whole else max(len(f"{v:.10f}".rstrip("0").partition(".")[2]) for v in (size, low))
    if format is None:
        return _Scale(low, high, size, whole, "", digits if whole else max(digits, 2), "")
    parts = _FORMAT.match(format)
    if parts is None:
        raise ConfigError(f"The slider {label!r} cannot write values as {format!r}; take one such as '%d' or '%.2f s'.")
    before, written, kind, after = parts.groups()
    return _Scale(low, high, size, whole, before, int(written or 2) if kind == "f" else 0, after)
