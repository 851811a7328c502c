"""Which state a model moves to from each place of the plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.models.loading import model_from_bytes
from gdm_core.trials import Trial

Array = npt.NDArray[np.float32]

MAP_COLUMNS, MAP_ROWS = 72, 48
MAP_MARGIN = 0.12


@dataclass(frozen=True, eq=False)
class PlaneMap:
    """Which state follows at each place of the plane: probabilities [H, W, K] over xs [W] and ys [H]."""

    xs: Array
    ys: Array
    probabilities: Array
    source: str


def plane_map(model_bytes: bytes, trial: Trial) -> PlaneMap:
    """Which state follows at each place, in the model's order of states.

    Places become observations by the least-squares map from positions to channels, and the model's transition says
    what follows there, averaged over the states that it may come from. A model whose transition does not look at
    where it is has the same answer everywhere; the soft states found nearby are shown for it instead.
    """
    if trial.position is None:
        raise DataError(f"Trial {trial.name!r} has no positions, so there is no plane to map.")
    model = model_from_bytes(model_bytes)
    where = np.asarray(trial.position, np.float64)
    known = np.isfinite(where).all(axis=1) & np.isfinite(trial.y).all(axis=1)
    low, high = where[known].min(axis=0), where[known].max(axis=0)
    margin = MAP_MARGIN * (high - low).max()
    xs = np.linspace(low[0] - margin, high[0] + margin, MAP_COLUMNS)
    ys = np.linspace(low[1] - margin, high[1] + margin, MAP_ROWS)
    grid = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)  # [H W, 2]
    design = np.column_stack([where[known], np.ones(known.sum())])
    to_channels = np.linalg.lstsq(design, np.asarray(trial.y, np.float64)[known], rcond=None)[0]  # [3, N]
    observed = np.column_stack([grid, np.ones(len(grid))]) @ to_channels
    soft = np.asarray(model.predict_proba(trial), np.float64)
    probabilities = model.next_states(observed, soft.mean(axis=0))
    source = "transition"
    if probabilities is None:
        probabilities, source = _nearby(where[known], soft[known], grid), "nearby"
    return PlaneMap(
        xs.astype(np.float32),
        ys.astype(np.float32),
        probabilities.reshape(len(ys), len(xs), -1).astype(np.float32),
        source,
    )


def _nearby(
    where: npt.NDArray[np.float64], soft: npt.NDArray[np.float64], grid: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """[G, K] mean soft state of the twelve samples nearest to each place."""
    from scipy.spatial import cKDTree

    _, index = cKDTree(where).query(grid, k=min(12, len(where)))
    mean: npt.NDArray[np.float64] = soft[index.reshape(len(grid), -1)].mean(axis=1)
    return mean
