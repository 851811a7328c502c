"""State profiles: driving in each state, and names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from datasets.f1.driving import describe, proposed_names
from gdm_studio.plot.figures.base import numbered
from pages.formula1.driver_states import race_of, read
from pages.formula1.tables import table_with_csv
from pages.lab import Undecoded, View
from pages.lab.naming import StateNames
from pages.ui import settings, shell
from pages.ui.controls import text

LONGEST = 40
IN_A_ROW = 4


def profiles(view: View) -> pd.DataFrame:
    """Return the driving profile of each state of the finished fit, one row per state; without rows before."""
    shown, race = view.state, race_of(view)
    here, laps = read(view, race.train, "train"), race.train
    if isinstance(here, Undecoded) or shown.result is None:
        return pd.DataFrame()
    found: pd.DataFrame = shown.memoize(
        "profiles",
        lambda: describe(here.soft, laps.car, race.circuit.curvature_at(laps.distance)),
        inputs=(here.soft, laps),
    )
    return found


def names(view: View) -> list[str]:
    """Return the names of states in colour order; [] before a fit."""
    shown = view.state
    if shown.result is None:
        return []
    own = [_clean(settings.text(name_key(view, state)) or "") for state in shown.order]
    return [mine or name for mine, name in zip(own, proposed_names(profiles(view)), strict=False)]


def naming(view: View) -> StateNames | None:
    """Return the names for figures and files, with their numbers."""
    return StateNames.from_names(numbered(named)) if (named := names(view)) else None


def name_key(view: View, state: int) -> str:
    """Return the control of the name of a model's state; equal settings share names."""
    choice = view.spec.choice
    return settings.key(
        f"name{state + 1}", settings.scope(choice.family, sorted(choice.config.items()), race_of(view).pick)
    )


def _clean(name: str) -> str:
    """Return a name without invisible characters."""
    return " ".join("".join(letter for letter in name if letter.isprintable()).split())[:LONGEST]


def keep_in_address(view: View) -> None:
    """Keep the names of the displayed fit in the address, also while their controls are hidden."""
    for state in view.state.order if view.settled else ():
        key = name_key(view, state)
        settings.keep(key, settings.text(key))


def keep_name(key: str) -> None:
    """Keep an edited name before the page reruns and draws its figures."""
    settings.keep(key, st.session_state[settings.widget_key(key)] or None)


def show_names(view: View) -> None:
    """Show a table of states, and a field for the name of each."""
    shown, found = view.state, profiles(view)
    if found.empty:
        shell.empty("Fitting", "State descriptions appear when fitting finishes.")
        return
    table = in_numbers(found, names(view))
    shapes = dict.fromkeys(table.columns[2:], "%.0f %%") | {
        "Speed": "%.0f km/h", "Gear": "%.1f", "Turning": "%.1f°"
    }  # fmt: skip
    with shell.panel("state-names", f"Driving in each state: {race_of(view).train.code}"):
        table_with_csv(table, "states", view.stem, shapes=shapes)
        shell.quiet("Means weighted by state proportion; turning in degrees per 10 m.")
    with shell.panel("own-names", "Your names"):
        for number, (state, proposed) in enumerate(zip(shown.order, proposed_names(found), strict=False)):
            if number % IN_A_ROW == 0:
                columns = st.columns(IN_A_ROW, gap="small")
            key = name_key(view, state)
            text(
                f"S{number + 1}", key=key, place=columns[number % IN_A_ROW], placeholder=proposed, max_chars=LONGEST,
                on_change=keep_name, args=(key,),
            )  # fmt: skip


def in_numbers(found: pd.DataFrame, named: Sequence[str]) -> pd.DataFrame:
    """Return one row per state with its name and profile, shares in percent."""
    shares = 100 * found[["use", "brake", "cornering", "left"]]
    values = {
        "Usage": shares.use,
        "Speed": found.speed,
        "Throttle": found.throttle,
        "Braking": shares.brake,
        "Gear": found.gear,
    }
    values |= {
        "Turning": np.rad2deg(10 * found.curvature),
        "Cornering": shares.cornering,
        "Left-hand share": shares.left,
    }
    return pd.DataFrame({"State": [f"S{k + 1}" for k in range(len(found))], "Name": list(named)} | values)
