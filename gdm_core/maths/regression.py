"""Cross-validated least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]

_MIN_RIDGE = 1e-12


def left_out_changes(
    design: npt.NDArray[Any], values: npt.NDArray[Any], folds: npt.NDArray[np.int64], usable: npt.NDArray[np.bool_]
) -> list[Float]:
    """Return the change of coefficients [P, M] without each fold; zero without usable rows.

    design    [T, P]
    values    [T, M]
    folds     [T] the fold of each row
    usable    [T] rows to use
    """
    x, y = design.astype(np.float64), values.astype(np.float64)
    grams, targets = [], []
    for fold in range(int(folds.max()) + 1):
        rows = usable & (folds == fold)
        grams.append(x[rows].T @ x[rows])
        targets.append(x[rows].T @ y[rows])
    gram, target = np.sum(grams, axis=0), np.sum(targets, axis=0)
    ridge = max(1e-4 * np.trace(gram) / len(gram), _MIN_RIDGE) * np.eye(len(gram))
    everything = np.linalg.solve(gram + ridge, target)
    return [
        np.linalg.solve(gram - own + ridge, target - its) - everything for own, its in zip(grams, targets, strict=True)
    ]
