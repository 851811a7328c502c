"""The part of benchmarks/hostile.py that runs inside a page: readers of addresses, and of messages of the browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import streamlit as st

from gdm_core.analysis import matching
from pages.compare import grid
from pages.compare import settings as compare_settings
from pages.formula1 import choices, state_names
from pages.ui import limits
from pages.ui.slider import _scale, moved, slider
from tests.support import forged
from tests.support.attempts import Found, attempt
from tests.support.forged import Rng

CHOSEN = compare_settings.ComparedSetting(
    "A", "gdm", "gdm", {"n_states": 4, "temperature": 0.99, "stickiness": "learn"}
)


def _within(name: str, text: str) -> None:
    limits.within(name, "States (K)", 2, 12)
    value, _ = slider("States (K)", 2, 12, 4, key=name, bind="query-params", live=True)
    assert isinstance(value, int)
    assert 2 <= value <= 12


def _within_float(name: str, text: str) -> None:
    limits.within(name, "Softness (τ)", 0.01, 3.0, float)
    assert 0.01 <= slider("Softness (τ)", 0.01, 3.0, 0.99, 0.01, key=name, bind="query-params").value <= 3


def _number(name: str, text: str) -> None:
    limits.within(name, "Seed", 0, 9999)
    assert 0 <= st.number_input("Seed", 0, 9999, 0, key=name, bind="query-params") <= 9999


def _word(name: str, text: str) -> None:
    limits.among(name, "Model", ["a", "b"])
    st.selectbox("Model", ["a", "b"], key=name, bind="query-params")


def _range(name: str, text: str) -> None:
    asked = st.query_params[name]
    first, last = choices.choose_range("Laps", ("First", "Last"), name, 50, (1, 10), among=name)
    assert 1 <= first <= last <= 50
    assert (first, last) == (1, 10) or re.search("[0-9]-[0-9]", asked), "what is no range is the usual one"


def _count(name: str, text: str) -> None:
    st.query_params[compare_settings.COUNT] = text
    count = compare_settings._count()
    assert 1 <= count <= 6
    assert count == 3 or re.search("[0-9]", text), "what is no number is the usual one"


def _names(name: str, text: str) -> None:
    for own in (state_names.from_address(text, text[:5]), state_names.from_address(f"fit~{text}~{text}", "fit")):
        assert all(len(word) <= state_names.LONGEST and word.isprintable() for word in own.values())


def _order(name: str, text: str) -> None:
    order = matching.parse(text, 4)
    assert order is None or sorted(order) == [0, 1, 2, 3]


ADDRESSES: tuple[Callable[[str, str], None], ...] = (
    _within, _within_float, _number, _word, _range, _count, _names, _order,
    lambda name, text: choices.choose_one("Driver", name, ["VER", "HAM"], "VER"),
    lambda name, text: choices.choose_one("Race", name, {"a": "A", "b": "B"}, "a", row=True),
    lambda name, text: choices.choose_several("Channels", name, ["X", "Y"], ["X"]),
)  # fmt: skip


def addresses(n: int, rng: Rng, found: Found) -> None:
    for i in range(n):
        text, name = forged.text(rng), f"p{i}"
        st.query_params.from_dict({name: [text, forged.text(rng)] if rng.random() < 0.1 else text})
        read = ADDRESSES[int(rng.integers(len(ADDRESSES)))]
        attempt(found, text, lambda read=read, name=name, text=text: read(name, text))
    limits.tell()


def messages(n: int, rng: Rng, found: Found) -> None:
    scale = _scale("K", 2, 12, 4, None, None)

    def of_slider(message: Any) -> None:
        heard = moved(message)
        assert heard is None or 2 <= scale.fit(heard[0]) <= 12

    def of_plot(message: Any) -> None:
        cell = grid.cell_at(CHOSEN, "temperature", message if isinstance(message, dict) else None)
        assert cell is None or cell.config["n_states"] in grid.STATES

    for _ in range(n):
        message = forged.message(rng)
        read = (of_slider, of_plot)[int(rng.integers(2))]
        attempt(found, repr(message), lambda read=read, message=message: read(message))
