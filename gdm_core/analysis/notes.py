"""What a reader must know to read scores: on how much of the data they were measured, and what could not be."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gdm_core.analysis import baselines
from gdm_core.trials import UNLABELLED, Trials

MAX_NEIGHBOUR_SAMPLES = 20_000
MAX_ORIGINS = 2_000


def notes_on(
    train: Trials,
    test: Trials,
    known: npt.NDArray[np.int64],
    truth: npt.NDArray[np.int64],
    n_states: int,
    has_untrained: bool,
) -> tuple[str, ...]:
    """What a reader must know to read the numbers."""
    notes = []
    if (truth == UNLABELLED).all():
        notes.append("No test sample is labelled: there are no state scores.")
    else:
        if (known == UNLABELLED).all():
            notes.append("No training sample is labelled: scores that carry labels from train to test are missing.")
        labels = set(np.unique(np.concatenate([known, truth])).tolist()) - {UNLABELLED}
        if len(labels) != n_states:
            notes.append(
                f"{n_states} states for {len(labels)} labels: each state stands for its majority training label "
                "(many-to-one), since they cannot be matched one to one."
            )
    if int((known != UNLABELLED).sum()) > MAX_NEIGHBOUR_SAMPLES:
        notes.append(f"Nearest neighbours come from {MAX_NEIGHBOUR_SAMPLES:,} training samples drawn at random.")
    if train.n_samples > baselines.MAX_TRAINING_SAMPLES:
        notes.append(f"k-means and the HMM learned from the first {baselines.MAX_TRAINING_SAMPLES:,} training samples.")
    if test.n_samples > MAX_ORIGINS:
        notes.append(f"Forecasts start from about {MAX_ORIGINS:,} evenly spaced origins.")
    if not has_untrained:
        notes.append("No untrained control: this model family has none.")
    return tuple(notes)
