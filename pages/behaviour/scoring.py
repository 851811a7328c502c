"""What is measured on the workers: how well bouts match expert labels, trial by trial, beside what they have to beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gdm_core.trials import UNLABELLED, Trial, Trials
from pages.behaviour.bouts import BoutRule, median_bout
from pages.behaviour.units import unit_for
from pages.ui.card import Score

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

MAX_NEIGHBOURS = 20_000
MAX_BASELINE_SAMPLES = 30_000


def measure(
    model_bytes: bytes, train: Trials, test: Trials, smooth_s: float, shortest_s: float, seed: int = 0
) -> dict[str, Any]:
    """Scores of all test trials together and of each, as plain values.

    States become labels by the most frequent label of each in the fitted trials. "raw" scores leave out the smoothing.
    """
    from pages.ui.results import read

    model = read(model_bytes)
    rule = BoutRule(smooth_s, shortest_s)
    soft = [np.asarray(s, np.float32) for s in model.predict_proba(train)]
    soft_test = [np.asarray(s, np.float32) for s in model.predict_proba(test)]
    hard = [rule.labels(s, trial.rate_hz) for s, trial in zip(soft, train, strict=True)]
    hard_test = [rule.labels(s, trial.rate_hz) for s, trial in zip(soft_test, test, strict=True)]
    found: dict[str, Any] = {
        "train": [_fit_of(model, trial) for trial in train],
        "test": [_fit_of(model, trial) for trial in test],
        "bout_s": median_bout(hard_test) / test[0].rate_hz,
        "raw_bout_s": median_bout([s.argmax(axis=1) for s in soft_test]) / test[0].rate_hz,
    }
    known, truth = labels_of(train), labels_of(test)
    kinds = [_kinds(known), _kinds(truth)]
    if min(kinds) == 1:
        found["alone"] = "fitted" if kinds[0] == 1 else "new"
    elif min(kinds) > 1:
        found |= _against_labels(found["test"], soft, soft_test, hard, hard_test, known, truth, seed)
        found["expert_bout_s"] = median_bout(truth) / test[0].rate_hz
    return found


def _kinds(labels: list[npt.NDArray[np.int64]]) -> int:
    """How many behaviours are labelled. With one alone, whoever names it is right, and a score says nothing."""
    joined = np.concatenate(labels)
    return len(np.unique(joined[joined != UNLABELLED]))


def _fit_of(model: StateModel, trial: Trial) -> dict[str, Any]:
    """How well one trial is explained, beside the sample before."""
    from gdm_core.analysis.metrics import persistence, r2

    return {
        "name": trial.name,
        "samples": trial.n_samples,
        "r2": _number(r2(trial.y, model.smooth(trial))),
        "persistence": _number(r2(trial.y, persistence(trial.y))),
    }


def _against_labels(
    rows: list[dict[str, Any]],
    soft: list[Any],
    soft_test: list[Any],
    hard: list[Any],
    hard_test: list[Any],
    known: list[Any],
    truth: list[Any],
    seed: int,
) -> dict[str, Any]:
    from gdm_core.analysis.metrics import balanced_accuracy, macro_f1, majority_map

    n_states = soft[0].shape[1]
    labels, seen = np.concatenate(known), np.concatenate(truth)
    mapping = majority_map(np.concatenate(hard), labels, n_states)
    raw_mapping = majority_map(np.concatenate(soft).argmax(axis=1), labels, n_states)
    named, raw = mapping[np.concatenate(hard_test)], raw_mapping[np.concatenate(soft_test).argmax(axis=1)]
    constant = majority_map(np.zeros(len(labels), np.int64), labels, 1)[0]
    neighbours = _neighbours(np.concatenate(soft), labels, seed)
    for row, states, z, expert in zip(rows, soft_test, hard_test, truth, strict=True):
        here = expert != UNLABELLED
        if not here.any():
            continue
        row["paper_accuracy"] = float((neighbours.predict(states[here]) == expert[here]).mean())
        row["majority"] = float((expert[here] == constant).mean())
        row["accuracy"] = float((mapping[z][here] == expert[here]).mean())
        row["balanced_accuracy"] = balanced_accuracy(mapping[z], expert)
        row["majority_balanced"] = balanced_accuracy(np.full(len(expert), constant), expert)
        row["macro_f1"] = macro_f1(mapping[z], expert)
        row["majority_f1"] = macro_f1(np.full(len(expert), constant), expert)
    everything = np.concatenate(soft_test)[seen != UNLABELLED]
    return {
        "mapping": mapping.tolist(),
        "macro_f1": macro_f1(named, seen),
        "raw_macro_f1": macro_f1(raw, seen),
        "majority_f1": macro_f1(np.full(len(seen), constant), seen),
        "balanced_accuracy": balanced_accuracy(named, seen),
        "majority_balanced": balanced_accuracy(np.full(len(seen), constant), seen),
        "accuracy": float((named == seen)[seen != UNLABELLED].mean()),
        "majority": float((seen == constant)[seen != UNLABELLED].mean()),
        "paper_accuracy": float((neighbours.predict(everything) == seen[seen != UNLABELLED]).mean()),
    }


def _neighbours(states: npt.NDArray[Any], labels: npt.NDArray[Any], seed: int) -> Any:
    """The paper's reading of states: ten nearest neighbours, of at most 20,000 labelled samples."""
    from sklearn.neighbors import KNeighborsClassifier

    rows = np.flatnonzero(labels != UNLABELLED)
    if len(rows) > MAX_NEIGHBOURS:
        rows = np.random.default_rng(seed).choice(rows, MAX_NEIGHBOURS, replace=False)
    return KNeighborsClassifier(min(10, len(rows))).fit(states[rows], labels[rows])


def baselines(train: Trials, test: Trials, n_states: int, seed: int = 0) -> dict[str, dict[str, float | None]]:
    """Scores of what needs no dynamics, on the same trials. Long sets are measured on their first trials."""
    from gdm_core.analysis.metrics import state_baselines

    if min(_kinds(labels_of(test)), _kinds(labels_of(train))) < 2:
        return {}
    lines = state_baselines(_head(train), _head(test), n_states, seed)
    names = ("macro_f1", "balanced_accuracy", "paper_accuracy")
    return {line: {name: getattr(scores, name) for name in names} for line, scores in lines.items()}


def _head(trials: Trials) -> Trials:
    kept, left = [], MAX_BASELINE_SAMPLES
    for trial in trials:
        if left < 2:
            break
        kept.append(trial if trial.n_samples <= left else trial.slice(0, left))
        left -= trial.n_samples
    return replace(trials, trials=tuple(kept))


def labels_of(trials: Trials) -> list[npt.NDArray[np.int64]]:
    return [
        np.full(t.n_samples, UNLABELLED, np.int64) if t.labels is None else np.asarray(t.labels, np.int64)
        for t in trials
    ]


# ---- the rows of the card -----------------------------------------------------------------------------------------
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
SUPERVISED = "10-NN on"


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


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _finite(value: float | None) -> float:
    return float("nan") if value is None else float(value)
