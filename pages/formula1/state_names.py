"""What each state is: what the car does in it, a name proposed from that, and the visitor's own names."""

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

# By the fit: the visitor's names, by the model's own numbers of states. How often one was changed.
_NAMES, _EDITS = "f1-state-names", "f1-state-edits"
ADDRESS, APART = "names", "~"  # in the address: what they belong to, then number and name of each state that has one
LONGEST = 40


def profiles(view: View) -> list[Driving]:
    """Each state of the finished fit in numbers, over the fitted driver's laps; none before there is one."""
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
    """The name of each state, in the order of colours: the visitor's own, else the one proposed; [] before there are any."""
    shown = view.state
    if shown.result is None:
        return []
    own = _own(fit_of(view))
    return [own.get(k, name) for k, name in zip(shown.order, proposed_names(profiles(view)), strict=False)]


def naming(view: View) -> StateNames | None:
    """The same as what readings, figures and files call the states, with the numbers that states have everywhere."""
    return StateNames.from_names(numbered(named)) if (named := names(view)) else None


def fit_of(view: View) -> str:
    """What names belong to: the same settings are the same fit wherever a link is opened."""
    choice = view.spec.choice
    return settings.scope(choice.family, sorted(choice.config.items()), race_of(view).pick)


def _own(fit: str) -> dict[int, str]:
    """The visitor's names for the states of a fit: as typed here, else as the address has them."""
    kept: dict[str, dict[int, str]] = st.session_state.setdefault(_NAMES, {})
    if fit not in kept:
        kept[fit] = from_address(settings.text(ADDRESS) or "", fit)
    return kept[fit]


def to_address(fit: str, own: Mapping[int, str]) -> str:
    """Names in a line; "" for none. What holds them apart is written as in addresses where a name has it."""
    said = {k: name.replace("%", "%25").replace(APART, "%7E") for k, name in own.items()}
    return APART.join([fit, *(part for k in sorted(said) for part in (str(k + 1), said[k]))]) if said else ""


def from_address(text: str, fit: str) -> dict[int, str]:
    """The names of this fit in such a line, whoever wrote it."""
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
    """A name in one line, without characters that cannot be seen."""
    text = "".join(letter for letter in str(name or "") if letter.isprintable() or letter.isspace())
    return " ".join(text.split())[:LONGEST]


def keep_in_address(view: View) -> None:
    """The names of the fit that stands, in the address: a link shows them, and another fit does not inherit them."""
    if view.settled:
        fit = fit_of(view)
        settings.keep(ADDRESS, to_address(fit, _own(fit)) or None)


def keep_names(editor: str, fit: str, order: Sequence[int]) -> None:
    """Keep what was typed into the table for the states of this fit; an emptied name is the proposed one again."""
    own = _own(fit)
    edits = st.session_state.get(editor)  # none where the visitor has turned to another page meanwhile
    for row, changed in ({} if edits is None else edits["edited_rows"]).items():
        if int(row) not in range(len(order)):  # from a browser that makes up rows
            continue
        name = _clean(changed.get("Name"))
        own.pop(order[int(row)], None)
        if name:
            own[order[int(row)]] = name
    st.session_state[_EDITS] = st.session_state.get(_EDITS, 0) + 1  # the table begins anew, with these names


def tab(view: View) -> None:
    """A table: each state in numbers beside its name, which can be changed."""
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
    """Columns of numbers, by how they are written."""
    return {name: st.column_config.NumberColumn(name, format=shape) for name, shape in shapes.items()}


def in_numbers(found: Sequence[Driving], named: Sequence[str]) -> pd.DataFrame:
    """A row for each state: its name, and what the car does in it."""
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


def in_words(one: Driving) -> str:
    """What the car does in a state, in a line; what was never sent is left out."""
    parts = [
        (one.speed, f"{one.speed:.0f} km/h"),
        (one.throttle, f"throttle {one.throttle:.0f}%"),
        (one.brake, f"braking {one.brake:.0%}"),
        (one.gear, f"gear {one.gear:.1f}"),
        (one.cornering, f"cornering {one.cornering:.0%}"),
        (one.curvature, f"turning {np.rad2deg(10 * one.curvature):.1f}°/10 m"),
    ]
    return ", ".join([f"{one.use:.0%} of the time", *(text for value, text in parts if np.isfinite(value))])
