"""The rows of the card: how well bouts match expert labels, beside what they have to beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pages.behaviour.units import unit_for
from pages.ui.card import Score

SUPERVISED = "10-NN on"


def score_rows(found: Mapping[str, Any], lines: Mapping[str, Mapping[str, float | None]] | None) -> list[Score]:
    """Each score beside what it has to beat. While `lines` are not known (None) those that need them have no verdict."""
    rows = []
    if "macro_f1" in found:
        labelled = [
            _labelled(found, lines or {}, "macro_f1", "Macro-F1", "majority_f1", "majority_f1", _F1_HELP),
            _labelled(
                found, lines or {}, "balanced_accuracy", "Balanced accuracy", "majority_balanced", None, _BALANCED_HELP
            ),
            _labelled(found, lines or {}, "paper_accuracy", "The paper's accuracy", "majority", "majority", _PAPER),
        ]
        rows += labelled if lines is not None else [_undecided(row) for row in labelled]
    rows.append(_bout_row(found))
    ours = [row["r2"] for row in found["test"] if row["r2"] is not None]
    before = [row["persistence"] for row in found["test"] if row["persistence"] is not None]
    if ours and before:
        gain = np.array(ours[: len(before)]) - np.array(before[: len(ours)])
        rows.append(
            Score(
                "Explains new trials (R²)",
                float(np.mean(ours)),
                float(np.mean(before)),
                "the sample before",
                spread=float(np.std(gain)) if len(gain) > 1 else None,
                others=[("fitted trials", float(np.mean([r["r2"] for r in found["train"] if r["r2"] is not None])))],
                help="Reconstruction of each trial, averaged over trials: the states have seen what they explain.",
            )
        )
    return rows


def _bout_row(found: Mapping[str, Any]) -> Score:
    """The median bout, beside the expert's, in a unit that suits both."""
    ours, raw, theirs = (_finite(found.get(name)) for name in ("bout_s", "raw_bout_s", "expert_bout_s"))
    unit = unit_for(max(ours, theirs) if np.isfinite(theirs) else ours)
    if not np.isfinite(theirs):
        return Score("Median bout", unit.of(ours), digits=2, unit=f" {unit.name}", span=(0, 10))
    return Score(
        "Median bout",
        unit.of(ours),
        digits=2,
        unit=f" {unit.name}",
        span=(0, 2 * max(unit.of(theirs), 0.1)),
        others=[("the expert's", unit.of(theirs)), ("as fitted", unit.of(raw))],
        help="Half the length of the expert's bouts or less would be spurious switching.",
    )


def _undecided(row: Score) -> Score:
    """The score with what is known besides, and no verdict before everything that it has to beat is known."""
    known = [(row.line_name, row.line), *row.others] if row.line is not None else list(row.others)
    return replace(row, line=None, line_name="", spread=None, others=known)


_F1_HELP = (
    "Mean over behaviours of the balance between missing one and calling it wrongly, on trials that the model has not "
    "seen. Each state stands for its most frequent label in the fitted trials. Rare behaviours count as much as common ones."
)
_BALANCED_HELP = "Mean share of each behaviour's frames that are called right."
_PAPER = (
    "Ten nearest neighbours from soft states to labels, learned on the fitted trials. Common behaviours count most."
)


def _labelled(
    found: Mapping[str, Any],
    lines: Mapping[str, Mapping[str, float | None]],
    field: str,
    name: str,
    majority: str,
    each: str | None,
    help: str,
) -> Score:
    known = {"majority class": float(found[majority])}
    taught = {}
    for line, values in lines.items():
        value = values.get(field)
        if value is not None and line != "majority class":
            (taught if line.startswith(SUPERVISED) else known)[line] = float(value)
    best = max(known, key=lambda line: known[line])
    gains = [row[field] - row[each] for row in found["test"] if each is not None and field in row]
    others = [("majority class", known["majority class"])] if best != "majority class" else []
    if field == "macro_f1" and found["raw_macro_f1"] != found["macro_f1"]:
        others.append(("as fitted", float(found["raw_macro_f1"])))
    if taught:
        teacher = max(taught, key=lambda line: taught[line])
        others.append((f"taught by labels, {teacher}", taught[teacher]))
    spread = float(np.std(gains)) if len(gains) > 1 else None
    return Score(name, float(found[field]), known[best], best, spread=spread, others=others, help=help)


def _finite(value: float | None) -> float:
    return float("nan") if value is None else float(value)
