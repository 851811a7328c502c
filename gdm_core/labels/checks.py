"""Validation of labels and their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError
from gdm_core.trials import UNLABELLED, Trials

Codes = npt.NDArray[np.int64]


def check_labels(
    labels: Any, trials: Trials, single: bool, class_names: Sequence[str] | None
) -> tuple[list[Codes], tuple[str, ...]]:
    """Return the labels of each trial and the class names; raise DataError for unsuitable labels."""
    given = [labels] if single else list(labels)
    if len(given) != len(trials):
        raise DataError(
            f"There are labels for {len(given)} recordings, but {len(trials)} recordings. Pass one array each."
        )
    codes = [_check_array(array, trial.name, trial.n_samples) for array, trial in zip(given, trials, strict=True)]
    names = _check_names(class_names, trials, max(int(array.max()) for array in codes))
    labelled = np.concatenate([array[array != UNLABELLED] for array in codes])
    if not len(labelled):
        raise DataError("No sample has a label (all are -1). Label at least one clip of two classes.")
    counts = np.bincount(labelled, minlength=len(names))
    for code in np.flatnonzero(counts == 1):
        trial, at = next((i, int(np.argmax(array == code))) for i, array in enumerate(codes) if (array == code).any())
        raise DataError(
            f"{names[code]!r} labels a single frame (frame {at} of {trials[trial].name!r}), which is too little to learn "
            "from. Label a longer clip of it, or remove the label."
        )
    if np.count_nonzero(counts) == 1:
        raise DataError(f"Every label is {names[labelled[0]]!r}. Label at least one clip of another class.")
    return codes, names


def _check_array(array: Any, name: str, n_samples: int) -> Codes:
    values = np.asarray(array)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise DataError(
            f"Labels of {name!r} have shape {values.shape} and type {values.dtype}; expected one integer per sample, "
            "-1 where unlabelled."
        )
    if len(values) != n_samples:
        raise DataError(
            f"Recording {name!r} has {n_samples:,} samples but {len(values):,} labels. Pass one per sample, -1 where "
            "unlabelled, and check that they belong to this recording."
        )
    if int(values.min()) < UNLABELLED:
        raise DataError(
            f"Recording {name!r}: sample {int(values.argmin())} has the label {int(values.min())}; labels start at 0, and "
            "-1 means unlabelled."
        )
    return values.astype(np.int64)


def _check_names(class_names: Sequence[str] | None, trials: Trials, highest: int) -> tuple[str, ...]:
    names = tuple(class_names) if class_names is not None else trials.label_names
    if not names:
        return tuple(f"class {i}" for i in range(highest + 1))
    if len(set(names)) != len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"class_names contains {double!r} twice; names must be unique.")
    if highest >= len(names):
        raise DataError(
            f"A label is {highest} but there are {len(names)} class_names; labels must be between 0 and {len(names) - 1}, or -1."
        )
    return names
