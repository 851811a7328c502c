"""Colours of the light and the dark theme, for everything that is not a state.

Figures name these colours "$ink", "$grid" and so on. The browser fills in the current theme; `resolve` does so for exports.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from gdm_studio.plot.palette import TOKENS as TOKENS
from gdm_studio.plot.palette import resolve as resolve

ASSETS = Path(__file__).resolve().parents[2] / "assets"


def apply() -> None:
    """Set the window's title and icon, and the style sheet."""
    st.set_page_config(
        page_title="GDM Studio",
        page_icon=str(ASSETS / "icon.svg"),
        layout="wide",
        initial_sidebar_state="auto",
        menu_items={"About": "GDM Studio finds soft states in time series, live."},
    )
    st.logo(str(ASSETS / "logo.svg"), size="medium", icon_image=str(ASSETS / "icon.svg"))
    st.html(ASSETS / "styles.css")
