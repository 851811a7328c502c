"""What a visitor set on a page stays with that page: another page finds its own settings, and coming back finds these.

Streamlit keeps the value of a control that lives in the address under the control's key, for the whole app. Pages use
the same short keys (?K=9), each with its own default, range and meaning. So whoever turns to another page leaves all
values behind, and comes to the address that the page had when they left it.
"""

from __future__ import annotations

import streamlit as st

from pages.ui.streamlit_internals import Address, StreamlitPage, release_address, this_run

_HERE, _LEFT = "_page", "_addresses"
_stays = {"_"}


def stays(prefix: str) -> str:
    """Say that keys beginning with `prefix` are no control's value but what a page keeps for its visitor. Their owner says so."""
    _stays.add(prefix)
    return prefix


def to(page: StreamlitPage) -> None:
    """Call before `page` runs. Runs the app once more where the page has another address than it should."""
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


def remember(page: StreamlitPage) -> None:
    """Call after `page` has run, whichever way that ended."""
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
