"""The shares of one moment as bars, with a clock that drives the cursor of the page's figures, or below a pose player."""

from __future__ import annotations

from pathlib import Path

from gdm_core.engine.results import to_levels
from gdm_studio.plot.figures.base import typed
from pages.lab.decoded import Undecoded
from pages.lab.view import View
from pages.ui import player

WHOLE_S = 30.0  # that a trial in steps takes
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
    stride = -(-len(here.states) // MAX_ROWS)
    shares, timing = here.shares[::stride], here.timing
    if not len(shares):
        return
    in_steps, follows = timing["unit"] == "step", view.dataset.pose(view.index) is not None
    keys = "" if follows else " Space plays, arrows step."
    _moment(
        key="moment",
        data={
            "recording": f"{here.trial.fingerprint}/{here.origin}",
            "n": len(shares),
            "shares": typed(to_levels(shares), "u1"),
            "start": timing["start"],
            "step": timing["step"] * stride,
            "unit": timing["unit"],
            "rate": len(shares) / WHOLE_S if in_steps else here.trial.rate_hz / stride,
            "group": "page",
            "follows": follows,
            "alt": f"Shares of {len(here.used)} states at one moment of {here.trial.name}.{keys}",
            **here.looks,
        },
    )
