"""What is pinned beside a recording: its bouts and states beside those that stand, and beside the expert's labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pages import lab
from pages.lab import live
from pages.lab.pin import NOW, PINNED
from pages.recording import naming
from pages.recording.labels import colour_key
from pages.recording.naming import Naming
from pages.recording.view import View
from pages.ui import figures, palette, parts
from pages.ui.figures import Figure
from pages.ui.parts import Part
from pages.ui.plot import Picture
from pages.ui.text import Text

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


def drawn(view: View, beside: lab.View, now: live.Shown) -> dict[str, Part]:
    """Expert, pinned and present ethograms over one time axis."""
    assert isinstance(beside, View)
    here, there = view.read(), beside.read(now)
    states, bouts_there = there.states, there.bouts
    if states is None or bouts_there is None:
        return parts.by_key(Picture(None, "pinned-strips", title=there.title, note=there.note))
    words, soft, cut = view.data.words, {PINNED: states}, {PINNED: bouts_there}
    if here.states is not None and here.bouts is not None:
        soft, cut = soft | {NOW: here.states}, cut | {NOW: here.bouts}
    said = ["Bouts of both, by the same rule.", BY_LABEL if words is not None else MATCHING]
    if view.with_words is not None:
        said.append("What is pinned was not taught your words.")

    def bouts() -> Figure:
        rows: dict[str, Any] = {name: figures.one_hot(cut[name], soft[name].shape[1]) for name in soft}
        if there.expert is not None and words is not None:
            rows = {"expert": words.hot(there.expert)} | rows
        return strips(rows, " ".join(said))

    def strips(rows: dict[str, Any], caption: str) -> Figure:
        height = 52 + 34 * len(rows)
        return figures.state_strips(
            rows, start=there.start, step=there.step, unit=there.unit.name, height=height, caption=caption
        )

    both = (states, bouts_there, here.states, here.bouts)
    cut_up = now.once("pinned-strips", bouts, of=both, settings=tuple(said))
    mixed = now.once("pinned-states", lambda: strips(soft, "The states of both, as fitted, in mixed colours."), of=both)
    revision = f"{view.data.key}/{view.index}"
    return parts.by_key(
        Picture(cut_up, "pinned-strips", there.state, revision),
        Picture(mixed, "pinned-states", there.state, revision),
        Text(colour_key("pinned states", there.names, there.used), "pinned-key"),
    )
