"""One lap of two drivers: what their cars do against distance, and both on the map in real time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from datasets.formula1 import Session
from pages.formula1 import lap_player, teams, traces
from pages.formula1.data import Circuit
from pages.formula1.traces import Trace
from pages.lab import View
from pages.lab.live.pictures import State
from pages.ui import shell
from pages.ui.plot import plot


def show(
    view: View, session: Session, circuit: Circuit, laps: Sequence[Trace], names: Sequence[str], state: State
) -> None:
    """Traces, then the player; `names` of the states as in the legend."""
    both = tuple(laps)
    looks = teams.looks(session, [one.code for one in laps])
    if any(one.car for one in laps):
        with shell.panel("traces", "What the cars do"):
            figure = view.shown.once("traces", lambda: traces.figure(circuit, laps, looks), of=both)
            plot(figure, key="traces", state=state)
    with shell.panel("lap-player", "The lap on the map"):
        played = partial(lap_player.played, circuit, laps, looks, names)
        lap_player.show(view.shown.once("lap-player", played, of=both, settings=tuple(names)), key="lap-player")
        unclocked = [one.name for one in laps if one.clock is None]
        shell.quiet(
            "Both start at the line at the same moment. Space plays and pauses, arrows step; trails and dots have the colours of "
            "the states, rings those of the teams."
            + (f" Without official times, {' and '.join(unclocked)} goes by the feed's own clock." if unclocked else "")
        )
