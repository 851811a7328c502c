"""The rows of the honest card, from everything that was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pages.ui.card import Score


def score_rows(scores: Mapping[str, Any]) -> list[Score]:
    """Each score beside what it has to beat."""
    rows = []
    if scores.get("matched_accuracy") is not None:
        rows.append(_accuracy(scores, "matched_accuracy", "Matches the true states", _MATCHED_HELP))
        rows.append(_accuracy(scores, "paper_accuracy", "The paper's accuracy", _PAPER_HELP))
    ahead = _at(scores["forecast_r2"], 9)
    if ahead is not None:
        lines = {"stands still": _at(scores["persistence_r2"], 9), "linear AR(1)": _at(scores["ar1_r2"], 9)}
        known = {name: value for name, value in lines.items() if value is not None}
        best = max(known, key=lambda name: known[name])
        others = [(name, value) for name, value in known.items() if name != best]
        rows.append(
            Score(
                "Ten steps ahead (R²)", ahead, known[best], best, others=others, help="Of the new trial, 1 is perfect."
            )
        )
    held = _at(scores["coverage_90"], 9)
    if held is not None:
        rows.append(
            Score(
                "90 % band holds",
                100 * held,
                digits=1,
                unit=" %",
                span=(0, 100),
                others=[("should hold", 90.0)],
                help="Share of outcomes of the new trial, ten steps ahead, that fall inside the band.",
            )
        )
    linear = scores.get("ar1_log_likelihood_test")
    bound = scores["elbo_test"]
    rows.append(
        Score(
            "ELBO a step, new trial",
            _number(bound),
            linear,
            "linear AR(1)" if linear is not None else "",
            others=[("untrained", scores["untrained_elbo_test"])] if _finite(scores.get("untrained_elbo_test")) else [],
            digits=2,
            span=_span(bound, linear),
            help="A lower bound on the log-likelihood in nats; the line is the likelihood of one linear model.",
        )
    )
    return rows


_MATCHED_HELP = (
    "Share of the new trial's steps whose strongest state is the true one. States are matched on the fitted trial; with "
    "another number of states than four, each stands for its most frequent true state."
)
_PAPER_HELP = (
    "Ten nearest neighbours from soft states to true states, learned on the fitted trial (the paper's measure)."
)


def _accuracy(scores: Mapping[str, Any], field: str, name: str, help: str) -> Score:
    lines = {
        base: values[field]
        for base, values in scores["baselines"].items()
        if values.get(field) is not None and base != "untrained model"
    }
    best = max(lines, key=lambda base: lines[base]) if lines else ""
    untrained = scores["baselines"].get("untrained model", {}).get(field)
    steps = lines.get("k-means on steps")
    others = [("untrained", untrained)] if untrained is not None else []
    if steps is not None and best != "k-means on steps":
        others.append(("k-means on steps", steps))
    return Score(name, scores[field], lines.get(best), best, others=others, help=help)


def _at(values: Any, index: int) -> float | None:
    """One horizon, where it was measured."""
    return float(values[index]) if index < len(values) and _finite(values[index]) else None


def _finite(value: Any) -> bool:
    return value is not None and bool(np.isfinite(value))


def _number(value: Any) -> float:
    return float(value) if value is not None else float("nan")


def _span(bound: Any, line: Any) -> tuple[float, float]:
    """Ends of the bar: from a little below the worse to a little above the better."""
    found = [float(v) for v in (bound, line) if _finite(v)]
    if not found:
        return 0.0, 1.0
    low, high = min(found), max(found)
    room = max(1.0, high - low)
    return low - room, high + 0.2 * room
