"""Which pages there are, in order. A page appears once its folder has a page.py."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from pages.channel import ROUTE, channel
from pages.ui import page_memory, slider
from pages.ui.browser import renderer
from pages.ui.streamlit_internals import StreamlitPage

ROOT = Path(__file__).resolve().parents[2]
ALONE = "Live pictures cannot reach this browser (something on the way lets no WebSocket through): the page looks once a second."


class EndOfPage(Exception):
    """A page has no more to show."""


@dataclass(frozen=True)
class PageInfo:
    """One entry of the menu; `folder` is its package in pages/, `url` its address."""

    folder: str
    url: str
    title: str
    icon: str
    about: str

    @property
    def path(self) -> Path:
        return ROOT / "pages" / self.folder / "page.py"


REGISTRY = (
    PageInfo("home", "home", "Home", ":material/home:", "What soft states are, and three finished results."),
    PageInfo("nascar", "nascar", "NASCAR lab", ":material/all_inclusive:", "Simulated tracks with known soft states."),
    PageInfo("formula1", "formula1", "Formula 1", ":material/sports_score:", "Where drivers switch, lap after lap."),
    PageInfo("behaviour", "behaviour", "Behaviour", ":material/pets:", "Poses of animals beside expert labels."),
    PageInfo("your_data", "your-data", "Your data", ":material/upload_file:", "A file of your own."),
    PageInfo("study", "study", "Study", ":material/groups:", "Many recordings, their conditions, and what differs."),
    PageInfo("compare", "compare", "Compare", ":material/compare_arrows:", "Models and settings side by side."),
    PageInfo(
        "playground", "playground", "Playground", ":material/change_history:", "The soft switch under the finger."
    ),
    PageInfo("paper", "paper", "Paper", ":material/article:", "Each table and figure of the paper, live."),
)


def available() -> tuple[PageInfo, ...]:
    """The pages that exist in this installation."""
    return tuple(info for info in REGISTRY if info.path.is_file())


def info(folder: str) -> PageInfo:
    return next(entry for entry in REGISTRY if entry.folder == folder)


def page(folder: str) -> StreamlitPage:
    """The page of one entry, for links to it; the menu and every link describe it alike."""
    entry = info(folder)
    home = entry.folder == "home"
    return st.Page(
        entry.path,
        title=entry.title,
        icon=entry.icon,
        url_path=None if home else entry.url,
        default=home,
    )


def build() -> None:
    """Show the menu and run the page that was asked for."""
    chosen = st.navigation([page(entry.folder) for entry in available()], position="top")
    st.set_page_config(page_title="GDM Studio" if chosen.url_path == "" else f"{chosen.title} · GDM Studio")
    page_memory.to(chosen)
    with st.container(key="history"):
        renderer("history")(key="history-of-settings")
    channel().begin_run()
    try:
        with suppress(EndOfPage):
            chosen.run()
        _finish_run()
    finally:  # most runs end early, because something else is wanted
        page_memory.remember(chosen)


def _finish_run() -> None:
    """The page has run to its end: sliders are answered, and what moves from here on goes over the live channel."""
    slider.finish_run()
    mine = channel()
    address = {"address": f"{ROUTE}/{mine.token}", "runs": mine.runs, "moves": mine.scene.goes_on, "words": ALONE}
    with st.container(key="live-channel-place"):
        renderer("channel")(key="live-channel", data=address, on_run_change=_ignore)
    mine.end_run()


def _ignore() -> None:
    """That the browser asks for a run is all there is to it."""
