"""Scores against the temperature and the number of states, below their sliders, from fits of low priority."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from html import escape

from gdm_core.analysis.inference import quick_scores
from gdm_core.engine import Priority
from gdm_core.errors import GdmError
from gdm_studio.seeds import more_seeds
from pages.lab import live
from pages.lab.live.queries import query_key
from pages.lab.live.state import PageSpec
from pages.lab.view import View
from pages.ui.model_controls import K_RANGE, TAU_RANGE
from pages.ui.plot import Panel, Text, by_key

# Of each parameter: its range, the values to fit, and its symbol.
VALUES = {
    "n_states": (K_RANGE, (2, 3, 4, 5, 6, 8), "K"),
    "temperature": (TAU_RANGE, (0.1, 0.3, 0.6, 0.99, 1.5, 3.0), "τ"),
}
AT_ONCE = 3  # questions, to keep all workers busy
MAX_FIT_S = 3.0  # slower fits would keep a processor busy for long after each change
NAMES = {"matched_accuracy": "State accuracy", "elbo_test": "Held-out score"}  # the first that is known is drawn
WAITING = '<div class="gdm-curve"><p>Scores at other values follow in idle time.</p></div>'
SAME = 0.01  # smaller differences are ignored


def is_quick(view: View) -> bool:
    """Return whether fits of other settings may run in idle time."""
    result = view.state.result
    slow = result is not None and result.seconds > MAX_FIT_S
    return more_seeds() > 0 and not slow and not view.dataset.recordings


def ask_scores(view: View, name: str, spec: PageSpec) -> live.Query:
    """Return the quick scores of another fit of these data, computed as two jobs of low priority."""
    queries, data = view.fit.queries, (spec.trials, spec.dataset.test)
    key = query_key(spec.key, quick_scores, data)
    if (known := queries.find(name, key)) is not None:
        return live.Query(known, fresh=True)
    fit = queries.ask_fit(f"{name}-fit", spec)
    if not fit.fresh:
        return fit
    model, kept = fit.value.model_bytes, view.dataset.keep
    return queries.ask(name, key, quick_scores, model, *data, kept=kept, priority=Priority.LOW)


def show_curves(view: View) -> None:
    """Draw the curves of the parameters that have a place below their slider."""
    places = view.frame.curves
    latest: tuple[int, dict[str, Panel]] = -1, {}

    def make(_: live.FitState) -> dict[str, Panel]:
        nonlocal latest
        view.fit.queries.collect()
        if latest[0] != view.fit.queries.n_news:
            panels = by_key(*(Text(_draw(view, name), f"curve-{name}") for name in places))
            latest = view.fit.queries.n_news, panels
        return latest[1]

    if places:
        live.draw_panels(view.fit, make, {f"curve-{name}": place for name, place in places.items()})


def _draw(view: View, parameter: str) -> str:
    """Return the curve as HTML, with the values that are known; ask for the next ones."""
    if not is_quick(view) or parameter not in view.spec.config:
        return ""
    spec = view.state.spec
    if not view.settled or spec is None:
        return WAITING
    now, values = float(spec.config[parameter]), VALUES[parameter][1]
    known: dict[float, Mapping[str, float]] = {}
    n_pending = 0
    for value in sorted(values, key=lambda value: abs(value - now)):
        other = replace(spec, config={**spec.config, parameter: value}, test=None)
        try:
            query = ask_scores(view, f"{parameter}-{value}", other)
        except GdmError:  # more states than samples
            continue
        if query.fresh:
            known[value] = query.value
        n_pending += query.pending
        if n_pending == AT_ONCE:
            break
    return curve_html(parameter, known)


def curve_html(parameter: str, known: Mapping[float, Mapping[str, float]]) -> str:
    """Return a bar for each known value, at its place below the slider, and the range in words."""
    (low, high), _, symbol = VALUES[parameter]
    score = next((name for name in NAMES if all(name in scores for scores in known.values())), "")
    heights = {value: at for value in sorted(known) if math.isfinite(at := known[value].get(score, math.nan))}
    if len(heights) < 2:
        return WAITING
    least, most = min(heights.values()), max(heights.values())
    best = [value for value in heights if most - heights[value] < SAME]
    reach = max(most - least, SAME)
    bars = "".join(
        f'<i style="left:{100 * (value - low) / (high - low):.1f}%;height:{15 + 85 * (height - least) / reach:.0f}%"'
        f"{' class=best' if value in best else ''}></i>"
        for value, height in heights.items()
    )
    first, *others = (f"{value:g}" for value in best)
    verdict = f"best at {symbol} {', '.join([first, *others])}"
    if len(best) == len(heights):
        verdict = f"hardly depends on {symbol}"
    elif parameter == "n_states" and others:
        verdict = f"{symbol} {first} is enough, {', '.join(others)} no better"
    words = f"{NAMES[score]} {least:.2f} to {most:.2f}: {verdict}"
    every = ", ".join(f"{symbol} {value:g}: {height:.3f}" for value, height in heights.items())
    return (
        f'<div class="gdm-curve"><div role="img" aria-label="{escape(every)}">{bars}</div><p>{escape(words)}</p></div>'
    )
