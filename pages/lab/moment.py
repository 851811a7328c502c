"""The shares of one moment as bars, with a clock that drives the cursor of the page's figures, or below a pose player."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.engine.results import to_levels
from gdm_studio.plot.figures.base import typed
from pages.lab.decoded import Undecoded
from pages.lab.view import View
from pages.ui import player

WHOLE_S = 30.0  # that a trial in steps, or a lap, takes
MAX_ROWS = 20_000  # sent to the browser; longer trials are thinned
_moment = player.player(
    "gdm_moment",
    Path(__file__).parent / "moment.js",
    label="Moment",
    speeds=(0.25, 0.5, 1, 2, 4, 16),
    css="canvas { background: none; border-radius: 0; } [data-follows] .row { display: none; }",
)


def show_moment(view: View) -> None:
    """Draw the bars of the displayed trial, in script runs only."""
    here = view.read_samples()
    if isinstance(here, Undecoded):
        return
    timing, rate = here.timing, here.trial.rate_hz
    follows, identity = view.dataset.pose(view.index) is not None, f"{here.trial.fingerprint}/{here.origin}"
    show_clock(identity, here.trial.name, here.shares, here.looks, timing, rate, follows)


def show_clock(
    recording: str,
    name: str,
    shares: npt.ArrayLike,
    looks: Mapping[str, Any],
    timing: Mapping[str, Any],
    rate: float = 1.0,
    follows: bool = False,
) -> None:
    """Draw the bars of shares [T, K] with a clock.

    recording   identity of the shares: another one restarts the clock
    looks       names and colours of the K states
    timing      start, step and unit of the axis along which figures are drawn
    rate        samples per second, if the axis is time; another axis takes half a minute
    follows     whether a pose player has the clock
    """
    every = np.asarray(shares)
    stride = -(-len(every) // MAX_ROWS)
    if not len(every):
        return
    _moment(
        key="moment",
        data={
            "recording": recording,
            "follows": follows,
            "n": len(every[::stride]),
            "shares": typed(to_levels(every[::stride]), "u1"),
            "start": timing["start"],
            "step": timing["step"] * stride,
            "unit": timing["unit"],
            "rate": rate / stride if timing["unit"] not in ("step", "m") else len(every) / stride / WHOLE_S,
            "group": "page",
            "alt": f"Shares of {every.shape[1]} states at one moment of {name}.{'' if follows else ' Space plays, arrows step.'}",
            **looks,
        },
    )
