"""The rows of the card: how well bouts match expert labels, beside what they have to beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdm_core.analysis import score_uncertainty
from pages.ui.card import Score
from pages.ui.units import SECONDS, STEPS, Unit, unit_of_stays

LOST = 0.05  # of macro-F1
SUPERVISED = "10-NN on"
SHIFTED = "the same bouts at other times"


_MARGIN = (
    "±: half of the 95 % interval of the difference from what it has to beat, from leaving out each piece of the new trials "
    "in turn, and how much that difference varies with the seed of the fit. "
    f"With fewer than {score_uncertainty.ENOUGH} pieces nothing is said."
)


@dataclass(frozen=True, eq=False)
class Judged:
    """What was measured of the result that stands.

    measured   everything that was; `own`: the same of the visitor's own names and mergers
    unit       that of time on the page
    """

    measured: Mapping[str, Any] | None
    own: Mapping[str, Any] | None
    unit: Unit

    def rows_of(self, found: Mapping[str, Any]) -> list[Score]:
        """The rows of the card."""
        return by_words(with_own(score_rows(found, self.unit), found, self.own), found)


def score_rows(found: Mapping[str, Any], unit: Unit = SECONDS) -> list[Score]:
    """Each score beside what it has to beat; `found` is what bout_scores.scores gives, or so much of it as is measured; `unit`
    that of time on the page."""
    rows = []
    over = found["pieces"]["in_steps" if unit is STEPS else "words"]
    if "macro_f1" in found:
        rows += [
            _labelled(found, "macro_f1", "Macro-F1", "majority_f1", _F1_HELP, over),
            _labelled(found, "balanced_accuracy", "Balanced accuracy", "majority_balanced", _BALANCED_HELP, over),
            _labelled(found, "paper_accuracy", "The paper's accuracy", "majority", _PAPER, over),
        ]
    rows.append(_bout_row(found, unit))
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


def with_own(rows: list[Score], found: Mapping[str, Any], own: Mapping[str, Any] | None) -> list[Score]:
    """The rows, with scores of the visitor's own names and mergers beside the automatic ones, marked as theirs.

    These have no verdict: who names may have looked at the new trials' labels.
    """
    made = list(rows)
    for name, field in (("Macro-F1", "macro_f1"), ("Balanced accuracy", "balanced_accuracy")):
        at = next((i for i, row in enumerate(made) if row.name == name), None)
        if own is None or field not in own or at is None:
            continue
        made.insert(
            at + 1,
            Score(
                f"{name}, as you named them",
                float(own[field]),
                others=[("automatic", float(found[field]))],
                help="With the names and mergers that you gave: yours, and not the model's. It has no verdict, since "
                "whoever names may have seen the labels that it is scored by.",
            ),
        )
    return made


def by_words(rows: list[Score], found: Mapping[str, Any]) -> list[Score]:
    """The rows, after one on what a fit that was taught words calls the moments of the new trials, where that was measured."""
    named = found.get("by_words")
    if named is None:
        return rows
    own = Score(
        "Your words on new trials (macro-F1)",
        float(named["macro_f1"]),
        float(named["majority"]),
        "always saying one word",
        others=[("calibration error", float(named["calibration_error"]))],
        help="The likeliest word of each moment against the expert's label, where they are called alike; nothing of the new "
        "trials is taught. Calibration error: how far, on average, a word's probability is from how often it is right.",
    )
    return [own, *rows]


def lost_by_smoothing(found: Mapping[str, Any]) -> str:
    """What to say where bouts as they are read hide what the states tell; "" where they do not."""
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


def _bout_row(found: Mapping[str, Any], page: Unit) -> Score:
    """The median bout, beside the expert's, in a unit that suits both."""
    ours, raw, theirs = (_finite(found.get(name)) for name in ("bout_s", "raw_bout_s", "expert_bout_s"))
    unit = unit_of_stays(max(ours, theirs) if np.isfinite(theirs) else ours, page)
    if not np.isfinite(theirs):
        return Score("Median bout", unit.of(ours), digits=2, unit=f" {unit.plural}", span=(0, 10))
    return Score(
        "Median bout",
        unit.of(ours),
        digits=2,
        unit=f" {unit.plural}",
        span=(0, 2 * max(unit.of(theirs), 0.1)),
        others=[("the expert's", unit.of(theirs)), ("as fitted", unit.of(raw))],
        help="Half the length of the expert's bouts or less would be spurious switching.",
    )


_F1_HELP = (
    "Mean over behaviours of the balance between missing one and calling it wrongly, on trials that the model has not "
    "seen. Each state stands for its most frequent label in the fitted trials. Rare behaviours count as much as common ones."
)
_BALANCED_HELP = "Mean share of each behaviour's frames that are called right."
_PAPER = (
    "Ten nearest neighbours from soft states to labels, learned on the fitted trials. Common behaviours count most."
)


def _labelled(found: Mapping[str, Any], field: str, name: str, majority: str, help: str, over: str) -> Score:
    if "lines" not in found:  # what it has to beat is measured last
        return Score(name, float(found[field]), help=f"{help} {_MARGIN}", over=over)
    lines: Mapping[str, Mapping[str, Any]] = found["lines"]
    known = {"majority class": float(found[majority])}
    taught: dict[str, float] = {}
    for line, values in lines.items():
        value = values.get(field)
        if value is not None and line != "majority class":
            (taught if line.startswith(SUPERVISED) else known)[line] = float(value)
    shifted = found.get("shifted", {}).get(field)
    if shifted is not None:
        known[SHIFTED] = float(shifted)
    best = max(known, key=lambda line: known[line])
    others = [("majority class", known["majority class"])] if best != "majority class" else []
    if field == "macro_f1" and found["raw_macro_f1"] != found["macro_f1"]:
        others.append(("as fitted", float(found["raw_macro_f1"])))
    if taught:
        teacher = max(taught, key=lambda line: taught[line])
        others.append((f"taught by labels, {teacher}", taught[teacher]))
    kind, measured = ("paper", "accuracy") if field == "paper_accuracy" else ("bouts", field)
    rival = None if best == SHIFTED else lines.get(best, {}).get("counts", {}).get(kind)
    margin = score_uncertainty.margin(
        np.array(found["counts"][kind]), None if rival is None else np.array(rival), measured
    )
    return Score(
        name, float(found[field]), known[best], best, spread=margin, others=others, help=f"{help} {_MARGIN}",
        over=over, short=margin is None,
    )  # fmt: skip


def _finite(value: float | None) -> float:
    return float("nan") if value is None else float(value)
