"""Descriptions of states by the channels that are high or low in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gdm_core.maths.gaps import ratio
from gdm_core.trials import Trial

if TYPE_CHECKING:
    from gdm_core.study.study import Study

MOST_NAMED = 3  # channels per state
LEAST_SDS = 0.5  # distance from the mean of a channel, in its standard deviations


def describe_states(study: Study, recordings: Mapping[str, Trial]) -> list[str]:
    """Return for each state the channels that differ most from their overall mean, such as "high speed; low height"."""
    names = study.sheet.names
    channels = recordings[names[0]].channels
    centre = np.nan_to_num(np.nanmean(recordings[names[0]].y, axis=0), nan=0.0)
    n, total = np.zeros((2, len(study.states), len(channels)))
    squares = np.zeros(len(channels))
    for name in names:
        inside = (study.recordings[name].labels == np.array(study.states)[:, None]).astype(np.float64)  # [K, T]
        y = recordings[name].y - centre
        n += inside @ np.isfinite(y)
        total += inside @ np.nan_to_num(y, nan=0.0)
        squares += inside.sum(axis=0) @ np.nan_to_num(y, nan=0.0) ** 2
    mean = ratio(total.sum(axis=0), n.sum(axis=0))
    spread = np.sqrt(np.maximum(ratio(squares, n.sum(axis=0)) - mean**2, 0.0))
    far = np.nan_to_num(ratio(ratio(total, n) - mean, spread), nan=0.0)
    found = []
    for its, samples in zip(far, n.sum(axis=1), strict=True):
        most = [i for i in np.argsort(-np.abs(its), kind="stable")[:MOST_NAMED] if abs(its[i]) >= LEAST_SDS]
        sides = {"high": [channels[i] for i in most if its[i] > 0], "low": [channels[i] for i in most if its[i] < 0]}
        text = "; ".join(f"{side} {', '.join(those)}" for side, those in sides.items() if those)
        found.append(text or ("near the mean" if samples else "–"))
    return found
