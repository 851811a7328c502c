"""Which pages there are, in order, and turning from one to another. A page appears once its folder has a page.py.

What a visitor set on a page stays with that page: another one finds its own settings, and coming back finds these. Streamlit
keeps the value of a control that lives in the address under the control's key, for the whole app. Pages use the same short
keys (?K=9), each with its own default, range and meaning. So whoever turns to another page leaves all values behind, and comes
to the address that the page had when they left it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from pages.channel import ROUTE, channel
from pages.ui import slider
from pages.ui.streamlit_internals import Address, StreamlitPage, release_address, renderer, this_run

ROOT = Path(__file__).resolve().parents[2]
ALONE = "Live pictures cannot reach this browser (something on the way lets no WebSocket through): the page looks once a second."


class EndOfPage(Exception):
    """A page has no more to show."""


@dataclass(frozen=True)
class PageInfo:
    """One entry of the menu; `folder` is its package in pages/."""

    folder: str
    title: str
    icon: str

    @property
    def url(self) -> str:
        """Its address, below that of the app."""
        return self.folder.replace("_", "-")

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


def available() -> tuple[PageInfo, ...]:
    """The pages that exist in this installation."""
    return tuple(info for info in REGISTRY if info.path.is_file())


def info(folder: str) -> PageInfo:
    return next(entry for entry in REGISTRY if entry.folder == folder)


def page(folder: str) -> StreamlitPage:
    """The page of one entry, for links to it; the menu and every link describe it alike."""
    entry = info(folder)
    home = entry.folder == "home"
    address = None if home else entry.url
    return st.Page(entry.path, title=entry.title, icon=entry.icon, url_path=address, default=home)


def build() -> None:
    """Show the menu and run the page that was asked for."""
    chosen = st.navigation([page(entry.folder) for entry in available()], position="top")
    st.set_page_config(page_title="GDM Studio" if chosen.url_path == "" else f"{chosen.title} · GDM Studio")
    _turn_to(chosen)
    with st.container(key="history"):
        renderer("history")(key="history-of-settings")
    channel().begin_run()
    try:
        with suppress(EndOfPage):
            chosen.run()
        _finish_run()
    finally:  # most runs end early, because something else is wanted
        _remember(chosen)


def _finish_run() -> None:
    """The page has run to its end: sliders are answered, and what moves from here on goes over the live channel."""
    slider.finish_run()
    mine = channel()
    scene = mine.scene
    address = {"address": f"{ROUTE}/{mine.token}", "runs": mine.runs, "moves": scene.goes_on, "words": ALONE}
    address["unsaved"] = scene.unsaved
    with st.container(key="live-channel-place"):
        renderer("channel")(key="live-channel", data=address, on_run_change=_ignore)
    mine.end_run()


def warn_before_unload() -> None:
    """Have the browser ask before it reloads or closes this page, which holds unsaved work."""
    channel().scene.unsaved = True


def _ignore() -> None:
    """That the browser asks for a run is all there is to it."""


# ---- what a visitor set on a page stays with that page --------------------------------------------------------------
_HERE, _LEFT = "_page", "_addresses"
_stays = {"_"}


def stays(prefix: str) -> str:
    """Say that keys beginning with `prefix` are no control's value but what a page keeps for its visitor. Their owner says so."""
    _stays.add(prefix)
    return prefix


def _turn_to(page: StreamlitPage) -> None:
    """Before `page` runs. Runs the app once more where the page has another address than it should."""
    state = st.session_state
    before = state.get(_HERE)
    state[_HERE] = page.url_path
    if before is None or before == page.url_path:
        return
    for key in [str(key) for key in state if not str(key).startswith(tuple(_stays))]:
        del state[key]
    left: dict[str, Address] = state.setdefault(_LEFT, {})
    # Streamlit has taken out what controls of the page before had in the address, which the menu sends along. What is
    # still there came with a link, and then so may have come what was taken out.
    wanted = this_run().came_with if _address() else left.get(page.url_path, {})
    if wanted != _address():
        release_address(list(wanted))
        st.switch_page(page, query_params=wanted)


def _remember(page: StreamlitPage) -> None:
    """After `page` has run, whichever way that ended."""
    if st.session_state.get(_HERE) == page.url_path:
        st.session_state.setdefault(_LEFT, {})[page.url_path] = _address()


def address_of_page() -> str | None:
    """The address of the page that runs, below that of the app; None where pages are run without a menu."""
    here: str | None = st.session_state.get(_HERE)
    return here


def left_at(url_path: str) -> Address:
    """The address that a page had when this visitor last left it; empty for one not opened yet."""
    found: Address = st.session_state.get(_LEFT, {}).get(url_path, {})
    return dict(found)


def _address() -> Address:
    return {name: st.query_params.get_all(name) for name in st.query_params}
