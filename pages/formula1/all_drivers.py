"""One model, twenty drivers: who drives most unlike the winner, segment by segment, without fitting anything again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from datasets.f1.segments import between
from gdm_core.analysis.profiles import drivers_along_lap, unlikeness
from gdm_core.errors import GdmError
from gdm_studio.plot.figures.base import names_of, numbered
from pages.formula1 import data, standings, state_names
from pages.formula1.data import Circuit, Laps, Looked
from pages.formula1.driver_states import race_of
from pages.lab import View, live
from pages.ui import shell

SHOWN = 8  # segments with a column of their own, those that differ most first


def stations_of(circuit: Circuit, laps: Laps) -> npt.NDArray[np.int64]:
    """[T] which tenth of a kilometre of the lap each sample lies in, roughly: enough samples in each, lap after lap."""
    n = circuit.n_bins // 5
    return np.clip(laps.distance / circuit.length * n, 0, n - 1).astype(np.int64)


def by_segment(circuit: Circuit, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """[drivers, segments] mean of values [drivers, stations]."""
    n = values.shape[1]
    middle = (np.arange(n) + 0.5) / n * circuit.length
    segment = between(circuit.edges, middle)
    found = np.full((len(values), len(circuit.segments)), np.nan)
    for c in np.unique(segment):
        part = values[:, segment == c]
        known = np.isfinite(part).any(axis=1)
        found[known, c] = np.nanmean(part[known], axis=1)
    return found


@dataclass(frozen=True)
class Asked:
    """The visitor wants a fit applied to all drivers."""


def tab(view: View) -> None:
    """A button, then a table."""
    race = race_of(view)
    session = data.open_session(race.pick.place)
    codes = [driver.code for driver in session.drivers if driver.has_position and len(driver.laps)]
    winner = codes[0]
    if view.shown.result is None:
        shell.empty("Nothing fitted yet", "This works with a finished fit.")
        return
    asked = view.shown.result.key
    if view.fit.records.last(Asked, asked) is None:
        shell.empty(
            f"Who drives most unlike {winner}?",
            f"Applies the model of {race.pick.train} to all {len(codes)} drivers, as it is, and compares their states place "
            "by place with the winner's, over the racing laps that both drove.",
        )
        if not st.button(f"Apply to {len(codes)} drivers", type="primary", key="f1-apply"):
            standings.show(session, {}, ())
            return
        view.fit.records.keep(Asked(), asked)
    looked = Looked("racing", race.pick.looked.channels)
    found: list[Laps] = []
    missing: list[str] = []
    for code in codes:
        try:
            found.append(data.laps_of(race.pick.place, code, looked))
        except GdmError:
            missing.append(code)
    if len(found) < 2 or found[0].code != winner:
        shell.empty("Nobody to compare", "The winner has no racing laps with positions. Choose another session.")
        return
    stations = [stations_of(race.circuit, laps) for laps in found]
    n = race.circuit.n_bins // 5
    trials = (laps.trials for laps in found)
    answer = view.ask("all-drivers", drivers_along_lap, stations, n, *trials, deadline_s=240.0)
    failed = live.unanswered(view.fit, answer, "The model could not be applied to all drivers")
    if answer.value is None:
        if not failed:
            shell.quiet(f"The model is being applied to {len(found)} drivers.")
        return
    if not answer.fresh:
        shell.quiet("The table below is of the earlier fit.")
    _show(race.circuit, found, answer.value)
    _, order = answer.about
    names = numbered(state_names.names(view)) if answer.fresh else names_of(len(order), None)
    standings.show(session, standings.usage_of([laps.code for laps in found], answer.value, order), names)
    if missing:
        shell.quiet(f"Without racing laps: {', '.join(missing)}.")


def rows_of(circuit: Circuit, found: list[Laps], profiles: npt.NDArray[np.float32]) -> tuple[pd.DataFrame, list[str]]:
    """(table, its segment columns): drivers by how unlike the first they drive beyond chance, in percent."""
    apart, chance = unlikeness(profiles)
    whole, noise = (100 * _mean_of_known(values) for values in (apart, chance))
    table = pd.DataFrame(
        {
            "Driver": [f"{laps.code} · {laps.name}" for laps in found],
            "Laps both drove": [len(np.intersect1d(laps.lap, found[0].lap)) for laps in found],
            "Whole lap": whole,
            "By chance": noise,
            "Beyond chance": np.sqrt(np.clip(whole**2 - noise**2, 0, None)),  # both stray independently
        }
    )
    columns: list[str] = []
    if circuit.segments:
        segments = by_segment(circuit, apart)
        table["Most at"] = [
            circuit.segments[int(np.nanargmax(row))] if np.isfinite(row).any() else "" for row in segments
        ]
        spread = np.nanmean(segments[1:], axis=0)
        for c in sorted(np.argsort(-np.nan_to_num(spread))[:SHOWN]):
            columns.append(circuit.segments[c])
            table[circuit.segments[c]] = 100 * segments[:, c]
    ranked = np.nan_to_num(table["Beyond chance"].to_numpy()[1:], nan=-1.0)
    order = [0, *(1 + np.argsort(-ranked, kind="stable"))]
    return table.iloc[order].reset_index(drop=True), columns


def _mean_of_known(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """[drivers] mean over the stations that are known; NaN for a driver with none."""
    known = np.isfinite(values)
    total, count = np.where(known, values, 0).sum(axis=1), known.sum(axis=1)
    return np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)


def _show(circuit: Circuit, found: list[Laps], profiles: npt.NDArray[np.float32]) -> None:
    table, columns = rows_of(circuit, found, profiles)
    top = max(float(table[["Whole lap", *columns]].max().max()), 1.0)
    bars = {
        name: st.column_config.ProgressColumn(name, format="%.1f %%", min_value=0, max_value=top)
        for name in ("Whole lap", "By chance", "Beyond chance", *columns)
    }
    with shell.panel("twenty", f"How unlike {found[0].code} each drives"):
        st.dataframe(table, hide_index=True, column_config=bars, height=35 * (len(table) + 1) + 4)
        most = table.iloc[1]
        shell.quiet(
            f"Share of states that would have to change to drive like {found[0].code}: none at 0 %, all at 100 %, on the "
            "laps that both drove. "
            "By chance: what two drivers of one style would differ by after so few laps, told from odd against even laps. "
            + (
                f"Most unlike here, beyond chance: {most['Driver']}, {most['Beyond chance']:.1f} % over the lap"
                + (f", most at {most['Most at']}." if columns else ".")
                if most["Beyond chance"] > 0
                else "Nobody differs by more than chance."
            )
        )
