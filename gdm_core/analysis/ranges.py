"""What a model expects of the next sample, moment by moment, and how often it was right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gdm_core.analysis.looks import fitted
from gdm_core.forecast import outcomes
from gdm_core.trials import Trials

N_PATHS = 100
SPREADS = 3.0  # standard deviations to either side


def next_ranges(
    family: str, setting: Mapping[str, Any], train: Trials, test: Trials, channel: int = 0, moments: int = 300
) -> dict[str, Any]:
    """Fit, then predict one step ahead from each of the first `moments` of the new trial, in one channel. Plain values.

    held   share of these outcomes within three standard deviations of the mean
    """
    model = fitted(family, setting, train)
    trial = test[0]
    at = np.arange(model.min_samples - 1, min(trial.n_samples - 1, moments))
    found = model.forecast(trial, horizon=1, n_paths=N_PATHS, seed=0, origins=at, adaptive=False)
    mean, spread = found.mean[:, 0, channel], found.std[:, 0, channel]
    truth = outcomes(trial.y, at, 1)[:, 0, channel]
    known = np.isfinite(truth)
    inside = np.abs(truth[known] - mean[known]) <= SPREADS * spread[known]
    return {
        "from": int(at[0]) + 1,
        "mean": np.round(mean, 5).tolist(),
        "spread": np.round(spread, 5).tolist(),
        "observed": [float(round(value, 5)) if np.isfinite(value) else None for value in truth.tolist()],
        "held": float(inside.mean()),
    }
