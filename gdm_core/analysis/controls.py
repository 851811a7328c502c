"""Controls for accuracy: the untrained model, clusters without dynamics, and supervised classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gdm_core.analysis.baselines import NEIGHBOURS
from gdm_core.analysis.state_scores import label_scores, select_accuracies, state_baselines
from gdm_core.maths.gaps import interpolate_gaps
from gdm_core.maths.threads import one_thread
from gdm_core.models.registry import import_family
from gdm_core.models.variants import make_untrained
from gdm_core.trials import UNLABELLED, Trials, labels_of

MAX_SAMPLES = 20_000


def accuracy_controls(
    family: str, config: Mapping[str, Any], train: Trials, test: Trials, seed: int = 0
) -> dict[str, dict[str, float]]:
    """Return the accuracies (as in `state_accuracy`) of controls with as many states, by name."""
    untrained = make_untrained(import_family(family)(**config), train, seed)
    found = state_baselines(train, test, int(config["n_states"]), seed, untrained)
    return {name: select_accuracies(one) for name, one in found.items() if not name.startswith(NEIGHBOURS)}


def supervised_controls(train: Trials, test: Trials, seed: int = 0) -> dict[str, float]:
    """Return the test accuracy of two supervised classifiers; {} without labels."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    (rows, labels), (new, truth) = _labelled_rows(train), _labelled_rows(test)
    if not len(labels) or not len(truth):
        return {}
    thin = max(1, len(rows) // MAX_SAMPLES)
    classifiers = {
        "random forest": RandomForestClassifier(60, min_samples_leaf=5, random_state=seed, n_jobs=1),
        "decision tree": DecisionTreeClassifier(max_depth=3, random_state=seed),
    }
    with one_thread():
        fitted = {name: classifier.fit(rows[::thin], labels[::thin]) for name, classifier in classifiers.items()}
        return {name: label_scores(one.predict(new), truth)["accuracy"] for name, one in fitted.items()}


def _labelled_rows(trials: Trials) -> tuple[Any, Any]:
    rows, labels = np.concatenate([interpolate_gaps(trial.y) for trial in trials]), np.concatenate(labels_of(trials))
    return rows[labels != UNLABELLED], labels[labels != UNLABELLED]
