"""Estimation of missing body parts from the animal's other parts and from time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.maths.gaps import gap_lengths

Floats = npt.NDArray[np.floating[Any]]
Bool = npt.NDArray[np.bool_]

MAX_ABSENT_SECONDS = 3.0  # longest gap of a whole animal
_STEP_SECONDS = 1.0  # movements over shorter times are mostly tracking noise
_BLOCK = 2_000  # frames filled at once, to limit memory
_NOISE = 0.1  # of tracking, as a share of the variance of a step
_STEP = 1e-4  # small compared to the broad prior of a path's start
_MIN_VARIANCE = 1e-4  # of any combination of parts, as a share of the largest


def fill_parts(xy: Floats, rate_hz: float, longest_seconds: float) -> tuple[npt.NDArray[np.float32], Bool]:
    """Return filled keypoints [T, A, 2, P], and the mask [T, A, P] of filled parts.

    The parts of an animal follow a random walk whose steps are correlated, since they move and turn together. Gaps
    longer than `longest_seconds`, at either end, or of a whole animal for over 3 s stay missing.
    """
    from gdm_core.maths.factor import FactorModel  # its loops are compiled, which only filling should wait for

    filled = np.array(xy, dtype=np.float32)
    mask = np.stack([_fillable(xy[:, a], rate_hz, longest_seconds) for a in range(xy.shape[1])], axis=1)
    longest = round(longest_seconds * rate_hz)
    for a in np.flatnonzero(mask.any(axis=(0, 2))):
        loadings, centre, scale = _fit_walk(xy[:, a], max(1, min(round(_STEP_SECONDS * rate_hz), len(xy) // 2)))
        n = len(loadings)
        walk = FactorModel(loadings, np.zeros(n), np.full(n, _NOISE), np.full(n, _STEP))
        for start in range(0, len(xy), _BLOCK):
            stop = start + _BLOCK
            if not mask[start:stop, a].any():
                continue
            first = max(0, start - longest - 1)  # a block includes both ends of its gaps
            part = (xy[first : stop + longest + 1, a] - centre) / scale
            found = walk.fill(part.reshape(len(part), -1)).reshape(part.shape) * scale + centre
            gaps = mask[start:stop, a, None] & ~np.isfinite(xy[start:stop, a])
            filled[start:stop, a] = np.where(gaps, found[start - first :][:_BLOCK], filled[start:stop, a])
    return filled, mask


def _fillable(xy: Floats, rate_hz: float, longest_seconds: float) -> Bool:
    """Return a mask [T, P] of the gaps of one animal to fill."""
    missing: Bool = np.asarray(~np.isfinite(xy).all(axis=1))
    absent = gap_lengths(np.asarray(missing.all(axis=1))) > round(min(longest_seconds, MAX_ABSENT_SECONDS) * rate_hz)
    fillable = missing & ~absent[:, None]
    for p in range(missing.shape[1]):
        seen = np.flatnonzero(~missing[:, p])
        fillable[:, p] &= gap_lengths(missing[:, p]) <= round(longest_seconds * rate_hz)
        if len(seen):
            fillable[: seen[0], p] = fillable[seen[-1] :, p] = False
        else:
            fillable[:, p] = False
    return fillable


def _fit_walk(xy: Floats, lag: int) -> tuple[npt.NDArray[np.float64], Floats, float]:
    """Return the loadings of a random walk of an animal's parts [T, 2, P], with centre and scale.

    With x + iy as a complex number per part, the covariance of steps does not depend on the heading.
    """
    z = xy[:, 0].astype(np.float64) + 1j * xy[:, 1]
    steps = z[lag:] - z[:-lag]
    seen = np.isfinite(steps)
    steps = np.where(seen, steps, 0)
    pairs = seen.T.astype(np.float64) @ seen
    variance, axes = np.linalg.eigh(steps.T @ steps.conj() / np.maximum(pairs, 1) / lag)
    if not variance[-1] > 0:  # no part moves: treat parts as independent
        variance, axes = np.ones(len(variance)), np.eye(len(variance))
    scale = float(np.sqrt(variance[variance > 0].sum() / len(variance)))
    variance = np.maximum(variance / scale**2, _MIN_VARIANCE * variance[-1] / scale**2)
    root = axes * np.sqrt(variance / 2 / _STEP)
    loadings = np.block([[root.real, -root.imag], [root.imag, root.real]])
    centre = np.array([np.nanmean(xy[:, 0]), np.nanmean(xy[:, 1])], np.float64)
    return loadings, centre[:, None], scale
