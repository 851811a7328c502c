"""Table of all drivers: lap times, state usage and driving style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from datasets.formula1 import Session
from gdm_core.analysis.segments import driver_distances, drivers_along_lap
from gdm_core.errors import GdmError
from gdm_studio.plot.figures.base import names_of, numbered
from pages.formula1 import data, state_names
from pages.formula1.data import Circuit, Laps, Observation, Race, race_of
from pages.formula1.tables import table_with_csv
from pages.lab import View, live
from pages.ui import shell

Floats = npt.NDArray[np.float64]


def panel(view: View) -> None:
    """Show the table; a button applies the fitted model to every driver."""
    race = race_of(view)
    session = data.open_session(race.pick.place)
    with shell.panel("all-drivers", "All drivers"):
        table, percent, said = _with_states(view, race, session)
        times, shapes = ["Best lap", "Mean of clean laps"], dict.fromkeys(percent, "%.1f")
        table_with_csv(table, "all-drivers", view.stem, times=times, seconds=["Gap"], shapes=shapes)
        shell.quiet(f"Clean laps: timed accurately, without in-laps, out-laps and safety cars. {said}")


def _with_states(view: View, race: Race, session: Session) -> tuple[pd.DataFrame, list[str], str]:
    """Return the table, its columns in percent, and a caption, as far as the model has been applied."""
    table, result, memory = lap_times(session), view.state.result, view.fit.memory
    if result is None:
        return table, [], ""
    asked = f"all drivers {result.key}"
    if asked not in memory:
        label = f"Apply the model to all {len(table)} drivers"
        st.button(label, key="f1-apply", on_click=memory.setdefault, args=(asked, True))
        return table, [], ""
    found = racing_laps(race, session.codes)
    if len(found) < 2:
        return table, [], "Fewer than two drivers have racing laps with positions."
    stations = [stations_of(race.circuit, laps) for laps in found]
    trials = (laps.trials for laps in found)
    answer = view.query("all-drivers", drivers_along_lap, stations, race.circuit.n_bins // 5, *trials)
    failed = live.show_failure(view.fit, answer, "The model could not be applied to all drivers")
    if answer.value is None:
        return table, [], "" if failed else f"Applying the model to {len(found)} drivers."
    _, order = answer.about
    names = numbered(state_names.names(view)) if answer.fresh else names_of(len(order), None)
    table = with_states(table, [laps.code for laps in found], answer.value, order, names)
    said = (
        f"States: % of the lap's distance over racing laps. Style: % of states that differ from {found[0].code}'s on "
        "shared laps, corrected for lap-to-lap variation."
    )
    return (
        table,
        [*names, style_column(found[0].code)],
        said if answer.fresh else f"{said} Showing the previous fit.",
    )


def racing_laps(race: Race, codes: Sequence[str]) -> list[Laps]:
    """Return the racing laps of each driver with positions."""
    found = []
    for code in codes:
        try:
            found.append(data.laps_of(race.pick.place, code, Observation("racing", race.pick.looked.channels)))
        except GdmError:  # drivers without positions have no states
            continue
    return found


def stations_of(circuit: Circuit, laps: Laps) -> npt.NDArray[np.int64]:
    """Return the 50 m bin of each sample [T]."""
    n = circuit.n_bins // 5
    return np.clip(laps.distance / circuit.length * n, 0, n - 1).astype(np.int64)


def lap_times(session: Session) -> pd.DataFrame:
    """Return one row per driver by best lap; times are in seconds."""
    rows = []
    for driver in session.drivers:
        laps = driver.laps
        timed, clean = laps.seconds[laps.timed], laps.seconds[laps.undisturbed]
        rows.append(
            {
                "Driver": driver.code,
                "Team": driver.team,
                "Best lap": float(timed.min()) if timed.size else np.nan,
                "Mean of clean laps": float(clean.mean()) if clean.size else np.nan,
                "Clean laps": int(clean.size),
            }
        )
    table = pd.DataFrame(rows).sort_values("Best lap", kind="stable", na_position="last", ignore_index=True)
    table.insert(3, "Gap", table["Best lap"] - table["Best lap"].min())
    return table


def style_column(code: str) -> str:
    """Return the name of the column of differences to that driver."""
    return f"Style difference to {code}"


def with_states(
    table: pd.DataFrame,
    codes: Sequence[str],
    profiles: npt.NDArray[np.float32],
    order: Sequence[int],
    names: Sequence[str],
) -> pd.DataFrame:
    """Return the table with the use of each state and the difference in style, both in percent.

    profiles   [drivers, 2, 2, stations, K] of `codes`, as `drivers_along_lap` returns them
    """
    apart, chance = (100 * pd.DataFrame(values).mean(axis=1).to_numpy() for values in driver_distances(profiles))
    style = np.sqrt(np.clip(apart**2 - chance**2, 0, None))  # subtract the variance within drivers
    known: dict[str, Mapping[str, Any]] = {}
    for code, profile, differs in zip(codes, profiles, style, strict=True):
        mean = pd.DataFrame(profile[0].reshape(-1, profile.shape[-1]).astype(np.float64)).dropna().mean().to_numpy()
        shares = dict(zip(names, 100 * mean[list(order)], strict=True))
        known[code] = shares | {style_column(codes[0]): differs}
    return table.join(pd.DataFrame.from_dict(known, orient="index"), on="Driver")
