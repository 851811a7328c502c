"""Tables of a study: clips and descriptions of states, and layouts of values for R and Prism."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.analysis.explain import name_largest
from gdm_core.errors import ConfigError
from gdm_core.maths.gaps import ratio
from gdm_core.study.finding import STATE_COLUMNS
from gdm_core.study.sheet import RECORDING
from gdm_core.study.study import Study
from gdm_core.study.text import format_list
from gdm_core.trials import Trial

MOST_S, AROUND_S = 4.0, 0.5  # longest part of a bout in a clip, and its context on either side


def choose_clips(study: Study, state: int, n: int = 6) -> pd.DataFrame:
    """Return a table of typical bouts of different animals, blind to conditions.

    Samples `first` to `after` are the clip with its context, `bout_first` to `bout_after` the bout itself.

    state   number of the state
    n       number of clips
    """
    if state not in study.states:
        raise ConfigError(f"There is no state {state}; the study has {format_list(study.states)}.")
    counts, samples = study.counts, np.array([one.n_samples for one in study.counts.recordings])
    recording, _, first, long = (part[counts.runs[1] == study.states.index(state)] for part in counts.runs)
    rate, name = counts.rates[recording], np.array(study.sheet.names)[recording]
    found = pd.DataFrame({RECORDING: name, "bout_first": first})
    found["bout_after"] = first + np.minimum(long, (MOST_S * rate).round().astype(np.int64))
    around = (AROUND_S * rate).round().astype(np.int64)
    found["first"] = np.maximum(0, first - around)
    found["after"] = np.minimum(samples[recording], found["bout_after"] + around)
    seconds = np.log(long / rate)
    odd = np.abs(seconds - np.median(seconds)).round(1) if len(seconds) else seconds
    found = found.assign(odd=odd).sample(frac=1, random_state=state)
    found = found.sort_values("odd", kind="stable")  # equally typical bouts stay shuffled
    turn = found.groupby(found[RECORDING].map(study.sheet.animals)).cumcount()
    found = found.loc[turn.sort_values(kind="stable").index[:n]].reset_index(drop=True)
    return found[[RECORDING, "first", "after", "bout_first", "bout_after"]]


def compare_channels(study: Study, recordings: Mapping[str, Trial]) -> npt.NDArray[np.float64]:
    """Return how far [K, N] each channel is from its overall mean in each state, in standard deviations; NaN if never."""
    names = study.sheet.names
    centre = np.nan_to_num(np.nanmean(recordings[names[0]].y, axis=0), nan=0.0)
    n, total = np.zeros((2, len(study.states), len(centre)))
    squares = np.zeros(len(centre))
    for name in names:
        inside = (study.recordings[name].labels == np.array(study.states)[:, None]).astype(np.float64)  # [K, T]
        y = recordings[name].y - centre
        n += inside @ np.isfinite(y)
        total += inside @ np.nan_to_num(y, nan=0.0)
        squares += inside.sum(axis=0) @ np.nan_to_num(y, nan=0.0) ** 2
    mean = ratio(total.sum(axis=0), n.sum(axis=0))
    spread = np.sqrt(np.maximum(ratio(squares, n.sum(axis=0)) - mean**2, 0.0))
    far = np.nan_to_num(ratio(ratio(total, n) - mean, spread), nan=0.0)
    far[n.sum(axis=1) == 0] = np.nan
    return far


def describe_states(study: Study, recordings: Mapping[str, Trial]) -> list[str]:
    """Return for each state the channels that differ most from their overall mean, such as "high speed; low height"."""
    channels = recordings[study.sheet.names[0]].channels
    found = []
    for its in compare_channels(study, recordings):
        sides: dict[str, list[str]] = {"high": [], "low": []}
        for name, sds in name_largest(np.nan_to_num(its), channels):
            sides["high" if sds > 0 else "low"].append(name)
        text = "; ".join(f"{side} {', '.join(those)}" for side, those in sides.items() if those)
        found.append(text or ("–" if np.isnan(its).all() else "near the mean"))
    return found


# ---- values for other programs ------------------------------------------------------------------------------------------
def to_wide(values: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each unit and condition, with a column for each state.

    values   result of `Study.per_unit`, whose last column is the measure
    """
    keys, measure = [c for c in values.columns[:-1] if c not in (*STATE_COLUMNS, "name")], str(values.columns[-1])
    columns = f"{measure} " + values["name"]
    wide = values.assign(column=columns).pivot(index=keys, columns="column", values=measure)
    return wide[columns.unique()].rename_axis(columns=None).reset_index()


def to_prism(values: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each state, with side-by-side columns for the units of each group, as Prism's grouped tables have.

    values   result of `Study.per_unit`, whose last column is the measure
    """
    unit, *factors = [c for c in values.columns[:-1] if c not in (*STATE_COLUMNS, "name")]
    states = values["name"]
    order = {name: place for place, name in enumerate(dict.fromkeys(values[unit]))}  # one place for paired sessions
    groups = values[factors].astype(str).agg(" ".join, axis=1)
    paired = values.drop_duplicates([unit, *factors]).groupby(unit).size().max() > 1
    place = values[unit].map(order) if paired else values.groupby([states, groups]).cumcount()
    long = pd.DataFrame({"state": states, "group": groups, "place": place + 1, "value": values.iloc[:, -1]})
    wide = long.pivot(index="state", columns=["group", "place"], values="value")
    wide = wide.reindex(index=states.unique(), columns=groups.unique(), level=0)
    wide.columns = [" ".join(map(str, column)) for column in wide.columns]
    return wide.rename_axis("state").reset_index()
