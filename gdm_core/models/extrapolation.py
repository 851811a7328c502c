"""Whether data leave the range of the training data, where scores and forecasts are extrapolations."""

from __future__ import annotations

import numpy as np

from gdm_core.arrays import Float, Values
from gdm_core.trials import Trials

# In no distribution does more than a sixteenth lie four standard deviations from the mean. Three times that allows for
# parts of a recording that differ by chance.
_FAR, _LEAST_SHARE = 4.0, 3 / 16


def find_extrapolation(center: Values, scale: Values, trials: Trials) -> str:
    """Return how far the channel is off that leaves the fitted range most; "" if none does.

    center, scale   [N] mean and standard deviation of the training data
    """
    worst, found = 0.0, ""
    for j, name in enumerate(trials[0].channels):
        off = np.abs(_known(trials, j) - center[j])
        far = off.max(initial=0.0) / scale[j] if scale[j] else np.inf
        if len(off) and (off > _FAR * scale[j]).mean() > _LEAST_SHARE and far > worst:
            worst, found = far, f"up to {far:.1f} standard deviations from the fitted mean of {name}"
    return found


def describe_extrapolation(center: Values, scale: Values, trials: Trials, what: str = "Values") -> str:
    """Return a sentence about the same; `what` names the trials."""
    found = find_extrapolation(center, scale, trials)
    return found and f"{what} are {found}: scores and forecasts there are extrapolations."


def describe_held_out(train: Trials, test: Trials, what: str = "Held-out values") -> str:
    """Return the same sentence about `test` next to the trials that are fitted."""
    columns = [_known(train, j) for j in range(train.n_channels)]
    if not all(len(column) for column in columns):  # such data cannot be fitted
        return ""
    center, scale = (np.array([measure(column) for column in columns]) for measure in (np.mean, np.std))
    return describe_extrapolation(center, scale, test, what)


def _known(trials: Trials, channel: int) -> Float:
    values = np.concatenate([trial.y[:, channel] for trial in trials]).astype(np.float64)
    return values[np.isfinite(values)]
