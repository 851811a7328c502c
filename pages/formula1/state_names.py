"""State profiles: driving in each state, suggested names and the user's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd
import streamlit as st

from datasets.f1.driving import Driving, describe, proposed_names
from gdm_core.analysis.tables import harmless
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import numbered
from pages.formula1.data import race_of, read
from pages.lab import Undecoded, View
from pages.lab.naming import StateNames
from pages.ui import settings, shell
from pages.ui.controls import whole

# Names by fit and the model's state number; number of edits.
_NAMES, _EDITS = "f1-state-names", "f1-state-edits"
ADDRESS, APART = "names", "~"  # URL parameter: fit, then number and name of each state
LONGEST = 40


def profiles(view: View) -> list[Driving]:
    """Return the driving profile of each state of the finished fit."""
    shown, race = view.state, race_of(view)
    here, laps = read(view, race.train, "train"), race.train
    if isinstance(here, Undecoded) or shown.result is None:
        return []
    found: list[Driving] = shown.memoize(
        "profiles",
        lambda: describe(here.soft, laps.car, race.circuit.curvature_at(laps.distance)),
        of=(here.soft, laps),
    )
    return found


def names(view: View) -> list[str]:
    """Return the names of states in colour order; [] before a fit."""
    shown = view.state
    if shown.result is None:
        return []
    own = _own(fit_of(view))
    return [own.get(k, name) for k, name in zip(shown.order, proposed_names(profiles(view)), strict=False)]


def naming(view: View) -> StateNames | None:
    """Return the names for figures and files, with their numbers."""
    return StateNames.from_names(numbered(named)) if (named := names(view)) else None


def fit_of(view: View) -> str:
    """Return the key that names belong to: equal settings share names."""
    choice = view.spec.choice
    return settings.scope(choice.family, sorted(choice.config.items()), race_of(view).pick)


def _own(fit: str) -> dict[int, str]:
    """Return the user's names from this page or the URL."""
    kept: dict[str, dict[int, str]] = st.session_state.setdefault(_NAMES, {})
    if fit not in kept:
        kept[fit] = from_address(settings.text(ADDRESS) or "", fit)
    return kept[fit]


def to_address(fit: str, own: Mapping[int, str]) -> str:
    """Encode names for the URL."""
    said = {k: name.replace("%", "%25").replace(APART, "%7E") for k, name in own.items()}
    return APART.join([fit, *(part for k in sorted(said) for part in (str(k + 1), said[k]))]) if said else ""


def from_address(text: str, fit: str) -> dict[int, str]:
    """Decode this fit's names from the URL."""
    belongs, *parts = text.split(APART)
    if belongs != fit:
        return {}
    pairs = zip(parts[::2], parts[1::2], strict=False)
    return {
        k - 1: cleaned
        for number, name in pairs
        if (k := whole(number)) is not None and 1 <= k <= palette.MAX_STATES and (cleaned := _clean(unquote(name)))
    }


def _clean(name: object) -> str:
    """Return a name on one line without invisible characters."""
    text = "".join(letter for letter in str(name or "") if letter.isprintable() or letter.isspace())
    return " ".join(text.split())[:LONGEST]


def keep_in_address(view: View) -> None:
    """Store the names of the displayed fit in the URL."""
    if view.settled:
        fit = fit_of(view)
        settings.keep(ADDRESS, to_address(fit, _own(fit)) or None)


def keep_names(editor: str, fit: str, order: Sequence[int]) -> None:
    """Store edited names; an empty name restores the suggestion."""
    own = _own(fit)
    edits = st.session_state.get(editor)  # None after a change of page
    for row, changed in ({} if edits is None else edits["edited_rows"]).items():
        if int(row) not in range(len(order)):  # the browser may send invalid rows
            continue
        name = _clean(changed.get("Name"))
        own.pop(order[int(row)], None)
        if name:
            own[order[int(row)]] = name
    st.session_state[_EDITS] = st.session_state.get(_EDITS, 0) + 1  # a new key resets the table


def tab(view: View) -> None:
    """Show a table of states with editable names."""
    shown, found = view.state, profiles(view)
    if shown.result is None or not found:
        shell.empty("Fitting", "State descriptions appear when fitting finishes.")
        return
    fit, order = fit_of(view), shown.order
    key = f"f1-names-{fit}-{'-'.join(map(str, order))}-{st.session_state.get(_EDITS, 0)}"
    table = in_numbers(found, names(view))
    shapes = dict.fromkeys(table.columns[2:], "%.0f %%") | {
        "Speed": "%.0f km/h", "Gear": "%.1f", "Turning": "%.1f°"
    }  # fmt: skip
    with shell.panel("state-names", f"Driving in each state: {race_of(view).train.code}"):
        st.data_editor(
            table.map(harmless),
            hide_index=True,
            key=key,
            on_change=keep_names,
            args=(key, fit, order),
            disabled=[str(name) for name in table if name != "Name"],
            height=35 * (len(table) + 1) + 4,
            placeholder="–",
            column_config=_numbers(shapes)
            | {"Name": st.column_config.TextColumn("Name", max_chars=LONGEST, width="medium")},
        )
        shell.quiet(
            "Means weighted by state proportion; turning in degrees per 10 m. Double-click a name to change it; clear it to "
            "restore the suggestion."
        )


def _numbers(shapes: Mapping[str, str]) -> dict[str, Any]:
    """Return number columns with their formats."""
    return {name: st.column_config.NumberColumn(name, format=shape) for name, shape in shapes.items()}


def in_numbers(found: Sequence[Driving], named: Sequence[str]) -> pd.DataFrame:
    """Return one row per state with its name and profile."""
    return pd.DataFrame(
        {
            "State": [f"S{k + 1}" for k in range(len(found))],
            "Name": list(named),
            "Usage": [100 * one.use for one in found],
            "Speed": [one.speed for one in found],
            "Throttle": [one.throttle for one in found],
            "Braking": [100 * one.brake for one in found],
            "Gear": [one.gear for one in found],
            "Turning": [float(np.rad2deg(10 * one.curvature)) for one in found],
            "Cornering": [100 * one.cornering for one in found],
            "Left-hand share": [100 * one.left for one in found],
        }
    )
