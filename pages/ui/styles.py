"""Style sheets from assets/: one for the whole app, small ones for single pages."""

from __future__ import annotations

import streamlit as st

from pages.ui.theme import ASSETS


def style(name: str) -> None:
    """Put the rules of assets/<name> on the page."""
    st.html(ASSETS / name)
