"""Rows of the scorecard: each score next to its best baseline. Scores of bouts are for recordings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gdm_core.analysis import score_uncertainty
from gdm_core.text import format_percent
from gdm_core.units import SECONDS, STEPS, Unit, dwell_unit
from pages.ui.card import PERSISTENCE, Score

TEN_STEPS = 9
BOUND = "ELBO per sample"
Scores = Mapping[str, Any]
Others = Sequence[tuple[str, float]]


def with_best_baseline(
    name: str, value: Any, baselines: Mapping[str, float], small: Mapping[str, float], others: Others = (), **more: Any
) -> Score:
    """Return a score with the best of its baselines, if any, and other references."""
    best = max(baselines, key=lambda line: baselines[line], default="")
    below = [(line, number) for line, number in small.items() if line != best]
    return Score(name, float(value), baselines.get(best), best, others=[*below, *others], **more)


def accuracy_row(
    scores: Scores,
    field: str,
    name: str,
    help: str,
    *,
    is_excluded: Callable[[str], bool] = lambda baseline: False,
    small: Collection[str] = (),
    others: Others = (),
) -> Score | None:
    """Return the row of a score against known states; None without it.

    is_excluded   whether a baseline does not count as one
    small         baselines to list even if they are not the best
    """
    if scores.get(field) is None:
        return None
    known = {
        base: values[field] for base, values in scores.get("baselines", {}).items() if values.get(field) is not None
    }
    baselines = {base: value for base, value in known.items() if not is_excluded(base)}
    listed = {base: known[base] for base in small if base in known}
    return with_best_baseline(name, scores[field], baselines, listed, others, help=help)


def forecast_row(scores: Scores, tested: str, step: str = "") -> Score | None:
    """Return the row of the ten-step forecast next to baselines without states."""
    ahead = _at_horizon(scores.get("forecast_r2", ()))
    if ahead is None:
        return None
    lines = {PERSISTENCE: _at_horizon(scores["persistence_r2"]), "linear AR(1)": _at_horizon(scores["ar1_r2"])}
    known = {name: value for name, value in lines.items() if value is not None}
    help = f"Variance of the {tested} explained ten time steps ahead. {step}".strip()
    return with_best_baseline("Forecast R²", ahead, known, known, help=help)


def coverage_row(scores: Scores, tested: str) -> Score | None:
    """Return the row of the coverage of the adaptive 90% interval."""
    adaptive, fixed, width = (
        _at_horizon(scores.get(name, ())) for name in ("adaptive_90", "coverage_90", "adaptive_width")
    )
    if adaptive is None:
        return None
    help = f"Share of outcomes in the {tested}, ten time steps ahead, inside the adaptive 90% interval."
    if fixed is not None:
        help += f" Fixed intervals cover {format_percent(fixed, 1)}."
    if fixed is not None and width is not None:
        help = f"{help[:-1]}; adaptive ones are {width:.2f} times as wide."
    return Score("90% coverage", 100 * adaptive, digits=1, unit="%", span=(0, 100), target=(90.0, 5.0), help=help)


def bound_row(scores: Scores, tested: str) -> Score | None:
    """Return the row of the ELBO next to one linear model; None before it is measured."""
    if "elbo_test" not in scores:
        return None
    linear, untrained = scores.get("ar1_log_likelihood_test"), scores.get("untrained_elbo_test")
    bound = scores["elbo_test"]
    known = [value for value in (bound, linear) if value is not None and np.isfinite(value)]
    low, high = min(known, default=1.0), max(known, default=1.0)
    room = max(1.0, high - low)
    return Score(
        BOUND,
        float("nan") if bound is None else float(bound),
        linear,
        "linear AR(1)" if linear is not None else "",
        others=[("untrained model", float(untrained))] if untrained is not None and np.isfinite(untrained) else [],
        digits=2,
        span=(low - room, high + 0.2 * room),
        help=f"Lower bound on the log-likelihood of the {tested}, in nats. Compare models on the same data only.",
    )


def _at_horizon(values: Sequence[Any]) -> float | None:
    """Return the value at ten steps, if it was measured."""
    value = values[TEN_STEPS] if len(values) > TEN_STEPS else None
    return float(value) if value is not None and np.isfinite(value) else None


def drop_missing(rows: Sequence[Score | None]) -> list[Score]:
    """Return the rows that were measured."""
    return [row for row in rows if row is not None]


# ---- of recordings ------------------------------------------------------------------------------------------------
LOST = 0.05  # of macro-F1
SUPERVISED = "10-NN on"
SHIFTED = "time-shifted bouts"
PAPER = "10-NN accuracy (paper's metric)"
# Of each score against labels: its name, the score of the majority class, and its help.
_MEAN_ACCURACY = "Mean accuracy over behaviours, on held-out trials."
_LABELLED = {
    "macro_f1": ("Macro-F1", "majority_f1", "Mean F1 over behaviours, on held-out trials; rare ones count equally."),
    "balanced_accuracy": ("Balanced accuracy", "majority_balanced", _MEAN_ACCURACY),
    "paper_accuracy": (PAPER, "majority", "Labels predicted by the ten nearest soft states of the training trials."),
}


def bout_rows(found: Scores, unit: Unit = SECONDS) -> list[Score]:
    """Return rows of the scores measured so far; `unit` is the unit of time on the page."""
    over = found["pieces"]["in_steps" if unit is STEPS else "words"]
    rows: list[Score] = []
    if "macro_f1" in found:
        rows += [_label_row(found, field, over) for field in ("macro_f1", "balanced_accuracy")]
    ours = found.get("r2", {"value": None})
    if ours["value"] is not None and ours["persistence"] is not None:
        fitted = [row["r2"] for row in found["train"] if row["r2"] is not None]
        rows.append(
            Score(
                "Held-out R²",
                float(ours["value"]),
                float(ours["persistence"]),
                PERSISTENCE,
                spread=ours["margin"],
                others=[("training trials", float(np.mean(fitted)))] if fitted else [],
                help="Variance of the held-out trials explained by their own states (reconstruction).",
                over=over,
                short=ours["margin"] is None,
            )
        )
    rows.append(_median_bout(found, unit))
    return [*rows, _label_row(found, "paper_accuracy", over)] if "macro_f1" in found else rows


def _label_row(found: Scores, field: str, over: str) -> Score:
    """Return the row of one score against expert labels."""
    name, majority, help = _LABELLED[field]
    if "lines" not in found:  # baselines are measured last
        return Score(name, float(found[field]), help=help, over=over)
    guess = {"majority class": float(found[majority])}
    known = {line: float(at[field]) for line, at in found["lines"].items() if at.get(field) is not None} | guess
    supervised = [(line, value) for line, value in known.items() if line.startswith(SUPERVISED)]
    baselines = guess | {line: value for line, value in known.items() if not line.startswith(SUPERVISED)}
    if (shifted := found.get("shifted", {}).get(field)) is not None:
        baselines[SHIFTED] = float(shifted)
    others = sorted(supervised, key=lambda line: -line[1])[:1]
    if field == "macro_f1" and found["raw_macro_f1"] != found["macro_f1"]:
        others.insert(0, ("unsmoothed", float(found["raw_macro_f1"])))
    row = with_best_baseline(name, found[field], baselines, guess, others, help=help, over=over)
    kind, how = ("paper", "accuracy") if field == "paper_accuracy" else ("bouts", field)
    rival = None if row.line_name == SHIFTED else found["lines"].get(row.line_name, {}).get("counts", {}).get(kind)
    counts = np.array(found["counts"][kind])
    margin = score_uncertainty.margin(counts, None if rival is None else np.array(rival), how)
    return replace(row, spread=margin, short=margin is None)


def describe_oversmoothing(found: Scores) -> str:
    """Return a sentence if smoothing of bouts hides states; "" if not."""
    if found["n_bouts"] <= len(found["test"]) and found["raw_bout_s"] < found["bout_s"]:
        return "Smoothing leaves one bout per held-out trial. Smooth less, or not at all."
    if found.get("raw_macro_f1", 0.0) - found.get("macro_f1", 0.0) > LOST:
        return (
            f"Smoothing lowers macro-F1 from {found['raw_macro_f1']:.3f} to {found['macro_f1']:.3f}. "
            "Smooth less, or not at all."
        )
    return ""


def _median_bout(found: Scores, page: Unit) -> Score:
    """Return the median bout duration next to the expert's."""
    known = (found.get(name) for name in ("bout_s", "raw_bout_s", "expert_bout_s"))
    ours, raw, theirs = (float("nan") if value is None else float(value) for value in known)
    labelled = bool(np.isfinite(theirs))
    unit = dwell_unit(max(ours, theirs) if labelled else ours, page)
    return Score(
        "Median bout",
        unit.convert(ours),
        digits=2,
        unit=f" {unit.plural}",
        span=(0, 2 * max(unit.convert(theirs), 0.1) if labelled else 10),
        others=[("expert", unit.convert(theirs)), ("unsmoothed", unit.convert(raw))] if labelled else [],
    )
