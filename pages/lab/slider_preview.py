"""Slider preview: while temperature, stickiness or K is dragged, the browser draws from tables of states.

For temperature and stickiness they come from one sweep of the fitted model, for K from fits of neighbouring K. The browser
interpolates between values. No script runs before the release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import streamlit as st

from gdm_core.analysis import inference
from gdm_core.analysis.matching import in_order
from gdm_core.models.registry import ADJUSTABLE, WARM_CHANGES
from pages.channel import Tables, channel
from pages.lab import replay, state_tables
from pages.lab.live import Query
from pages.lab.live.state import unpack
from pages.lab.preview_figures import SliderPreview
from pages.lab.spec import PageSpec
from pages.lab.state_tables import Array
from pages.lab.view import View, query_key
from pages.ui import settings
from pages.ui.component import component
from pages.ui.model_controls import GAMMA_RANGE, K_RANGE, TAU_RANGE

VALUES = {
    "temperature": ("tau", np.geomspace(*TAU_RANGE, 32).round(4).tolist()),
    "stickiness": ("gamma", np.linspace(*GAMMA_RANGE, 24).round(4).tolist()),
}
PARAMETERS = {key: parameter for parameter, (key, _) in VALUES.items()}
FINE = 6_000  # samples; for more, every second value is computed
MAX_SAMPLES = 60_000  # samples per value; a tenth of a second for 20,000
COLOUR_SAMPLES = 6_000  # of training trials, whose states decide the colours of another K
N_NEAR = 4  # neighbouring K that are fitted when the pointer comes near; all of them once it drags
TABLES = "tables"


@dataclass(frozen=True, eq=False)
class _KeptTables:
    """The tables made last.

    name    fit, slider, trials and colours that they depend on
    anchor  states whose colours those of K follow
    """

    name: str
    tables: Mapping[str, dict[str, Any]]
    anchor: Any = None


def preview(view: View, content: SliderPreview) -> None:
    """Let the browser draw `content` while a slider of the model is dragged, and replay training.

    The browser says over the channel when the pointer comes near; tables are computed from then on.
    """
    k_key = settings.key("K", view.choice.of)
    offers: dict[str, str] = {}
    sweeps: dict[str, list[_Sweep]] = {}
    if view.fit.running:
        view.fit.preview_queries.cancel_all()
        offers = dict.fromkeys((*PARAMETERS, k_key, replay.KEY), "")
    elif view.filtered is None and view.state.status == "fresh":
        sweeps = {key: found for key in PARAMETERS if (found := _make_sweeps(view, content, PARAMETERS[key]))}
        offers = {key: found[0].name for key, found in sweeps.items()}
        if specs := _neighbours(view, content):
            offers[k_key] = specs[0].key
        if name := replay.name_tables(view, content):
            offers[replay.KEY] = name

    def tables(key: str, held: bool, value: float) -> Tables:
        if not offers.get(key):  # the browser may send anything
            return Tables()
        if key == replay.KEY:
            return replay.make_tables(view, content)
        if key != k_key:
            return _sweep_tables(view, content, sweeps[key])
        return _neighbour_tables(view, content, value if held else None)

    channel().scene.tables = tables
    with st.container(key="slider-preview-place"):
        component("slider_preview")(key="slider-preview", data={"offers": offers})


def _count_samples(view: View, content: SliderPreview, parameter: str) -> int:
    """Return how many samples are read for each value; 0 if the page has nothing to draw."""
    refits = parameter not in ADJUSTABLE.get(view.choice.family, ())
    read = {*content.trials, *(range(len(view.dataset.train)) if refits and content.trials else ())}
    return sum(view.dataset.trials[i].n_samples for i in read)


# ---- temperature and stickiness -----------------------------------------------------------------------------------
class _Sweep:
    """A query for the states of some trials at some values of a parameter."""

    def __init__(self, view: View, slot: str, content: SliderPreview, parameter: str, values: Sequence[float]) -> None:
        assert view.state.result is not None
        asked = (view.dataset.train, view.dataset.test, content.trials, parameter, list(values))
        self.name, self.values = query_key(view.state.result.key, inference.sweep, asked), values
        self._queries, self._slot = view.fit.preview_queries, slot
        self._args = (view.state.result.model_bytes, *asked)

    def query(self) -> Query:
        found = self._queries.ask(self._slot, self.name, inference.sweep, *self._args)
        if found.fresh:
            self._queries.keep_latest(self._slot)
        return found


def _make_sweeps(view: View, content: SliderPreview, parameter: str) -> list[_Sweep]:
    """Return one sweep, two for long data (some values come first), none if the family cannot be swept."""
    family = view.choice.family
    known = parameter in ADJUSTABLE.get(family, ()) or parameter in WARM_CHANGES.get(family, ())
    samples = _count_samples(view, content, parameter)
    if view.state.result is None or not known or not 0 < samples <= MAX_SAMPLES or view.state.n_states < 2:
        return []
    values = VALUES[parameter][1]
    rounds = [values]
    if samples > FINE:
        values = [*values[:-1:2], values[-1]]
        rounds = [[*values[:-1:4], values[-1]], [value for i, value in enumerate(values[:-1]) if i % 4]]
    return [_Sweep(view, f"sweep-{parameter}-{i}", content, parameter, part) for i, part in enumerate(rounds)]


def _sweep_tables(view: View, content: SliderPreview, sweeps: Sequence[_Sweep]) -> Tables:
    order = view.state.order
    queries = [sweep.query() for sweep in sweeps]
    fresh = [(sweep, query.value) for sweep, query in zip(sweeps, queries, strict=True) if query.fresh]
    more = any(query.pending for query in queries)
    found = {value: soft for sweep, every in fresh for value, soft in zip(sweep.values, every, strict=True)}
    if not found or next(iter(found.values()))[0].shape[1] != len(order):
        return Tables(more=more)
    name = state_tables.digest([sweep.name for sweep, _ in fresh], order, content.settings)
    kept: _KeptTables | None = view.fit.memory.get(TABLES)
    if kept is None or kept.name != name:
        values = sorted(found)
        shares = (tuple(levels / np.float32(255) for levels in found[value]) for value in values)
        parts = [content.parts(in_order(soft, order), None) for soft in shares]
        kept = view.fit.memory[TABLES] = _KeptTables(name, {name: state_tables.encode(values, parts)})
    return Tables(name, kept.tables, content.how(), more)


# ---- the number of states -----------------------------------------------------------------------------------------
def _neighbours(view: View, content: SliderPreview, thumb: float | None = None) -> list[PageSpec]:
    """Return the fits of all K, the nearest to the thumb (or the current one) first."""
    if not content.other_k or not 0 < _count_samples(view, content, "n_states") <= MAX_SAMPLES:
        return []
    here, (low, high) = view.choice.n_states if thumb is None else thumb, K_RANGE
    numbers = sorted(range(low, high + 1), key=lambda k: (abs(k - here), k))
    return [PageSpec.from_choice(view.dataset, view.choice, view.spec.measure, n_states=k) for k in numbers]


def _neighbour_tables(view: View, content: SliderPreview, thumb: float | None) -> Tables:
    """Return the tables of the K that are known, and fit the others at low priority."""
    fit, state = view.fit, view.state
    specs = _neighbours(view, content, thumb)[: None if thumb is not None else 1 + N_NEAR]
    more = fit.fit_neighbours(specs)
    name = state_tables.digest(
        "K", "" if state.result is None else state.result.key, state.order, content.trials, content.settings
    )
    anchor = fit.colour_anchor
    kept: _KeptTables | None = fit.memory.get(TABLES)
    before = kept.tables if kept is not None and kept.name == name and kept.anchor is anchor else {}
    n_first = _count_first(view)
    tables: dict[str, dict[str, Any]] = {}
    for spec in specs:
        if spec.key in before:
            tables[spec.key] = before[spec.key]
            continue
        found, pending = _find_states(view, content, spec)
        more |= pending
        if found is None:
            continue
        first = tuple(found[i] for i in range(n_first))
        order = fit.choose_order(spec, first)
        shown = in_order(tuple(found[i] for i in content.trials), order)
        tables[spec.key] = state_tables.encode([spec.n_states], [content.parts(shown, in_order(first, order))])
    fit.memory[TABLES] = _KeptTables(name, tables, anchor)
    return Tables(name, tables, content.how(), more)


def _count_first(view: View) -> int:
    """Return how many of the first training trials decide the colours of another K."""
    lengths = np.cumsum([trial.n_samples for trial in view.dataset.train])
    return min(len(lengths), 1 + int(np.searchsorted(lengths, COLOUR_SAMPLES)))


def _find_states(view: View, content: SliderPreview, spec: PageSpec) -> tuple[Mapping[int, Array] | None, bool]:
    """Return (states [T, K] by trial in the model's order, None while some are unknown; whether they are pending)."""
    result = view.fit.find(spec)
    if result is None or result.snapshot is None:
        return None, False
    known = dict(enumerate(unpack(result.snapshot, spec.trials)))
    if view.look is not None and view.state.result is not None and spec.key == view.state.result.key:
        known |= dict(enumerate((*view.look.train, *view.look.test)))
    missing = [i for i in content.trials if i not in known]
    if not missing:
        return known, False
    trials = replace(view.dataset.train, trials=tuple(view.dataset.trials[i] for i in missing))
    key = query_key(result.key, inference.soft_states, [trials])
    query = view.fit.preview_queries.ask(f"K-{spec.n_states}", key, inference.soft_states, result.model_bytes, trials)
    if not query.fresh:
        return None, query.pending
    return known | dict(zip(missing, query.value, strict=True)), False
