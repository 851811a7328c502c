"""All drivers in one table: lap times, gaps, and how much of the lap each state takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from datasets.formula1 import Session
from pages.formula1 import teams
from pages.formula1.tables import clock
from pages.ui import shell

Usage = Mapping[str, npt.NDArray[Any]]


def rows_of(session: Session, usage: Usage, names: Sequence[str]) -> pd.DataFrame:
    """Drivers by their best lap; times in seconds.

    usage   [K] shares of the lap's distance in each state, of the drivers for whom they are known
    names   of the states, which are columns
    """
    rows = []
    for driver in session.drivers:
        laps = driver.laps
        timed = laps.seconds[np.isfinite(laps.seconds)]
        undisturbed = laps.accurate & ~(laps.pit_in | laps.pit_out | laps.neutralised) & np.isfinite(laps.seconds)
        clean = laps.seconds[undisturbed]
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


def show(session: Session, usage: Usage, names: Sequence[str]) -> None:
    """The table; teams in their colours."""
    known = names if usage else []
    table = rows_of(session, usage, known)
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
    found = {}
    for code, profile in zip(codes, profiles, strict=True):
        means = profile[0].reshape(-1, profile.shape[-1]).astype(np.float64)
        known = np.isfinite(means).all(axis=-1)
        if known.any():
            found[code] = means[known].mean(axis=0)[list(order)]
    return found
