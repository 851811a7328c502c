"""Which video of the data folder belongs to a trial: chosen beside its player, and handed to the visitor's browser in parts."""

from __future__ import annotations

import streamlit as st

from datasets.storage import data_dir, files_below
from datasets.tables import path_within
from pages.lab.data import Data
from pages.ui import downloads, settings

ENDINGS = (".mp4", ".webm")


def choose(data: Data, index: int) -> dict[str, str] | None:
    """The address and the name of the video that the visitor has chosen for a trial; None for none."""
    known = files_below(ENDINGS)
    if not known:
        return None
    key = settings.key(f"video-{index}", data.of)
    name = st.selectbox(
        "Video of this trial", known, index=None, key=key, placeholder="none of those in the data folder",
        help="MP4 and WebM below the data folder. One of your own disk can be opened under the player.",
    )  # fmt: skip
    if name not in known:
        return None
    return {"name": name, "address": downloads.address_of(path_within(data_dir(), name), key=f"video-{name}")}
