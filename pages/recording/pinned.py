"""What is pinned beside a recording: its bouts and states beside those that stand, and beside the expert's labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from pages import lab
from pages.lab import live
from pages.lab.pin import NOW, PINNED
from pages.recording import naming
from pages.recording.labels import colour_key
from pages.recording.naming import Naming
from pages.recording.view import View
from pages.ui import figures, palette, shell
from pages.ui.plot import plot

BY_LABEL = "A state has the colour of the label that it mostly stands for in the fitted trials."
MATCHING = "States that match have the same colour."


def named(n_states: int, by_labels: Sequence[int], stands: Naming) -> Naming:
    """The colours of a pinned fit: those of the labels, else those of the states that stand in the same columns.

    by_labels  [K] as `naming.label_colours` gives them, () without labels
    """
    plain = [""] * n_states
    if len(by_labels) == n_states:
        return naming.arrange(plain, range(n_states), start=by_labels)
    worn: list[int | None] = []
    for colour in [*stands.into, *[None] * n_states][:n_states]:
        worn.append(None if colour in worn else colour)  # merged states share one
    free = iter(colour for colour in range(palette.MAX_STATES) if colour not in worn)
    return naming.arrange(plain, range(n_states), start=[next(free) if colour is None else colour for colour in worn])


def draw(view: View, beside: lab.View, now: live.Shown) -> None:
    """Expert, pinned and present ethograms over one time axis."""
    assert isinstance(beside, View)
    here, there = view.read(), beside.read(now)
    if there.states is None or there.bouts is None:
        shell.empty(there.title, there.note)
        return
    words, soft, cut = view.data.words, {PINNED: there.states}, {PINNED: there.bouts}
    if here.states is not None and here.bouts is not None:
        soft, cut = soft | {NOW: here.states}, cut | {NOW: here.bouts}
    bouts: dict[str, Any] = {name: figures.one_hot(cut[name], soft[name].shape[1]) for name in soft}
    if there.expert is not None and words is not None:
        bouts = {"expert": words.hot(there.expert)} | bouts
    said = ["Bouts of both, by the same rule.", BY_LABEL if words is not None else MATCHING]
    if view.with_words is not None:
        said.append("What is pinned was not taught your words.")
    both: dict[str, tuple[dict[str, Any], str]] = {
        "pinned-strips": (bouts, " ".join(said)),
        "pinned-states": (soft, "The states of both, as fitted, in mixed colours."),
    }
    for key, (rows, caption) in both.items():
        made = figures.state_strips(
            rows, start=there.start, step=there.step, unit=there.unit.name, height=52 + 34 * len(rows), caption=caption
        )
        plot(made, key=key, state=there.state, revision=f"{view.data.key}/{view.index}")
    st.html(colour_key("pinned states", there.names, there.used))
