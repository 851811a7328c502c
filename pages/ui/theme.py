"""Light and dark, both designed: the colours of everything that is not a state.

Figures name these colours as "$ink", "$grid" and so on; the browser fills in the theme of the moment, which may change under an
open page, and `resolve` does the same for exports.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from gdm_studio.plot.palette import TOKENS as TOKENS
from gdm_studio.plot.palette import resolve as resolve

ASSETS = Path(__file__).resolve().parents[2] / "assets"


def apply() -> None:
    """The window's title and icon, and the style sheet of the whole app."""
    st.set_page_config(
        page_title="GDM Studio",
        page_icon=str(ASSETS / "icon.svg"),
        layout="wide",
        initial_sidebar_state="auto",
        menu_items={"About": "GDM Studio finds soft states in time series, live."},
    )
    st.logo(str(ASSETS / "logo.svg"), size="medium", icon_image=str(ASSETS / "icon.svg"))
    st.html(ASSETS / "styles.css")
