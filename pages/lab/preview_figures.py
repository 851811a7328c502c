"""Figures of a page that the browser draws from tables of states (components/states_canvas.js)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import typed
from pages.lab.state_tables import Array
from pages.lab.state_tables import HardStates as HardStates
from pages.lab.state_tables import Parts as Parts
from pages.lab.state_tables import States as States

FigureSpec = Mapping[str, Any]
BADGE = {"badge": "preview"}


@dataclass(frozen=True, eq=False)
class SliderPreview:
    """States that the browser draws while a slider is dragged or training is replayed.

    trials    indices of the trials in `view.dataset.trials`
    parts     returns parts of figures by name, from the trials' states [T, K] in the order of colours. For another K it also
              gets the states of the first training trials, otherwise None
    figures   description of each figure, by key
    settings  plain values that `parts` depends on
    other_k   whether `parts` accepts another number of states
    replayed  figures of the training replay, if not all: held-out trials have no states during training; {} for none
    """

    trials: tuple[int, ...]
    parts: Callable[[States, States | None], Parts]
    figures: Mapping[str, FigureSpec]
    settings: tuple[Any, ...] = ()
    other_k: bool = True
    replayed: Mapping[str, FigureSpec] | None = None

    def how(self, figures: Mapping[str, FigureSpec] | None = None) -> dict[str, Any]:
        """Return the figures and colours of the tables, for the browser."""
        return {
            "figures": dict(self.figures if figures is None else figures),
            "mixing": palette.mixing_constants(palette.MAX_STATES),
            "colours": palette.colours(palette.MAX_STATES),
        }


def track(part: str) -> dict[str, Any]:
    """Describe a figure of `figures.track`."""
    return {"kind": "track", "part": part} | BADGE


def strips(
    rows: Mapping[str, str], step: float, *, waiting: Sequence[str] = (), opacity: float | None = None
) -> dict[str, Any]:
    """Describe a figure of `figures.state_strips`.

    rows     part of each row
    step     time per sample, in the figure's units
    waiting  rows that the server computes after the release; they fade
    opacity  opacity of these rows, in a figure whose other rows do not change
    """
    found = {"kind": "strips", "rows": dict(rows), "step": step, "waiting": list(waiting)}
    return found | (BADGE if opacity is None else {"opacity": opacity})


def areas(part: str) -> dict[str, Any]:
    """Describe a figure of `figures.proportions` with all states; its labels fade."""
    return {"kind": "areas", "part": part, "fades": ["area"]} | BADGE


def places(
    part: str, where: Array, *, line: float = 0.0, dot: float = 0.0, fades: Sequence[str] = ()
) -> dict[str, Any]:
    """Describe samples at positions [S, 2] above the first trace of a figure: dots or a line; named annotations fade."""
    x, y = np.asarray(where, np.float32).T
    found = {"kind": "places", "part": part, "x": typed(x), "y": typed(y), "line": line, "dot": dot, "fades": [*fades]}
    return found | BADGE


def player(states: str, bouts: str) -> dict[str, Any]:
    """Describe the pose player."""
    return {"kind": "player", "part": states, "bouts": bouts}
