"""What a model's accuracy has to beat at a number of states."""

from __future__ import annotations

import numpy as np
import pytest

from datasets.nascar import train_test
from gdm_core.analysis.controls import accuracy_controls
from gdm_core.analysis.metrics import evaluate
from gdm_core.models.registry import import_family
from gdm_core.trials import as_trials

CONFIG = {"n_states": 3, "n_latent": 2, "seed": 0}


@pytest.mark.parametrize("family", ["gdm", "arhmm"])
def test_controls_are_the_baselines_of_the_full_evaluation(family):
    train, test = map(as_trials, train_test("standard", 0, 400))
    config = CONFIG | ({"posterior": "linear", "n_steps": 2} if family == "gdm" else {"n_iter": 2})
    found = accuracy_controls(family, config, train, test)
    whole = evaluate(import_family(family)(**config).fit(train), train, test).baselines
    assert set(found) == {name for name in whole if not name.startswith("10-NN")}
    for name, scores in found.items():
        for score, value in scores.items():
            expected = getattr(whole[name], score)
            assert value == pytest.approx(expected, abs=1e-6), (name, score)


def test_samples_without_a_label_are_left_out():
    train, test = map(as_trials, train_test("standard", 0, 300))
    from dataclasses import replace

    labels = np.array(test[0].labels)
    labels[: len(labels) // 2] = -1
    part = as_trials(replace(test[0], labels=labels))
    config = CONFIG | {"posterior": "linear"}
    found = accuracy_controls("gdm", config, train, part)
    share = np.bincount(np.array(train[0].labels)).argmax() == labels[labels >= 0]
    assert found["majority class"]["paper_accuracy"] == pytest.approx(share.mean())
