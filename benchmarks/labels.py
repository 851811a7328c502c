"""Labels on unlabelled recordings: `python -m benchmarks.labels [PART ...] [--json FILE]`.

rats       labelled clips of some rats in ../shared/data (or $GDM_TEST_DATA), scored on other rats, in both directions
within     labelled clips of the first 60% of a recording, scored on the rest

Scores are macro-F1 minus that of the most common label, with random clips of 60 frames in each recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks import report
from benchmarks.recordings import DATA, pairs
from benchmarks.report import Part
from datasets import keypoints
from gdm_core import GDM, LabelModel, Trials
from gdm_core.analysis.state_scores import macro_f1
from gdm_core.labels import calibration_error
from gdm_core.labels.features import window_features
from gdm_core.models.scaling import Scaler

CLIP = 60
N_CLIPS, N_DRAWS = (20, 60), 2  # in each recording
RATS = (3, 10, 15), (20, 24, 30, 1, 8)
Labels = list[npt.NDArray[np.int64]]
Proba = list[npt.NDArray[Any]]


class Case(NamedTuple):
    """Training recordings for labelled clips, and test recordings."""

    name: str
    train: Trials
    test: Trials


def rats() -> Iterator[Case]:
    first, second = (read_rats(numbers) for numbers in RATS)
    yield Case("rats, forth", first, second)
    yield Case("rats, back", second, first)


def read_rats(numbers: tuple[int, ...]) -> Trials:
    paths = [DATA / ("other" if i in (1, 8) else "cohort/rats") / f"rat_pair_{i}.npz" for i in numbers]
    tables = tuple(keypoints.clean(keypoints.read(path), fill_seconds=keypoints.FILL_SECONDS) for path in paths)
    return keypoints.KeypointSet(tables, "rats").to_trials("egocentric")


def within() -> Iterator[Case]:
    for name, train, test in pairs():
        yield Case(f"within {name}", train.to_trials("egocentric"), test.to_trials("egocentric"))


def draw_clips(trials: Trials, n_clips: int, seed: int) -> Labels:
    """Draw labels of `n_clips` clips of each recording; larger draws include smaller ones."""
    found = []
    for i, trial in enumerate(trials):
        known = np.asarray(trial.labels, np.int64)
        labelled = np.zeros(len(known), bool)
        for start in np.random.default_rng([seed, i]).permutation(len(known) // CLIP)[:n_clips] * CLIP:
            labelled[start : start + CLIP] = True
        found.append(np.where(labelled, known, -1))
    classes, count = np.unique(np.concatenate(found), return_counts=True)
    return [np.where(np.isin(part, classes[count == 1]), -1, part) for part in found]


def fit_with_states(case: Case, labels: Labels, seed: int) -> LabelModel:
    model = GDM(n_states=8, n_latent=6, posterior="linear", seed=seed)
    for _ in model.fit_iter(case.train, finish=False):
        pass
    return LabelModel(model, seed=seed).fit(case.train, labels)


def predict_forest(case: Case, labels: Labels, seed: int) -> Proba:
    """Predict with a random forest on the same window features."""
    from sklearn.ensemble import RandomForestClassifier

    scaler = Scaler.from_trials(case.train)
    x, test = ([window_features(scaler.apply(t.y), t.rate_hz) for t in part] for part in (case.train, case.test))
    rows = [np.flatnonzero(part >= 0)[::3] for part in labels]
    forest = RandomForestClassifier(200, class_weight="balanced", min_samples_leaf=3, random_state=seed)
    forest.fit(
        np.concatenate([part[at] for part, at in zip(x, rows, strict=True)]),
        np.concatenate([part[at] for part, at in zip(labels, rows, strict=True)]),
    )
    found = [np.zeros((len(part), len(case.train.label_names))) for part in test]
    for proba, part in zip(found, test, strict=True):
        proba[:, forest.classes_] = forest.predict_proba(part)
    return found


METHODS: dict[str, Callable[[Case, Labels, int], Proba]] = {
    "LabelModel(GDM)": lambda case, labels, seed: fit_with_states(case, labels, seed).predict_proba(case.test),
    "LabelModel()": lambda case, labels, seed: LabelModel(seed=seed).fit(case.train, labels).predict_proba(case.test),
    "random forest": predict_forest,
}


def score(case: Case, proba: Proba) -> npt.NDArray[np.float64]:
    """Return macro-F1 above the majority, calibration error, and true over predicted number of bouts."""
    each = []
    for trial, p in zip(case.test, proba, strict=True):
        truth, predicted = np.asarray(trial.labels), p.argmax(axis=1)
        majority = np.full(len(truth), np.bincount(truth).argmax())
        bouts = np.log((1 + np.count_nonzero(np.diff(truth))) / (1 + np.count_nonzero(np.diff(predicted))))
        each.append((macro_f1(predicted, truth) - macro_f1(majority, truth), calibration_error(p, truth), bouts))
    above, error, ratio = np.mean(each, axis=0)
    return np.array([above, error, np.exp(ratio)])


def transfer(what: str, cases: Iterator[Case]) -> Part:
    """Score every method on every case, averaged over draws of clips."""
    rows: list[list[Any]] = []
    for case in cases:
        for n_clips in N_CLIPS:
            labels = [draw_clips(case.train, n_clips, 1000 + seed) for seed in range(N_DRAWS)]
            for name, predict in METHODS.items():
                scores = [score(case, predict(case, part, seed)) for seed, part in enumerate(labels)]
                rows.append([case.name, n_clips, name, *map(float, np.mean(scores, axis=0))])
    return what, ["data", "clips", "method", "macro-F1", "calibration", "bouts"], rows


if __name__ == "__main__":
    report.run(
        __doc__,
        {
            "rats": lambda: transfer("Labels of other rats", rats()),
            "within": lambda: transfer("Labels within", within()),
        },
    )
