"""Parts of recordings to analyse, chosen before the fit: minutes, times from the sheet, and time without wear."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import streamlit as st

from gdm_core.study.crop import NON_WEAR_MIN, Crop, crop_recordings
from gdm_core.study.sheet import match_sheet
from gdm_core.study.study import RESERVED
from pages.ui import settings
from pages.ui.controls import number, one_of, switch

NOTHING = "–"
LONGEST_MIN = 1e6
IMPORTS = (
    "from dataclasses import replace",
    "from gdm_core.study.crop import Crop, crop_recordings",
    "from gdm_core.study.sheet import match_sheet",
    "from gdm_core.study.study import RESERVED",
)
DESCRIBED = "study = replace(study, preparation=(*preparation, *study.preparation))"


@dataclass(frozen=True)
class Parts:
    """Cropped recordings.

    recordings   name -> Trial, or states [T]
    preparation  sentences for the methods paragraph
    starts       name -> seconds that were cut off at the start
    """

    recordings: Mapping[str, Any]
    preparation: tuple[str, ...] = ()
    starts: Mapping[str, float] = field(default_factory=dict)


def choose(sheet: pd.DataFrame, with_data: bool, of: str) -> Crop:
    """Show the controls and return the choice; `with_data` is False for states of another tool."""
    times = [str(c) for c in sheet if pd.api.types.is_numeric_dtype(sheet[c].dtype)]
    non_wear = 0.0
    with st.expander("Crop and non-wear", icon=":material/content_cut:"):
        first = number("First minutes (0 = all)", 0.0, LONGEST_MIN, 0.0, format="%g", key="first", of=of)
        about = "A column with times in minutes from the start, or in seconds or hours if its name ends in _s or _h."
        start: str | None = one_of("From", [NOTHING, *times], key="from", of=of, help=about)
        stop: str | None = one_of("To", [NOTHING, *times], key="to", of=of, help=about)
        equal = switch("Cut to the shortest", False, key="equal", of=of)
        if with_data:
            about = "Stretches without movement for this long are left out: not worn or not tracked."
            non_wear = number(
                "Non-wear (min; 0 = keep)", 0.0, LONGEST_MIN, NON_WEAR_MIN, format="%g", key="wear", of=of, help=about
            )
    start, stop = (None if one == NOTHING else one for one in (start, stop))
    return Crop(first or None, start, stop, equal, non_wear or None)


def cut(recordings: Mapping[str, Any], sheet: pd.DataFrame, crop: Crop, rate_hz: float | None, key: str) -> Parts:
    """Return the chosen parts; excluded recordings stay whole."""
    return Parts(recordings) if crop == Crop() else _cut(settings.scope(key, crop), recordings, sheet, crop, rate_hz)


@st.cache_resource(scope="session", max_entries=2, show_spinner="Cropping")
def _cut(key: str, _recordings: Mapping[str, Any], _sheet: pd.DataFrame, _crop: Crop, rate_hz: float | None) -> Parts:
    rates = None if rate_hz is None else dict.fromkeys(_recordings, rate_hz)
    found, starts, said = crop_recordings(_recordings, match_sheet(_sheet, _recordings, RESERVED), _crop, rates)
    return Parts(found, tuple(said), starts)


def code(crop: Crop, parts: Parts, name: str, rate_hz: float | None) -> list[str]:
    """Return lines that crop the variable `name`; they need `IMPORTS`."""
    if not parts.preparation:
        return []
    rates = "" if rate_hz is None else f", dict.fromkeys({name}, {rate_hz:g})"
    return [
        f"cropped = crop_recordings({name}, match_sheet(sheet, {name}, RESERVED), {crop!r}{rates})",
        f"{name}, starts, preparation = cropped",
    ]
