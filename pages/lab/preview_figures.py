"""Figures of a page that the browser draws from tables of states (components/states_canvas.js)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import typed

Array = npt.NDArray[np.float32]
States = tuple[Array, ...]
FigureSpec = Mapping[str, Any]
MAX_SHARES = 40_000  # samples times states of one part at one value; longer parts are thinned


@dataclass(frozen=True, eq=False)
class HardStates:
    """State of each sample [S], -1 for none, instead of soft states of `n_states`."""

    codes: npt.NDArray[np.integer[Any]]
    n_states: int


Parts = Mapping[str, Array | HardStates]


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
    return {"kind": "track", "part": part}


def strips(rows: Mapping[str, str], step: float, *, waiting: Sequence[str] = ()) -> dict[str, Any]:
    """Describe a figure of `figures.state_strips`.

    rows     part of each row
    step     time per sample, in the figure's units
    waiting  rows that the server computes after the release; they fade
    """
    return {"kind": "strips", "rows": dict(rows), "step": step, "waiting": list(waiting)}


def areas(part: str) -> dict[str, Any]:
    """Describe a figure of `figures.proportions` with all states; its labels fade."""
    return {"kind": "areas", "part": part, "fades": ["area"]}


def places(
    part: str, where: Array, *, line: float = 0.0, dot: float = 0.0, fades: Sequence[str] = ()
) -> dict[str, Any]:
    """Describe samples at positions [S, 2] above the first trace of a figure: dots or a line; named annotations fade."""
    x, y = np.asarray(where, np.float32).T
    return {"kind": "places", "part": part, "x": typed(x), "y": typed(y), "line": line, "dot": dot, "fades": [*fades]}


def player(states: str, bouts: str) -> dict[str, Any]:
    """Describe the pose player."""
    return {"kind": "player", "part": states, "bouts": bouts}


# ---- tables -------------------------------------------------------------------------------------------------------
def encode(values: Sequence[float], parts: Sequence[Parts]) -> dict[str, Any]:
    """Return the parts at each value as bytes: shares in steps of 1/255, labels with 255 for none."""
    found = {}
    for name, first in parts[0].items():
        length, n_states = (len(first.codes), first.n_states) if isinstance(first, HardStates) else first.shape
        stride = max(1, -(-length * n_states // MAX_SHARES))
        kind, every = "states", []
        for part in (each[name] for each in parts):
            if isinstance(part, HardStates):
                kind, codes = "labels", part.codes[::stride]
                every.append(np.where(codes < 0, 255, codes).astype(np.uint8))
            else:
                every.append(np.rint(255 * np.nan_to_num(part[::stride])).astype(np.uint8))
        shape = [len(values), len(every[0]), n_states]
        packed = {"dtype": "u1", "bdata": typed(np.stack(every).ravel(), "u1")["bdata"]}
        found[name] = {"shape": shape, kind: packed, "stride": stride}
    return {"values": list(values), "parts": found}
