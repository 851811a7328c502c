"""The address that shows this view again, and the command that brings the project to where a script runs."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode, urlsplit

import streamlit as st

from pages.ui.exports.code import INSTALL

CHECKOUT = Path(__file__).resolve().parents[3]
HERE = ("localhost", "127.0.0.1", "::1")


def link() -> str:
    """The page's address with everything that is set on it; "" where no browser has asked for the page."""
    address = (st.context.url or "").partition("?")[0]  # a page's address comes without what stands behind the "?"
    pairs = [(name, value) for name in st.query_params for value in st.query_params.get_all(name)]
    return f"{address}?{urlencode(pairs)}" if address and pairs else address


def slug(name: str) -> str:
    """A name as a part of a file's: small letters and numbers with dashes between them."""
    kept = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
    return "-".join(part for part in kept.split("-") if part) or "file"


def install() -> str:
    """The command that installs this project: from where it lies, for who sits at the machine that serves the page."""
    here = urlsplit(st.context.url or "").hostname in HERE
    return f'pip install "{CHECKOUT}"' if here and (CHECKOUT / "pyproject.toml").is_file() else INSTALL
