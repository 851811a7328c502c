"""All drivers: lap times and use of states in one table, and who drives most unlike the winner, without fitting anything again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from datasets.f1.driving import between
from datasets.formula1 import Session
from gdm_core.analysis.segments import drivers_along_lap, unlikeness
from gdm_core.errors import GdmError
from gdm_studio.plot.figures.base import names_of, numbered
from pages.formula1 import data, state_names, teams
from pages.formula1.data import Circuit, Laps, Observation, race_of
from pages.formula1.tables import clock
from pages.lab import View, live
from pages.ui import shell

SHOWN = 8  # segments with a column of their own, those that differ most first


def stations_of(circuit: Circuit, laps: Laps) -> npt.NDArray[np.int64]:
    """[T] which tenth of a kilometre of the lap each sample lies in, roughly: enough samples in each, lap after lap."""
    n = circuit.n_bins // 5
    return np.clip(laps.distance / circuit.length * n, 0, n - 1).astype(np.int64)


def by_segment(circuit: Circuit, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """[drivers, segments] mean of what is known of values [drivers, stations]."""
    n = values.shape[1]
    segment = between(circuit.edges, (np.arange(n) + 0.5) / n * circuit.length)
    means = pd.DataFrame(values.T).groupby(segment).mean().reindex(range(len(circuit.segments)))
    return means.to_numpy().T


@dataclass(frozen=True)
class AllDriversAsked:
    """The visitor wants a fit applied to all drivers."""


def tab(view: View) -> None:
    race = race_of(view)
    session = data.open_session(race.pick.place)
    codes = [driver.code for driver in session.drivers if driver.has_position and len(driver.laps)]
    winner = codes[0]
    if view.shown.result is None:
        shell.empty("Nothing fitted yet", "This works with a finished fit.")
        return
    asked = view.shown.result.key
    if view.fit.records.last(AllDriversAsked, asked) is None:
        shell.empty(
            f"Who drives most unlike {winner}?",
            f"Applies the model of {race.pick.train} to all {len(codes)} drivers, as it is, and compares their states place "
            "by place with the winner's, over the racing laps that both drove.",
        )

        def apply() -> None:
            view.fit.records.keep(AllDriversAsked(), asked)

        st.button(f"Apply to {len(codes)} drivers", type="primary", key="f1-apply", on_click=apply)
        _show_standings(session, {}, ())
        return
    looked = Observation("racing", race.pick.looked.channels)
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
    _show_unlikeness(race.circuit, found, answer.value)
    _, order = answer.about
    names = numbered(state_names.names(view)) if answer.fresh else names_of(len(order), None)
    _show_standings(session, usage_of([laps.code for laps in found], answer.value, order), names)
    if missing:
        shell.quiet(f"Without racing laps: {', '.join(missing)}.")


def rows_of(circuit: Circuit, found: list[Laps], profiles: npt.NDArray[np.float32]) -> tuple[pd.DataFrame, list[str]]:
    """(table, its segment columns): drivers by how unlike the first they drive beyond chance, in percent."""
    apart, chance = unlikeness(profiles)
    whole, noise = (100 * pd.DataFrame(values).mean(axis=1).to_numpy() for values in (apart, chance))
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


def _show_unlikeness(circuit: Circuit, found: list[Laps], profiles: npt.NDArray[np.float32]) -> None:
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


# ---- lap times, gaps, and how much of the lap each state takes -------------------------------------------------------
Usage = Mapping[str, npt.NDArray[Any]]


def standings(session: Session, usage: Usage, names: Sequence[str]) -> pd.DataFrame:
    """Drivers by their best lap; times in seconds.

    usage   [K] shares of the lap's distance in each state, of the drivers for whom they are known
    names   of the states, which are columns
    """
    rows = []
    for driver in session.drivers:
        laps = driver.laps
        timed, clean = laps.seconds[laps.timed], laps.seconds[laps.undisturbed]
        shares = usage.get(driver.code, np.full(len(names), np.nan))
        rows.append(
            {
                "Driver": driver.code,
                "Team": driver.team,
                "Best lap": float(timed.min()) if timed.size else np.nan,
                "On lap": int(laps.number[np.nanargmin(laps.seconds)]) if timed.size else None,
                "Mean of clean laps": float(clean.mean()) if clean.size else np.nan,
                "Clean laps": int(clean.size),
            }
            | {name: 100 * float(share) for name, share in zip(names, shares, strict=True)}
        )
    table = pd.DataFrame(rows).sort_values("Best lap", kind="stable", na_position="last", ignore_index=True)
    table.insert(3, "Gap", table["Best lap"] - table["Best lap"].min())
    return table


def _show_standings(session: Session, usage: Usage, names: Sequence[str]) -> None:
    known = names if usage else []
    table = standings(session, usage, known)
    colours = {driver.team: teams.readable(driver.colour) for driver in session.drivers}
    styled = table.style.map(lambda team: f"color: {colours.get(team, teams.GREY)}; font-weight: 600", subset=["Team"]).format(
        {"Best lap": clock, "Mean of clean laps": clock, "Gap": _gap, "On lap": "{:.0f}"}, na_rep="–"
    )  # fmt: skip
    top = float(np.nanmax(table[list(known)].to_numpy(), initial=1.0)) if known else 1.0
    bars = {name: st.column_config.ProgressColumn(name, format="%.1f %%", min_value=0, max_value=top) for name in known}
    with shell.panel("standings", "Lap times" + (" and use of states" if known else "")):
        st.dataframe(styled, hide_index=True, column_config=bars, height=35 * (len(table) + 1) + 4)
        shell.quiet(
            "Clean laps: accurate by the feed, without pits and safety cars."
            + (
                " Use of states: share of the lap's distance, over racing laps."
                if known
                else " How much of the lap each state takes is known once the model is applied to everybody."
            )
        )


def _gap(seconds: Any) -> str:
    if not np.isfinite(seconds):
        return "–"
    return f"+{seconds:.3f}" if seconds else "leads"


def usage_of(
    codes: Sequence[str], profiles: npt.NDArray[np.float32], order: Sequence[int]
) -> dict[str, npt.NDArray[np.float64]]:
    """By driver the mean of its profile over the lap, in the order of colours.

    profiles   [drivers, 2, 2, stations, K] as `drivers_along_lap` gives them
    """
    means = (profile[0].reshape(-1, profile.shape[-1]).astype(np.float64) for profile in profiles)
    known = {code: pd.DataFrame(mean).dropna() for code, mean in zip(codes, means, strict=True)}
    return {code: mean.mean().to_numpy()[list(order)] for code, mean in known.items() if len(mean)}
