"""Words that somebody gave to a few moments: checked, and brought into the shape that a fit takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError
from gdm_core.trials import UNLABELLED, Trials

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Labels:
    """codes: a word's number for each sample of each trial, -1 where nobody said. names: the words. rate_hz: of the trials."""

    codes: tuple[Codes, ...]
    names: tuple[str, ...]
    rate_hz: float

    @property
    def used(self) -> Codes:
        """Numbers of the words that were given, in the order of their first moments, whatever their numbers are."""
        joined = np.concatenate(self.codes)
        words, first = np.unique(joined[joined != UNLABELLED], return_index=True)
        return words[np.argsort(first)]


def check_labels(
    labels: Any, trials: Trials, single: bool, class_names: Sequence[str] | None, n_states: int
) -> Labels | None:
    """Labels that a model with `n_states` can learn from; None where nothing is labelled, so that nothing is learned.

    labels  [T] whole numbers for one recording, a list of such arrays for several, -1 where unlabelled
    """
    given = [labels] if single else list(labels)
    if len(given) != len(trials):
        raise DataError(
            f"There are labels for {len(given)} recordings, but {len(trials)} to fit; give one array for each."
        )
    codes = tuple(_checked(array, trial.name, trial.n_samples) for array, trial in zip(given, trials, strict=True))
    top = max(int(array.max()) for array in codes)
    if top == UNLABELLED:
        return None
    names = _names(class_names, trials, top)
    found = Labels(codes, names, float(np.median([trial.rate_hz for trial in trials])))
    counts = np.bincount(np.concatenate([array[array != UNLABELLED] for array in codes]), minlength=len(names))
    for word in np.flatnonzero(counts == 1):
        trial, at = next((i, int(np.argmax(array == word))) for i, array in enumerate(codes) if (array == word).any())
        raise DataError(
            f"The word {names[word]!r} is marked for a single frame (frame {at} of {trials[trial].name!r}), from which "
            "nothing can be learned. Mark a longer stretch of it, or take the mark away."
        )
    if len(found.used) == 1:
        raise DataError(
            f"Every mark says {names[found.used[0]]!r}. Mark at least one stretch that is something else, so that there "
            "is something to tell it from."
        )
    if len(found.used) > n_states:
        raise ConfigError(
            f"{len(found.used)} words are marked but n_states (K) is {n_states}; every word needs a state of its own. "
            f"Choose n_states >= {len(found.used)} or mark fewer words."
        )
    return found


def _checked(array: Any, name: str, n_samples: int) -> Codes:
    values = np.asarray(array)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise DataError(
            f"Labels of {name!r} have shape {values.shape} and type {values.dtype}; expected one whole number a sample, "
            "-1 where nothing was said."
        )
    if len(values) > n_samples:
        raise DataError(
            f"{len(values) - n_samples:,} labels lie outside of the recording {name!r}, which ends after {n_samples:,} "
            "samples. Check that they belong to it and count the same frames."
        )
    if len(values) < n_samples:
        raise DataError(
            f"Recording {name!r} has {n_samples:,} samples but {len(values):,} labels; give one for each, -1 where unlabelled."
        )
    if values.dtype.kind == "i" and int(values.min()) < UNLABELLED:
        raise DataError(
            f"Recording {name!r}: sample {int(values.argmin())} has the label {int(values.min())}; words count from 0, "
            "-1 is unlabelled."
        )
    return values.astype(np.int64)


def _names(class_names: Sequence[str] | None, trials: Trials, top: int) -> tuple[str, ...]:
    names = tuple(class_names) if class_names is not None else trials.label_names
    if not names:
        return tuple(f"word {i}" for i in range(top + 1))
    if len(set(names)) != len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"class_names holds {double!r} twice; every word needs a name of its own.")
    if top >= len(names):
        raise DataError(
            f"A label is {top} but there are {len(names)} class_names; expected labels from 0 to {len(names) - 1}, or -1."
        )
    return names
