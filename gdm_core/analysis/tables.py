"""Tables of soft states and bouts, for the command line and exports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.analysis.bouts import find_bouts
from gdm_core.errors import DataError
from gdm_core.maths.gaps import running_sum
from gdm_core.trials import Trial, loses_detail

TIMES = ("time", "Start (s)", "Stop (s)", "Duration (s)")  # always written to the microsecond

NO_SUBJECT = "No focal subject"  # the term of BORIS
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # first characters of cells that spreadsheets evaluate


def state_entropy(states: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return the entropy [T] of soft states, scaled to [0, 1].

    states   [T, K] soft states
    """
    p = np.asarray(states, np.float32)
    if p.shape[1] < 2:
        return np.zeros(len(p), np.float32)
    terms = np.where(p > 0, p * np.log(np.maximum(p, 1e-12)), 0)
    result: npt.NDArray[np.float32] = (-terms.sum(axis=1) / np.log(p.shape[1])).astype(np.float32)
    return result


def states_table(states: npt.ArrayLike, trial: Trial) -> pd.DataFrame:
    """Return a table with time, p_1 .. p_K, state (from 1) and entropy.

    If samples have no observation at all, a column `observed` marks them as False.

    states   [T, K] soft states
    trial    their trial
    """
    soft = np.asarray(states)
    if soft.ndim != 2 or len(soft) != trial.n_samples:
        raise DataError(
            f"States have shape {soft.shape} but trial {trial.name!r} has {trial.n_samples} samples; expected [time, states]."
        )
    table = pd.DataFrame({"time": trial.seconds})
    for k in range(soft.shape[1]):
        table[f"p_{k + 1}"] = soft[:, k]
    table["state"] = soft.argmax(axis=1) + 1
    table["entropy"] = state_entropy(soft)
    observed = np.asarray(np.isfinite(trial.y).any(axis=1))
    if not observed.all():
        table["observed"] = observed
    return table


def bouts_table(
    states: npt.ArrayLike,
    trial: Trial,
    names: Sequence[str] | None = None,
    *,
    bouts: npt.ArrayLike | None = None,
    observation: str = "",
    subject: str = "",
    unit: str = "s",
) -> pd.DataFrame:
    """Return one row per bout in the columns of a tabular export of BORIS.

    Times and frames are on the clock of the recording. With `unit` "step", columns count samples instead.

    states        [T, K] soft states; "Mean share" is the mean proportion of the bout's state
    trial         their trial
    names         names of the states
    bouts         [T] state of each sample; by default the strongest
    observation   name of the recording; by default that of the trial
    subject       name of the animal
    unit          "s" or "step"
    """
    soft = np.asarray(states)
    labels = soft.argmax(axis=1) if bouts is None else np.asarray(bouts)
    shown = list(names) if names else [f"S{k + 1}" for k in range(soft.shape[1])]
    starts, stops = find_bouts(labels).T
    state = labels[starts]
    cumulative = running_sum(soft)
    share = (cumulative[stops, state] - cumulative[starts, state]) / (stops - starts)
    frame = first_frame(trial)
    first, rate = (trial.start_seconds, trial.rate_hz) if unit == "s" else (frame, 1)
    table = pd.DataFrame(
        {
            "Observation id": observation or trial.name,
            "Subject": subject or NO_SUBJECT,
            "Behavior": [shown[k] for k in state],
            "Behavioral category": "soft state",
            "Behavior type": "STATE",
            f"Start ({unit})": first + starts / rate,
            f"Stop ({unit})": first + stops / rate,
            f"Duration ({unit})": (stops - starts) / rate,
            "Mean share": share.round(4),
            "Comment start": "",
            "Comment stop": "",
            "FPS": trial.rate_hz,
            "Image index start": frame + starts,
            "Image index stop": frame + stops,
        }
    )
    if unit == "s":
        return table
    return table.drop(columns="FPS").astype({f"{name} ({unit})": np.int64 for name in ("Start", "Stop", "Duration")})


def first_frame(trial: Trial) -> int:
    """Return the frame of the recording at which a trial begins, from 0.

    trial   a recording, or a part of one
    """
    return round(trial.start_seconds * trial.rate_hz)


def csv(table: pd.DataFrame) -> bytes:
    """Return a table as CSV with at least seven digits.

    table   the table
    """
    times = {name: table[name].round(6).astype(str) for name in TIMES if name in table}
    fine = {
        str(name): table[name].map("{:.12g}".format, na_action="ignore")
        for name in table
        if name not in times and table[name].dtype == np.float64 and loses_detail(table[name].to_numpy(), 1e-7)
    }
    texts = {
        str(name): table[name].map(harmless)
        for name in table
        if name not in times and pd.api.types.is_string_dtype(table[name].dtype)
    }
    output = table.assign(**times, **fine, **texts).rename(columns=harmless)
    return output.to_csv(index=False, float_format="%.7g").encode()


def harmless(value: Any) -> Any:
    """Prefix text that a spreadsheet would run as a formula with an apostrophe.

    value   a cell or the name of a column
    """
    return f"'{value}" if isinstance(value, str) and value[:1] in FORMULA else value
