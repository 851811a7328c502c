"""Slider preview and training replay: the browser draws from tables of states while no script runs.

For temperature and stickiness they come from sweeps of the fitted model, for K from fits of neighbouring K, for the replay from
snapshots of the fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from gdm_core.analysis import inference
from gdm_core.analysis.matching import in_order
from gdm_core.engine import Snapshot
from gdm_core.models.registry import ADJUSTABLE
from pages.channel import Tables, channel
from pages.lab.live.queries import query_key
from pages.lab.live.state import PageSpec, unpack
from pages.lab.preview_figures import FigureSpec, Parts, SliderPreview, States, encode
from pages.lab.view import View
from pages.ui import settings
from pages.ui.component import component
from pages.ui.model_controls import GAMMA_RANGE, K_RANGE, TAU_RANGE
from pages.ui.plot import REPLAY

VALUES = {
    "temperature": ("tau", np.geomspace(*TAU_RANGE, 32).round(4).tolist()),
    "stickiness": ("gamma", np.linspace(*GAMMA_RANGE, 24).round(4).tolist()),
}
PARAMETERS = {key: parameter for parameter, (key, _) in VALUES.items()}
FINE = 6_000  # samples; for more, every second value is computed
MAX_SAMPLES = 60_000  # samples per value; a tenth of a second for 20,000
MAX_SNAPSHOTS = 50  # of a replay
COLOUR_SAMPLES = 6_000  # of training trials, whose states decide the colours of another K


def preview(view: View, content: SliderPreview) -> None:
    """Let the browser draw `content` while a slider of the model is dragged, and replay training.

    The browser reports a pointer near a slider over the channel; tables are computed from then on.
    """

    def tables(key: str, held: bool, value: float) -> Tables:
        state = view.fit.poll()  # the fit may have ended since the script ran
        now = view if state is view.state else replace(view, state=state)
        if not _name_tables(now, content).get(key):
            return Tables(more=view.fit.running)
        if key == REPLAY:
            return _tabulate_replay(now, content)
        if key in PARAMETERS:
            return _tabulate_sweep(now, content, PARAMETERS[key])
        return _tabulate_neighbours(now, content, value if held else now.choice.n_states)

    channel().scene.tables = tables
    with st.container(key="slider-preview-place"):
        component("slider_preview")(key="slider-preview", data={"offers": _name_tables(view, content)})


def _name_tables(view: View, content: SliderPreview) -> dict[str, str]:
    """Return the name of each slider's tables, "" until the fit has ended; sliders without tables are absent."""
    state, k_key = view.state, settings.key("K", view.choice.scope)
    if view.fit.running:
        return dict.fromkeys((*PARAMETERS, k_key, REPLAY), "")
    if view.filtered is not None or state.status != "fresh" or state.result is None:
        return {}
    name = _name(view, content)
    keys: list[str] = []
    if 0 < _count_samples(view, content.trials) <= MAX_SAMPLES and state.n_states > 1:
        keys += [key for key, parameter in PARAMETERS.items() if parameter in ADJUSTABLE.get(view.choice.family, ())]
    every = {*range(len(view.dataset.train)), *content.trials}
    if content.other_k and content.trials and _count_samples(view, every) <= MAX_SAMPLES:
        keys.append(k_key)
    names = dict.fromkeys(keys, name)
    return names | ({REPLAY: name} if _find_replayed(view, content) else {})


def _name(view: View, content: SliderPreview, *what: Any) -> str:
    """Return a short name of tables, which changes with the fit and what is shown of it."""
    result, order = view.state.result, view.state.order
    parts = (*what, result and result.key, order, content.trials, content.settings)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _count_samples(view: View, trials: Iterable[int]) -> int:
    return sum(view.dataset.trials[i].n_samples for i in set(trials))


# ---- temperature and stickiness -----------------------------------------------------------------------------------
def _tabulate_sweep(view: View, content: SliderPreview, parameter: str) -> Tables:
    """Return one table with the states at many values; for long data, half of the values come first."""
    state, values = view.state, VALUES[parameter][1]
    assert state.result is not None
    parts = [values]
    if _count_samples(view, content.trials) > FINE:
        values = [*values[:-1:2], values[-1]]
        parts = [values[::2], values[1::2]]
    found: dict[float, Any] = {}
    pending = False
    for number, part in enumerate(parts):
        args = (view.dataset.train, view.dataset.test, content.trials, parameter, part)
        key = query_key(state.result.key, inference.sweep, args)
        query = view.fit.preview_queries.ask(
            f"sweep-{parameter}-{number}", key, inference.sweep, state.result.model_bytes, *args
        )
        pending |= query.pending
        if query.fresh:
            found |= zip(part, query.value, strict=True)
    if not found:
        return Tables(more=pending)
    known = sorted(found)
    name = _name(view, content, parameter, known)

    def make_table() -> dict[str, Any]:
        soft = (tuple(levels / np.float32(255) for levels in found[value]) for value in known)
        return encode(known, [content.parts(in_order(states, state.order), None) for states in soft])

    table = state.memoize(("sweep", parameter), make_table, settings=name)
    return Tables(name, {name: table}, content.how(), pending)


# ---- the number of states -----------------------------------------------------------------------------------------
def _tabulate_neighbours(view: View, content: SliderPreview, k: float) -> Tables:
    """Return the tables of all K that are known, and fit the others, the nearest to `k` first."""
    fit, state = view.fit, view.state
    numbers = sorted(range(K_RANGE[0], K_RANGE[1] + 1), key=lambda number: abs(number - k))
    specs = [PageSpec.from_choice(view.dataset, view.choice, n_states=k) for k in numbers]
    more = fit.fit_neighbours(specs)
    name = _name(view, content, "K")
    tables = state.memoize("K", dict, inputs=(fit.colour_anchor,), settings=name)
    lengths = np.cumsum([trial.n_samples for trial in view.dataset.train])
    n_first = min(len(lengths), 1 + int(np.searchsorted(lengths, COLOUR_SAMPLES)))
    for spec in specs:
        if spec.key in tables:
            continue
        found = _find_states(view, content, spec)
        if found:
            order = fit.choose_order(spec, found[:n_first])
            shown = in_order(tuple(found[i] for i in content.trials), order)
            tables[spec.key] = encode([spec.n_states], [content.parts(shown, in_order(found[:n_first], order))])
    return Tables(name, dict(tables), content.how(), more)


def _find_states(view: View, content: SliderPreview, spec: PageSpec) -> States:
    """Return the states of the trials in the model's order, () while unknown."""
    result = view.fit.find(spec)
    if result is None or result.snapshot is None:
        return ()
    states = unpack(result.snapshot, spec.trials)
    if max(content.trials) < len(states):
        return states
    known = result.states
    return () if known is None else tuple(map(known.soft, range(len(known.train) + len(known.test))))


# ---- training replay ----------------------------------------------------------------------------------------------
def _tabulate_replay(view: View, content: SliderPreview) -> Tables:
    """Return one table with the states at every recorded step."""
    result = view.state.result
    assert result is not None
    name = _name(view, content, REPLAY)

    def make_table() -> dict[str, Any]:
        n = len(result.snapshots)
        chosen = np.unique(np.linspace(0, n - 1, min(n, MAX_SNAPSHOTS)).round().astype(int))
        snapshots = [result.snapshots[i] for i in chosen]
        return encode([one.step for one in snapshots], [_replayed_parts(view, content, one) for one in snapshots])

    table = view.state.memoize(REPLAY, make_table, settings=name)
    return Tables(name, {name: table}, content.how(_find_replayed(view, content)))


def _find_replayed(view: View, content: SliderPreview) -> Mapping[str, FigureSpec]:
    """Return the figures that can show the states at an earlier training step."""
    result = view.state.result
    if result is None or len(result.snapshots) < 2:
        return {}
    if content.replayed is not None:
        return content.replayed
    return content.figures if set(content.trials) <= set(result.snapshots[0].preview) else {}


def _replayed_parts(view: View, content: SliderPreview, snapshot: Snapshot) -> Parts:
    """Return the parts of the replayed figures; held-out trials, which they do not show, have zeros."""
    known = in_order(unpack(snapshot, view.dataset.train), view.state.order)
    lengths = [view.dataset.trials[i].n_samples for i in content.trials]
    n_states = len(view.state.order)
    states = tuple(
        known[i] if i < len(known) else np.zeros((length, n_states), np.float32)
        for i, length in zip(content.trials, lengths, strict=True)
    )
    used: set[str] = set()
    for figure in _find_replayed(view, content).values():
        used |= {figure[role] for role in ("part", "bouts") if role in figure} | set(figure.get("rows", {}).values())
    return {part: found for part, found in content.parts(states, None).items() if part in used}
