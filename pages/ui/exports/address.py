"""The address that shows this view again."""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st


def link() -> str:
    """The page's address with everything that is set on it; "" where no browser has asked for the page."""
    address = (st.context.url or "").partition("?")[0]  # a page's address comes without what stands behind the "?"
    pairs = [(name, value) for name in st.query_params for value in st.query_params.get_all(name)]
    return f"{address}?{urlencode(pairs)}" if address and pairs else address
