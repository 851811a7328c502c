"""What a visitor set on a page stays with that page: another page finds its own settings, and coming back finds these.

Streamlit keeps the value of a control that lives in the address under the control's key, for the whole app. Pages use
the same short keys (?K=9), each with its own default, range and meaning. So whoever turns to another page leaves all
values behind, and comes to the address that the page had when he left it.
"""

from __future__ import annotations

from urllib.parse import parse_qs

import streamlit as st
from streamlit.navigation.page import Page
from streamlit.runtime.scriptrunner import get_script_run_ctx

Address = dict[str, list[str]]

_HERE, _LEFT = "_page", "_addresses"
_stays = {"_"}


def stays(prefix: str) -> str:
    """Say that keys beginning with `prefix` are no control's value but what a page keeps for its visitor. Their owner says so."""
    _stays.add(prefix)
    return prefix


def to(page: Page) -> None:
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
    wanted = _asked() if _address() else left.get(page.url_path, {})
    if wanted != _address():
        _release(wanted)
        st.switch_page(page, query_params=wanted)


def _release(address: Address) -> None:
    """Let go of what controls of the page before still hold in the address: Streamlit refuses to set it otherwise."""
    context = get_script_run_ctx()
    if context is None:
        return
    with context.session_state.query_params() as bound:
        for name in address:
            if (binding := bound.get_binding_for_param(name)) is not None:
                bound.unbind_widget(binding.widget_id)


def remember(page: Page) -> None:
    """Call after `page` has run, whichever way that ended."""
    if st.session_state.get(_HERE) == page.url_path:
        st.session_state.setdefault(_LEFT, {})[page.url_path] = _address()


def left_at(url_path: str) -> Address:
    """The address that a page had when this visitor last left it; empty for one that he has not opened."""
    found: Address = st.session_state.get(_LEFT, {}).get(url_path, {})
    return dict(found)


def _address() -> Address:
    return {name: st.query_params.get_all(name) for name in st.query_params}


def _asked() -> Address:
    """The address that the browser came with, before Streamlit took out what controls of the page before had in it."""
    context = get_script_run_ctx()
    return parse_qs(context.query_string, keep_blank_values=True) if context is not None else {}
