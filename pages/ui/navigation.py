"""The pages of the app, in order, and the run of one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from pages.channel import ROUTE, channel
from pages.ui import settings
from pages.ui.component import component

ROOT = Path(__file__).resolve().parents[2]
_UNSAVED = "_unsaved"  # work that outlasts its page
ALONE = "Live updates are blocked, perhaps by a proxy: the page updates once a second."


class EndOfPage(Exception):
    """Raised by `shell.end_page`."""


@dataclass(frozen=True)
class PageInfo:
    """An entry of the menu; `folder` is its package in pages/."""

    folder: str
    title: str
    icon: str

    @property
    def url(self) -> str:
        """Return the address below that of the app."""
        return "" if self.folder == "home" else self.folder.replace("_", "-")

    @property
    def path(self) -> Path:
        return ROOT / "pages" / self.folder / "page.py"


REGISTRY = (
    PageInfo("home", "Home", ":material/home:"),
    PageInfo("nascar", "NASCAR lab", ":material/all_inclusive:"),
    PageInfo("formula1", "Formula 1", ":material/sports_score:"),
    PageInfo("behaviour", "Behaviour", ":material/pets:"),
    PageInfo("your_data", "Your data", ":material/upload_file:"),
    PageInfo("study", "Study", ":material/groups:"),
    PageInfo("compare", "Compare", ":material/compare_arrows:"),
    PageInfo("playground", "Playground", ":material/change_history:"),
    PageInfo("paper", "Paper", ":material/article:"),
)


def info(folder: str) -> PageInfo:
    return next(entry for entry in REGISTRY if entry.folder == folder)


def page(folder: str) -> Any:
    """Return the page of an entry, for the menu and for links to it."""
    entry = info(folder)
    return st.Page(entry.path, title=entry.title, icon=entry.icon, url_path=entry.url or None, default=not entry.url)


def build() -> None:
    """Show the menu and run the chosen page."""
    chosen = st.navigation([page(entry.folder) for entry in REGISTRY], position="top")
    st.set_page_config(page_title="GDM Studio" if chosen.url_path == "" else f"{chosen.title} · GDM Studio")
    with st.container(key="history-place"):
        settings.begin_run(chosen.url_path)
    channel().begin_run()
    whole = False
    with suppress(EndOfPage):
        chosen.run()
        whole = True
    settings.finish_run(whole)
    open_channel()


def open_channel() -> None:
    """Send updates after this run to the browser over the live channel."""
    mine = channel()
    scene = mine.scene
    address = {"address": f"{ROUTE}/{mine.token}", "runs": mine.runs, "moves": mine.goes_on(), "words": ALONE}
    with st.container(key="live-channel-place"):
        data = address | {"unsaved": scene.unsaved or bool(st.session_state.get(_UNSAVED))}
        component("channel")(key="live-channel", data=data, on_run_change=lambda: None)
    mine.end_run()


def warn_before_unload() -> None:
    """Let the browser ask before it closes this page, which has unsaved work."""
    channel().scene.unsaved = True


def warn_on_every_page(unsaved: bool) -> None:
    """Set whether the browser asks before it closes or reloads any page of this visit."""
    st.session_state[_UNSAVED] = unsaved
