"""Scores against the temperature and the number of states, below their sliders, from fits of low priority."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from statistics import stdev
from typing import Any

from gdm_core.analysis.inference import quick_scores
from gdm_core.engine import Priority
from gdm_core.errors import GdmError
from gdm_core.text import MINUS
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
# Of each score: its name, and the verb of its best values. The first that is known is drawn.
NAMES = {"matched_accuracy": ("State accuracy", "best"), "elbo_test": ("Held-out score", "predicts best")}
WAITING = '<div class="gdm-curve"><p>Scores at other values follow in idle time.</p></div>'
SAME = 0.01  # smaller differences are ignored


def is_quick(view: View) -> bool:
    """Return whether fits of other settings may run in idle time."""
    result = view.state.result
    slow = result is not None and result.seconds > MAX_FIT_S
    return more_seeds() > 0 and not slow and not view.dataset.recordings


def ask_scores(
    view: View, name: str, spec: PageSpec, scores: Callable[..., Any] = quick_scores, *options: Any
) -> live.Query:
    """Return scores of another fit, computed as two jobs of low priority when the page waits for nothing else."""
    queries, question = view.fit.queries, (spec.trials, spec.dataset.test, *options)
    key = query_key(spec.key, scores, question)
    if (known := queries.find(name, key)) is not None:
        return live.Query(known, fresh=True)
    if queries.awaited:
        return live.Query(pending=True)
    # Not one job: the same fit may be scored on other held-out trials.
    fit = queries.ask_fit(f"{name}-fit", replace(spec, test=None))
    if not fit.fresh:
        return fit
    model, kept = fit.value.model_bytes, view.dataset.keep
    return queries.ask(name, key, scores, model, *question, kept=kept, priority=Priority.LOW)


def draw_scores(view: View, make: Callable[[], Mapping[str, Panel]], places: Mapping[str, Any] | None = None) -> None:
    """Draw panels that are made again whenever scores arrive, without a script run."""
    queries = view.fit.queries
    latest: tuple[int, Mapping[str, Panel]] = -1, {}

    def draw(_: live.FitState) -> Mapping[str, Panel]:
        nonlocal latest
        queries.collect()
        if latest[0] != queries.n_news:
            latest = queries.n_news, make()
        return latest[1]

    live.draw_panels(view.fit, draw, places)


def show_curves(view: View) -> None:
    """Draw the curves of the parameters that have a place below their slider."""
    places = {f"curve-{name}": place for name, place in view.frame.curves.items()}
    draw_scores(view, lambda: by_key(*(Text(_draw(view, name), f"curve-{name}") for name in view.frame.curves)), places)


def _draw(view: View, parameter: str) -> str:
    """Return the curve as HTML, with the values that are known; ask for the next ones, then for other seeds."""
    if not is_quick(view) or parameter not in view.spec.config:
        return ""
    spec = view.state.spec
    if not view.settled or spec is None:
        return WAITING
    now, seed = float(spec.config[parameter]), int(spec.config["seed"])
    values = sorted(VALUES[parameter][1], key=lambda value: abs(value - now))
    known: dict[str, dict[float, Mapping[str, float]]] = {parameter: {}, "seed": {}}
    n_pending = 0
    for name, value in [
        *((parameter, value) for value in values),
        *(("seed", seed + i) for i in range(more_seeds() + 1)),
    ]:
        try:
            query = ask_scores(view, f"curve-{name}-{value}", replace(spec, config={**spec.config, name: value}))
        except GdmError:  # more states than samples
            continue
        if query.fresh:
            known[name][value] = query.value
        n_pending += query.pending
        if n_pending == AT_ONCE:
            break
    return curve_html(parameter, known[parameter], () if n_pending else [*known["seed"].values()])


def curve_html(
    parameter: str, known: Mapping[float, Mapping[str, float]], seeds: Sequence[Mapping[str, float]] = ()
) -> str:
    """Return a bar for each known value, at its place below the slider, and the range in words.

    seeds   scores of equal settings from several seeds, whose spread is chance; () while they are unknown
    """
    (low, high), _, symbol = VALUES[parameter]
    score = next((name for name in NAMES if all(name in scores for scores in known.values())), "")
    heights = {value: at for value in sorted(known) if math.isfinite(at := known[value].get(score, math.nan))}
    if len(heights) < 2:
        return WAITING
    least, most = min(heights.values()), max(heights.values())
    chance = max(SAME, 2 * stdev([found[score] for found in seeds])) if len(seeds) > 1 else SAME
    best = [value for value in heights if most - heights[value] < chance]
    reach = max(most - least, chance)
    bars = "".join(
        f'<i style="left:{100 * (value - low) / (high - low):.1f}%;height:{15 + 85 * (height - least) / reach:.0f}%"'
        f"{' class=best' if value in best else ''}></i>"
        for value, height in heights.items()
    )
    name, verb = NAMES[score]
    first, *others = (f"{value:g}" for value in best)
    verdict = f": {verb} at {symbol} {', '.join([first, *others])}"
    if len(best) == len(heights):
        verdict = f": hardly depends on {symbol}"
    elif parameter == "n_states" and others and verb == "best":  # what predicts best may merge behaviours
        verdict = f": {symbol} {first} is enough, {', '.join(others)} no better"
    ends = f"{least:.2f} to {most:.2f}".replace("-", MINUS)
    words = f"{name} {ends}{verdict if len(seeds) > 1 else ''}"
    every = ", ".join(f"{symbol} {value:g}: {height:.3f}" for value, height in heights.items()).replace("-", MINUS)
    return (
        f'<div class="gdm-curve"><div role="img" aria-label="{escape(every)}">{bars}</div><p>{escape(words)}</p></div>'
    )
