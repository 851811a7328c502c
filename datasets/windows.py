"""Windows: recordings at the scale of activities, which last hundreds of samples, instead of single samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError
from gdm_core.maths.windows import summarise_windows
from gdm_core.trials import Trial, Trials, TrialsLike, as_trials, with_recipe

SHORTEST = 3  # samples
STEPS_PER_WINDOW = 10  # windows any closer nearly repeat each other
SUMMARIES = ("mean", "SD", "RMS step")
MODEL, N_LATENT = "gdm-linear", 6  # that suit: activities differ in the values of summaries, not in their dynamics


def window_length(seconds: float, rate_hz: float) -> int:
    """Return the window length in samples, an odd number."""
    if not (np.isfinite(seconds) and seconds > 0):
        raise ConfigError(f"The time scale is {seconds}; it must be a positive number of seconds.")
    return max(SHORTEST, 2 * int(seconds * rate_hz / 2) + 1)


def summarise(data: TrialsLike, scale: int, step: int | None = None) -> Trials:
    """Summarise each channel over windows: its mean, standard deviation and RMS step.

    Windows are Hann-weighted, so they reach twice as far as their length says. Labels, positions, segments and known states
    are taken at the centre of each window.

    Parameters
    ----------
    scale : window length in samples, measured at half height; `window_length` converts seconds
    step : samples from window to window, a tenth of the scale by default
    """
    if scale < SHORTEST:
        raise ConfigError(f"scale is {scale}; a window needs at least {SHORTEST} samples.")
    step = max(1, scale // STEPS_PER_WINDOW) if step is None else step
    if step < 1:
        raise ConfigError(f"step is {step}; it must be at least 1 sample.")
    trials = as_trials(data)
    return replace(trials, trials=tuple(_summarise_trial(trial, scale, step) for trial in trials))


def _summarise_trial(trial: Trial, scale: int, step: int) -> Trial:
    if trial.n_samples < scale:
        raise DataError(
            f"Trial {trial.name!r} has {trial.n_samples} samples, a window has {scale}. "
            "Choose a smaller time scale or drop the trial."
        )
    kept: dict[str, Any] = {
        key: None if (value := getattr(trial, key)) is None else value[::step]
        for key in ("labels", "position", "segments", "states")
    }
    y = summarise_windows(trial.y, scale, step)
    names = tuple(f"{channel} {summary}" for channel in trial.channels for summary in SUMMARIES)
    made = replace(trial, y=y.reshape(len(y), -1), rate_hz=trial.rate_hz / step, channels=names, **kept)
    return with_recipe(f"{trial.recipe}, windows 1 {scale} {step}", made) if trial.recipe else made


def to_samples(
    states: Iterable[npt.NDArray[Any]], windows: Iterable[Trial], trials: Iterable[Trial]
) -> list[npt.NDArray[Any]]:
    """Return states of every sample of `trials` from the states of its windows.

    Soft states [windows, K] are interpolated between the centres of windows; numbers of states [windows] are copied
    from the nearest window.
    """
    found = []
    for values, summary, trial in zip(states, windows, trials, strict=True):
        at = np.minimum(np.arange(trial.n_samples) * (summary.rate_hz / trial.rate_hz), len(values) - 1)
        if values.ndim == 1:
            found.append(values[np.floor(at + 0.5).astype(np.int64)])
            continue
        before = np.floor(at).astype(np.int64)
        weight = (at - before)[:, None].astype(values.dtype)
        after = np.minimum(before + 1, len(values) - 1)
        found.append((1 - weight) * values[before] + weight * values[after])
    return found
