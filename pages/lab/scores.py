"""Rows of the card: each score next to its best baseline. Scores of bouts are for recordings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdm_core.analysis import score_uncertainty
from gdm_core.units import SECONDS, STEPS, Unit, dwell_unit
from pages.ui.card import Score

TEN_STEPS = 9
Scores = Mapping[str, Any]
Others = Sequence[tuple[str, float]]


def beside_best(
    name: str,
    value: Any,
    lines: Mapping[str, float],
    small: Mapping[str, float] | None = None,
    others: Others = (),
    **more: Any,
) -> Score:
    """Return a score next to the best of its baselines, which may be None; `small` ones are listed below."""
    best = max(lines, key=lambda line: lines[line], default="")
    below = [(line, at) for line, at in (small or {}).items() if line != best]
    return Score(name, float(value), lines.get(best), best, others=[*below, *others], **more)


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
    small = {base: known[base] for base in beside if base in known}
    return beside_best(name, scores[field], lines, small, others, help=help)


def forecast_row(scores: Scores, tested: str, step: str = "") -> Score | None:
    """Return the row of the ten-step forecast next to baselines without states."""
    ahead = at(scores.get("forecast_r2", ()))
    if ahead is None:
        return None
    lines = {"persistence": at(scores["persistence_r2"]), "linear AR(1)": at(scores["ar1_r2"])}
    known = {name: value for name, value in lines.items() if value is not None}
    said = (
        f"How much of what the {tested} does ten steps later the prediction explains: 1 is all of it, 0 no more than its "
        f"mean.{f' {step}' if step else ''}"
    )
    return beside_best("Ten steps ahead (R²)", ahead, known, known, help=said)


def coverage_row(scores: Scores, tested: str) -> Score | None:
    """Return the row of the coverage of the adaptive 90 % interval."""
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
    """Return the row of the log-likelihood next to one linear model; None before it is measured."""
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


def at(values: Sequence[Any], index: int = TEN_STEPS) -> float | None:
    """Return one horizon, if it was measured."""
    return float(values[index]) if index < len(values) and finite(values[index]) else None


def finite(value: Any) -> bool:
    return value is not None and bool(np.isfinite(value))


def known(rows: Sequence[Score | None]) -> list[Score]:
    """Return the rows that were measured."""
    return [row for row in rows if row is not None]


def _span(bound: Any, line: Any) -> tuple[float, float]:
    """Return the ends of the bar, around both values."""
    found = [float(v) for v in (bound, line) if finite(v)]
    if not found:
        return 0.0, 1.0
    low, high = min(found), max(found)
    room = max(1.0, high - low)
    return low - room, high + 0.2 * room


# ---- of recordings ------------------------------------------------------------------------------------------------
LOST = 0.05  # of macro-F1
SUPERVISED = "10-NN on"
SHIFTED = "the same bouts at other times"
_MARGIN = (
    "±: half of the 95 % interval of the difference from what it has to beat, from leaving out each piece of the new trials "
    "in turn, and how much that difference varies with the seed of the fit. "
    f"With fewer than {score_uncertainty.MIN_PIECES} pieces nothing is said."
)
# Of each score against labels: its name, what a guess of the commonest label gets, and its help.
_LABELLED = {
    "macro_f1": (
        "Macro-F1",
        "majority_f1",
        "Mean over behaviours of the balance between missing one and calling it wrongly, on trials that the model has not "
        "seen. Each state stands for its most frequent label in the fitted trials. Rare behaviours count as much as common ones.",
    ),
    "balanced_accuracy": (
        "Balanced accuracy",
        "majority_balanced",
        "Mean share of each behaviour's frames that are called right.",
    ),
    "paper_accuracy": (
        "The paper's accuracy",
        "majority",
        "Ten nearest neighbours from soft states to labels, learned on the fitted trials. Common behaviours count most.",
    ),
}


@dataclass(frozen=True, eq=False)
class Judged:
    """Scores of the displayed result.

    measured   everything that was; `own`: the same of the visitor's own names and mergers
    unit       that of time on the page
    """

    measured: Scores | None
    own: Scores | None
    unit: Unit

    def rows_of(self, found: Scores) -> list[Score]:
        return bout_rows(found, self.unit, self.own)


def bout_rows(found: Scores, unit: Unit = SECONDS, own: Scores | None = None) -> list[Score]:
    """Each score beside what it has to beat; `found` is what bout_scores.scores gives, or so much of it as is measured.

    unit   that of time on the page
    own    the same of the visitor's own names and mergers. They have no verdict: who names may have looked at the new labels
    """
    over = found["pieces"]["in_steps" if unit is STEPS else "words"]
    rows: list[Score] = []
    if "macro_f1" in found:
        for field, (name, _, _) in _LABELLED.items():
            rows.append(_against_labels(found, field, over))
            if own is not None and field in own and field != "paper_accuracy":
                said = (
                    "With the names and mergers that you gave: yours, and not the model's. It has no verdict, since whoever "
                    "names may have seen the labels that it is scored by."
                )
                others = [("automatic", float(found[field]))]
                rows.append(Score(f"{name}, as you named them", float(own[field]), others=others, help=said))
    rows.append(_median_bout(found, unit))
    ours = found.get("r2", {"value": None})
    if ours["value"] is not None and ours["persistence"] is not None:
        fitted = [row["r2"] for row in found["train"] if row["r2"] is not None]
        rows.append(
            Score(
                "Explains new trials (R²)",
                float(ours["value"]),
                float(ours["persistence"]),
                "the sample before",
                spread=ours["margin"],
                others=[("fitted trials", float(np.mean(fitted)))] if fitted else [],
                help=f"Reconstruction of all new trials together: the states have seen what they explain. {_MARGIN}",
                over=over,
                short=ours["margin"] is None,
            )
        )
    return rows


def _against_labels(found: Scores, field: str, over: str) -> Score:
    name, majority, about = _LABELLED[field]
    help = f"{about} {_MARGIN}"
    if "lines" not in found:  # what it has to beat is measured last
        return Score(name, float(found[field]), help=help, over=over)
    guess = {"majority class": float(found[majority])}
    known = {line: float(at[field]) for line, at in found["lines"].items() if at.get(field) is not None} | guess
    supervised = {line: value for line, value in known.items() if line.startswith(SUPERVISED)}
    lines = guess | {line: value for line, value in known.items() if line not in supervised}
    if (shifted := found.get("shifted", {}).get(field)) is not None:
        lines[SHIFTED] = float(shifted)
    others = []
    if field == "macro_f1" and found["raw_macro_f1"] != found["macro_f1"]:
        others.append(("as fitted", float(found["raw_macro_f1"])))
    if supervised:
        best = max(supervised, key=lambda line: supervised[line])
        others.append((f"supervised, {best}", supervised[best]))
    row = beside_best(name, found[field], lines, guess, others, help=help, over=over)
    kind, how = ("paper", "accuracy") if field == "paper_accuracy" else ("bouts", field)
    rival = None if row.line_name == SHIFTED else found["lines"].get(row.line_name, {}).get("counts", {}).get(kind)
    counts = np.array(found["counts"][kind])
    margin = score_uncertainty.margin(counts, None if rival is None else np.array(rival), how)
    return replace(row, spread=margin, short=margin is None)


def lost_by_smoothing(found: Scores) -> str:
    """Return a sentence if smoothing of bouts hides what states tell; "" if not."""
    if found["n_bouts"] <= len(found["test"]) and found["raw_bout_s"] < found["bout_s"]:
        return (
            "Read as set, all of each new trial is one bout: the states change faster than bouts are smoothed over. Smooth "
            "less, or read bouts as fitted."
        )
    if found.get("raw_macro_f1", 0.0) - found.get("macro_f1", 0.0) > LOST:
        return (
            f"Smoothing loses what the states tell: macro-F1 {found['macro_f1']:.3f} with bouts as set, "
            f"{found['raw_macro_f1']:.3f} as fitted. Smooth less, or read bouts as fitted."
        )
    return ""


def _median_bout(found: Scores, page: Unit) -> Score:
    """Return the median bout next to the expert's, in a suitable unit."""
    known = (found.get(name) for name in ("bout_s", "raw_bout_s", "expert_bout_s"))
    ours, raw, theirs = (float("nan") if value is None else float(value) for value in known)
    unit = dwell_unit(max(ours, theirs) if np.isfinite(theirs) else ours, page)
    if not np.isfinite(theirs):
        return Score("Median bout", unit.convert(ours), digits=2, unit=f" {unit.plural}", span=(0, 10))
    return Score(
        "Median bout",
        unit.convert(ours),
        digits=2,
        unit=f" {unit.plural}",
        span=(0, 2 * max(unit.convert(theirs), 0.1)),
        others=[("the expert's", unit.convert(theirs)), ("as fitted", unit.convert(raw))],
        help="Half the length of the expert's bouts or less would be spurious switching.",
    )
