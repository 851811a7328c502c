"""Figures that every lab shows, from what a fit says: the prediction with its envelope, and what follows what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.bouts import transition_shares
from gdm_core.analysis.envelopes import Envelope
from gdm_core.analysis.planes import PlaneMap
from gdm_core.trials import Trial
from pages.ui import figures
from pages.ui.figures.base import Figure

BEFORE = 40  # samples of the past beside a prediction


def matrix(labels: npt.ArrayLike, n_states: int, names: Sequence[str] | None = None) -> Figure:
    """What follows what among the strongest states."""
    return figures.transition_matrix(
        transition_shares(labels, n_states),
        names=names,
        caption="Among changes of the strongest state: from the row to the column. Rows add up to 100\u00a0%.",
    )


def plane(found: PlaneMap, path: npt.NDArray[Any] | None, order: Sequence[int]) -> Figure:
    """Which state wins where, in the order of colours."""
    caption = (
        "Where the model's transition leads from each place, in mixed colours; the line is the path."
        if found.source == "transition"
        else "This model's transitions do not look at the place: shown are the states found nearby."
    )
    return figures.transition_map(found.xs, found.ys, found.probabilities[..., list(order)], path=path, caption=caption)


def prediction(
    found: Envelope, trial: Trial, channel: int, *, name: str = "", step: float = 1.0, unit: str = "step"
) -> Figure:
    """The prediction of one channel from its moment on; `step` is the time from one sample to the next, in `unit`."""
    n, first = found.origin, max(0, found.origin - BEFORE)
    time = np.arange(n + 1, n + 1 + len(found.mean))
    past = np.arange(first, min(trial.n_samples, n + 1 + len(found.mean)))
    last = np.full(len(time), trial.y[n, channel])
    spread = 3 * found.std[:, channel]
    return figures.envelope(
        time * step,
        found.mean[:, channel],
        band90=(found.lower90[:, channel], found.upper90[:, channel]),
        band50=(found.lower50[:, channel], found.upper50[:, channel]),
        three_sigma=(found.mean[:, channel] - spread, found.mean[:, channel] + spread),
        observed=(past * step, trial.y[past, channel]),
        persistence=(time * step, last),
        now=n * step,
        unit=unit,
        channel=name or trial.channels[channel],
    )
