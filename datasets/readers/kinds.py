"""Tables that are no recordings: sheets of conditions, bouts and states."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from gdm_core.errors import DataError

from .roles import Role, columns_with, is_named, is_numeric, numeric_values, plain_name

_FILE = re.compile(r"^(recording|file|file ?name|video)s?$")
_IMAGE = re.compile(r"\.(?:png|jpe?g|tiff?|bmp)$", re.IGNORECASE)
_CONDITION = re.compile(r"^(group|treatment|condition|drug|dose|dosage|sex|genotype|strain|cohort)s?$")
_START, _STOP = re.compile(r"^(start|onset|begin)"), re.compile(r"^(stop|end|offset|duration|run length)")
_STATES = re.compile(r"(state|label|cluster|behaviou?r|syllable)s?$")
_SHARE = re.compile(r"(p|prob|state)[ _]?\d+$")
_MOST = 1_000  # rows of a sheet


def refuse_other_tables(frame: pd.DataFrame, roles: dict[str, Role], name: str) -> None:
    """Raise DataError with advice for a table that has no samples."""
    keys = {str(column): plain_name(str(column)) for column in frame.columns}
    timed, labels = bool(columns_with(roles, Role.TIME)), columns_with(roles, Role.LABEL)
    channels = columns_with(roles, Role.CHANNEL, Role.POSITION)
    ids = [column for column in keys if is_named(column, "animal", "recording") and frame[column].is_unique]
    treated = any(map(_CONDITION.match, keys.values())) and not timed
    files = [column for column in ids if (_FILE.match(keys[column]) or not timed) and not is_numeric(frame[column])]
    named = any(not frame[column].astype(str).str.contains(_IMAGE).any() for column in files)  # not one for each frame
    states = any(_STATES.search(keys[column]) for column in labels) and all(_SHARE.match(keys[one]) for one in channels)
    for found, advice in (
        (
            labels and any(map(_START.match, keys.values())) and any(map(_STOP.match, keys.values())),
            "is a table of bouts. Upload the recording, and this file as its labels.",
        ),
        (
            ids and (named or treated) and len(frame) <= _MOST,
            f"is a sheet of conditions, with one row for each {(*ids, '')[0]}. Open it in Study, with the recordings.",
        ),
        (
            states or _is_one_hot(frame, channels),
            "has labels or states but no channels. Upload the recording, and this file as its labels; Study reads states of "
            "other tools.",
        ),
    ):
        if found:
            raise DataError(f"{name} {advice}")


def _is_one_hot(frame: pd.DataFrame, channels: list[str]) -> bool:
    """Return True if each row has a one in one of several columns, as DeepEthogram writes behaviours."""
    if len(channels) < 2 or not all(set(frame[name].unique()) == {0, 1} for name in channels):
        return False
    return bool((np.sum([numeric_values(frame[name]) for name in channels], axis=0) == 1).all())
