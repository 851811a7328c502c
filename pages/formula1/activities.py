"""What the car does at each sample: activities that colour states, and columns of exported files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from datasets import formula1
from datasets.f1.trials import ACTIVITIES, activities
from gdm_core.trials import Trial

if TYPE_CHECKING:
    from pages.formula1.data import Race

Floats = npt.NDArray[np.float32]

COLOURED = ("full throttle", "cornering", "braking", "part throttle")  # the first, second, ... colour of states


def known_activities(race: Race) -> tuple[Floats, ...] | None:
    """Return the activity of each training sample [T, 4] in the order of state colours; None without pedals."""
    laps = race.train
    done = activities(laps.car, race.circuit.curvature_at(laps.distance))
    if done is None:
        return None
    known = np.column_stack([done == ACTIVITIES.index(name) for name in COLOURED]).astype(np.float32)
    ends = np.cumsum([trial.n_samples for trial in laps.trials])
    return tuple(np.split(known, ends[:-1]))


def sample_columns(race: Race, trial: Trial) -> dict[str, Any]:
    """Return driver, lap and distance [T] of a trial's samples, for the table of its states."""
    assert trial.position is not None
    assert trial.segments is not None
    distance = formula1.lap_distance(race.session, trial.position, trial.segments)
    laps = next(one for one in (race.train, race.test) if any(trial is other for other in one.trials))
    return {"driver": laps.code, "lap": trial.segments, "distance_m": np.round(distance, 1)}
