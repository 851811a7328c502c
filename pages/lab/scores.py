"""Rows of the honest card that pages share: each score beside the best of what it has to beat."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from pages.ui.card import Score

AHEAD = 9  # ten steps
Scores = Mapping[str, Any]
Others = Sequence[tuple[str, float]]


def accuracy_row(
    scores: Scores,
    field: str,
    name: str,
    help: str,
    *,
    no_line: Callable[[str], bool] = lambda baseline: False,
    beside: Collection[str] = (),
    others: Others = (),
) -> Score | None:
    """A score against known states; None where none are known. What it has to beat may be measured later: then it has no line.

    no_line   baselines that are no line to beat
    beside    baselines to show in small where they are not the line
    """
    if scores.get(field) is None:
        return None
    known = {
        base: values[field] for base, values in scores.get("baselines", {}).items() if values.get(field) is not None
    }
    lines = {base: value for base, value in known.items() if not no_line(base)}
    best = max(lines, key=lambda base: lines[base]) if lines else ""
    small = [(base, known[base]) for base in beside if base in known and base != best]
    return Score(name, float(scores[field]), lines.get(best), best, others=[*small, *others], help=help)


def forecast_row(scores: Scores, tested: str, step: str = "") -> Score | None:
    """How well the next ten steps are known, beside guesses that need no states."""
    ahead = at(scores.get("forecast_r2", ()))
    if ahead is None:
        return None
    lines = {"stands still": at(scores["persistence_r2"]), "linear AR(1)": at(scores["ar1_r2"])}
    known = {name: value for name, value in lines.items() if value is not None}
    best = max(known, key=lambda name: known[name]) if known else ""
    return Score(
        "Ten steps ahead (R²)",
        ahead,
        known.get(best),
        best,
        others=[(name, value) for name, value in known.items() if name != best],
        help=f"How much of what the {tested} does ten steps later the prediction explains: 1 is all of it, 0 no more than "
        f"its mean.{f' {step}' if step else ''}",
    )


def coverage_row(scores: Scores, tested: str) -> Score | None:
    """What the 90 % band holds that learns along the trial, and whether that is what it says."""
    held, fixed, wider = (at(scores.get(name, ())) for name in ("adaptive_90", "coverage_90", "adaptive_width"))
    if held is None:
        return None
    instead = "" if fixed is None else f" A band left as the fit calibrated it holds {100 * fixed:.1f} %"
    price = "" if fixed is None or wider is None else f"; this one is {wider:.2f} times as wide"
    return Score(
        "90 % band holds",
        100 * held,
        digits=1,
        unit=" %",
        span=(0, 100),
        target=(90.0, 5.0),
        help=f"Share of what the {tested} really did, ten steps ahead, that falls inside the predicted band. Nine of ten "
        "should: fewer, and the model is too sure of itself; more, and it is too careful. The band learns on the way: after "
        "each outcome it grows a little where it missed and shrinks where it held, and never looks ahead. So in the long run it "
        f"holds its share whatever the data do; the price is width.{instead}{price}{'.' * bool(instead)}",
    )


def bound_row(scores: Scores, tested: str) -> Score | None:
    """How well the model as a whole explains the data, beside one linear model; None before that is measured."""
    if "elbo_test" not in scores:
        return None
    linear, untrained = scores.get("ar1_log_likelihood_test"), scores.get("untrained_elbo_test")
    bound = scores["elbo_test"]
    return Score(
        f"Log-likelihood a step, {tested}",
        float("nan") if bound is None else float(bound),
        linear,
        "linear AR(1)" if linear is not None else "",
        others=[("untrained model", float(untrained))] if untrained is not None and finite(untrained) else [],
        digits=2,
        span=_span(bound, linear),
        help=f"How well the model as a whole explains each step of the {tested} (a lower bound on the log-likelihood, the ELBO, "
        "in nats: one nat more, and the data are 2.7 times as likely). Hold it against the line, not against other data, and not "
        "against the forecast density on the Compare page: that is told before the step is seen, by a Gaussian around the "
        "forecast, so that models which bound different things compete on equal terms.",
    )


def at(values: Sequence[Any], index: int = AHEAD) -> float | None:
    """One horizon, where it was measured."""
    return float(values[index]) if index < len(values) and finite(values[index]) else None


def finite(value: Any) -> bool:
    return value is not None and bool(np.isfinite(value))


def known(rows: Sequence[Score | None]) -> list[Score]:
    """The rows that could be measured."""
    return [row for row in rows if row is not None]


def _span(bound: Any, line: Any) -> tuple[float, float]:
    """Ends of the bar: from a little below the worse to a little above the better."""
    found = [float(v) for v in (bound, line) if finite(v)]
    if not found:
        return 0.0, 1.0
    low, high = min(found), max(found)
    room = max(1.0, high - low)
    return low - room, high + 0.2 * room
