"""Training replay: the states at each recorded step of a fit, drawn by the browser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gdm_core.analysis.matching import in_order
from gdm_core.engine import Snapshot
from pages.channel import Tables
from pages.lab import state_tables
from pages.lab.live.pictures import unpack
from pages.lab.view import View
from pages.ui.scrubber import KEY as KEY

if TYPE_CHECKING:
    from pages.lab.held import Followed

MAX_SNAPSHOTS = 50


def replayed_figures(view: View, followed: Followed) -> Mapping[str, Mapping[str, Any]]:
    """Return the figures that can show the states at an earlier training step."""
    if followed.replayed is not None:
        return followed.replayed
    result = view.shown.result
    recorded = result.snapshots[0].preview if result is not None and result.snapshots else ()
    return followed.figures if set(followed.trials) <= set(recorded) else {}


def name(view: View, followed: Followed) -> str:
    """Return the name of the tables of the replay; "" if there are none."""
    shown = view.shown
    if shown.state != "fresh" or shown.result is None or len(shown.result.snapshots) < 2:
        return ""
    if not replayed_figures(view, followed):
        return ""
    return state_tables.digest(KEY, shown.result.key, shown.order, followed.trials, followed.settings)


def make_tables(view: View, followed: Followed, how: Mapping[str, Any]) -> Tables:
    """Return one table with the states at every recorded step."""
    of = name(view, followed)
    table = view.shown.once(KEY, lambda: _encode(view, followed), settings=of)
    return Tables(of, {of: table}, {**how, "figures": dict(replayed_figures(view, followed))})


def _encode(view: View, followed: Followed) -> dict[str, Any]:
    assert view.shown.result is not None
    snapshots = view.shown.result.snapshots
    chosen = np.unique(np.linspace(0, len(snapshots) - 1, min(len(snapshots), MAX_SNAPSHOTS)).round().astype(int))
    used = set(_part_names(replayed_figures(view, followed)))
    parts = []
    for snapshot in (snapshots[i] for i in chosen):
        found = followed.parts(_states(view, followed, snapshot), None)
        parts.append({part: states for part, states in found.items() if part in used})
    return state_tables.encode([snapshots[i].step for i in chosen], parts)


def _states(view: View, followed: Followed, snapshot: Snapshot) -> state_tables.States:
    """Return the states of the trials of the figures; zeros for held-out trials, which no figure of the replay shows."""
    known = in_order(unpack(snapshot, view.data.train), view.shown.order)
    return tuple(
        known[i] if i < len(known) else np.zeros((view.data.trials[i].n_samples, known[0].shape[1]), np.float32)
        for i in followed.trials
    )


def _part_names(figures: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for how in figures.values():
        yield from (how[role] for role in ("part", "bouts") if role in how)
        yield from how.get("rows", {}).values()
