"""Training replay: the states at each recorded step of a fit, drawn by the browser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gdm_core.analysis.matching import in_order
from gdm_core.engine import Snapshot
from pages.channel import Tables
from pages.lab import state_tables
from pages.lab.live.session import unpack
from pages.lab.preview_figures import FigureSpec, SliderPreview
from pages.lab.view import View
from pages.ui.scrubber import KEY as KEY

MAX_SNAPSHOTS = 50


def name_tables(view: View, content: SliderPreview) -> str:
    """Return the name of the tables of the replay; "" if there are none."""
    state = view.state
    if state.status != "fresh" or state.result is None or len(state.result.snapshots) < 2:
        return ""
    if not _find_figures(view, content):
        return ""
    return state_tables.digest(KEY, state.result.key, state.order, content.trials, content.settings)


def make_tables(view: View, content: SliderPreview) -> Tables:
    """Return one table with the states at every recorded step."""
    name = name_tables(view, content)
    table = view.state.memoize(KEY, lambda: _encode(view, content), settings=name)
    return Tables(name, {name: table}, content.how(_find_figures(view, content)))


def _find_figures(view: View, content: SliderPreview) -> Mapping[str, FigureSpec]:
    """Return the figures that can show the states at an earlier training step."""
    if content.replayed is not None:
        return content.replayed
    result = view.state.result
    recorded = result.snapshots[0].preview if result is not None and result.snapshots else ()
    return content.figures if set(content.trials) <= set(recorded) else {}


def _encode(view: View, content: SliderPreview) -> dict[str, Any]:
    assert view.state.result is not None
    snapshots = view.state.result.snapshots
    chosen = np.unique(np.linspace(0, len(snapshots) - 1, min(len(snapshots), MAX_SNAPSHOTS)).round().astype(int))
    used = set(_part_names(_find_figures(view, content)))
    parts = []
    for snapshot in (snapshots[i] for i in chosen):
        found = content.parts(_read_states(view, content, snapshot), None)
        parts.append({part: states for part, states in found.items() if part in used})
    return state_tables.encode([snapshots[i].step for i in chosen], parts)


def _read_states(view: View, content: SliderPreview, snapshot: Snapshot) -> state_tables.States:
    """Return the states of the content's trials; zeros for held-out trials, which the replay does not draw."""
    known = in_order(unpack(snapshot, view.dataset.train), view.state.order)
    return tuple(
        known[i] if i < len(known) else np.zeros((view.dataset.trials[i].n_samples, known[0].shape[1]), np.float32)
        for i in content.trials
    )


def _part_names(figures: Mapping[str, FigureSpec]) -> Iterator[str]:
    for how in figures.values():
        yield from (how[role] for role in ("part", "bouts") if role in how)
        yield from how.get("rows", {}).values()
