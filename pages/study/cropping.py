"""Parts of recordings to analyse, chosen before the fit: minutes, times from the sheet, and time without wear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from gdm_core.study.crop import NON_WEAR_MIN, Crop, Cropped, crop_recordings
from gdm_core.study.sheet import match_sheet
from pages.ui import settings
from pages.ui.controls import number, one_of, switch

NOTHING = "–"
LONGEST_MIN = 1e6
IMPORTS = (
    "from dataclasses import replace",
    "from gdm_core.study.crop import Crop, crop_recordings",
    "from gdm_core.study.sheet import match_sheet",
)
DESCRIBED = "study = replace(study, preparation=(*preparation, *study.preparation))"


def choose(sheet: pd.DataFrame, with_data: bool, scope: str) -> Crop:
    """Show the controls and return the choice; `with_data` is False for states of another tool."""
    times = [str(c) for c in sheet if pd.api.types.is_numeric_dtype(sheet[c].dtype)]
    non_wear = 0.0
    with st.expander("Crop and non-wear", icon=":material/content_cut:"):
        first = number("First minutes (0 = all)", 0.0, LONGEST_MIN, 0.0, format="%g", key=settings.key("first", scope))
        about = "A column with times in minutes from the start, or in seconds or hours if its name ends in _s or _h."
        start: str | None = one_of("From", [NOTHING, *times], key=settings.key("from", scope), help=about)
        stop: str | None = one_of("To", [NOTHING, *times], key=settings.key("to", scope), help=about)
        equal = switch("Cut to the shortest", False, key=settings.key("equal", scope))
        if with_data:
            about = "Stretches without movement for this long are left out: not worn or not tracked."
            non_wear = number(
                "Non-wear (min; 0 = keep)",
                0.0,
                LONGEST_MIN,
                NON_WEAR_MIN,
                format="%g",
                key=settings.key("wear", scope),
                help=about,
            )
    start, stop = (None if one == NOTHING else one for one in (start, stop))
    return Crop(first or None, start, stop, equal, non_wear or None)


def cut(recordings: Mapping[str, Any], sheet: pd.DataFrame, crop: Crop, rate_hz: float | None, key: str) -> Cropped:
    """Return the chosen parts of recordings, which a key identifies; excluded recordings stay whole."""
    return Cropped(recordings) if crop == Crop() else _cut(recordings, sheet, crop, rate_hz, key)


@st.cache_resource(scope="session", max_entries=2, show_spinner="Cropping")
def _cut(_recordings: Mapping[str, Any], _sheet: pd.DataFrame, crop: Crop, rate_hz: float | None, key: str) -> Cropped:
    rates = None if rate_hz is None else dict.fromkeys(_recordings, rate_hz)
    return crop_recordings(_recordings, match_sheet(_sheet, _recordings), crop, rates)


def code(crop: Crop, parts: Cropped, name: str, rate_hz: float | None) -> list[str]:
    """Return lines that crop the variable `name`; they need `IMPORTS`."""
    if not parts.sentences:
        return []
    rates = "" if rate_hz is None else f", dict.fromkeys({name}, {rate_hz:g})"
    return [
        f"cropped = crop_recordings({name}, match_sheet(sheet, {name}), {crop!r}{rates})",
        f"{name}, starts, preparation = cropped",
    ]
