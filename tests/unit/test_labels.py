"""Labels learned from a few clips."""

from __future__ import annotations

import numpy as np

from gdm_core.labels import LabelModel
from tests.support.taught import labelled

DATA, NEW = labelled(2, 400), labelled(2, 300, seed=5)


def test_saved_label_model_predicts_the_same_bits() -> None:
    model = LabelModel().fit(DATA, [np.asarray(trial.labels) for trial in DATA])
    loaded = LabelModel.from_bytes(model.to_bytes())
    for one, other in zip(model.predict_proba(NEW), loaded.predict_proba(NEW), strict=True):
        np.testing.assert_array_equal(one, other)
