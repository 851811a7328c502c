"""All that is used of Streamlit beyond what it documents, in one place: a test of each says in words when it is gone.

this_run            which visitor and page a script runs for, and what the browser's address said
take_every_event    a click or a key that comes just before another request
is_connected, end_session    what Streamlit keeps of a session, until it is told to let go of it
page_source         its page, which asks its server at the address that we say
take_finite_numbers, take_any_upload, share_uploads    three defects of its controls
renderer            modules of components/ as components, without a package of their own
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import streamlit as st
from streamlit import runtime
from streamlit.components.v2 import component
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest
from streamlit.elements.widgets import file_uploader
from streamlit.elements.widgets.number_input import NumberInputSerde
from streamlit.navigation.page import Page as StreamlitPage
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.runtime.uploaded_file_manager import UploadedFile, UploadedFileRec

__all__ = [
    "Address",
    "ScriptRun",
    "StreamlitPage",  # what st.Page gives
    "end_session",
    "is_connected",
    "is_script",
    "page_source",
    "release_address",
    "renderer",
    "share_uploads",
    "take_any_upload",
    "take_every_event",
    "take_finite_numbers",
    "this_run",
]

Address = dict[str, list[str]]
log = logging.getLogger(__name__)


# ---- the run of a script ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ScriptRun:
    """What Streamlit knows of the run that is under way.

    session    names the visitor's session
    page       names the page
    stepped    whether the visitor stepped back or forward in the browser's history
    came_with  the address as the browser had it, before Streamlit took out what controls of the page before had in it
    """

    session: str
    page: str
    stepped: bool
    came_with: Address

    def last(self, name: str) -> str:
        """What the browser's address said of one parameter; "" where it said nothing."""
        return self.came_with.get(name, [""])[-1]


def this_run() -> ScriptRun:
    """The run that calls; in a plain script, one of nobody."""
    context = get_script_run_ctx(suppress_warning=True)
    if context is None:
        return ScriptRun("script", "", False, {})
    address = parse_qs(context.query_string, keep_blank_values=True)
    return ScriptRun(context.session_id, context.page_script_hash, context.is_history_navigation, address)


def is_script() -> bool:
    """Whether Streamlit runs this file, and not a server that is to be started."""
    return get_script_run_ctx(suppress_warning=True) is not None


def release_address(names: Sequence[str]) -> None:
    """Let go of what controls of the page before still hold in the address: Streamlit refuses to set it otherwise."""
    context = get_script_run_ctx()
    if context is None:
        return
    with context.session_state.query_params() as bound:
        for name in names:
            if (binding := bound.get_binding_for_param(name)) is not None:
                bound.unbind_widget(binding.widget_id)


def take_every_event() -> None:
    """Have what a browser said be heard whole before a later request is looked at.

    Streamlit looks for one before it takes the values of a run, and at every use of the session in a callback. It begins the
    run of the later request then, and a click or a key of the earlier one, which the browser says once, is lost.
    """
    plain = SafeSessionState.on_script_will_rerun
    if getattr(plain, "whole", False):
        return

    def on_script_will_rerun(self: SafeSessionState, *args: Any, **kwargs: Any) -> None:
        look = self._yield_callback
        object.__setattr__(self, "_yield_callback", lambda: None)  # plain setting would go to the visitor's session
        try:
            plain(self, *args, **kwargs)
        finally:
            object.__setattr__(self, "_yield_callback", look)

    on_script_will_rerun.whole = True  # type: ignore[attr-defined]
    SafeSessionState.on_script_will_rerun = on_script_will_rerun  # type: ignore[method-assign]


# ---- sessions -----------------------------------------------------------------------------------------------------
def is_connected(session: str) -> bool:
    """Whether a browser follows this session now."""
    server: Any = runtime.get_instance() if runtime.exists() else None
    return server is not None and server._session_mgr.get_session_info(session) is not None


def end_session(session: str) -> None:
    """End a session that nobody follows, and have Streamlit let go of it, which may otherwise hold on to it for good."""
    if not runtime.exists():
        return
    server: Any = runtime.get_instance()
    try:
        manager = server._session_mgr
        kept = manager._session_storage._cache
        with manager._storage_lock:
            info = kept._data.get(session)
            if info is not None:
                info.session.session_state.clear()
                info.session.shutdown()  # its uploaded files go
            len(kept)  # expired ones leave when they are counted
    except AttributeError as error:
        log.warning("Sessions that have ended stay in memory until the next visitor leaves (%s).", error)


@cache
def page_source() -> bytes:
    """Streamlit's page, told where its server is: one level up. It would ask below its own address first, in vain."""
    source = Path(st.__file__).parent / "static" / "index.html"
    where = "<script>window.__streamlit = { BACKEND_BASE_URL: new URL('.', location.href).href };</script>"
    return source.read_text(encoding="utf-8").replace("<head>", f"<head>{where}", 1).encode()


# ---- controls -----------------------------------------------------------------------------------------------------
def take_finite_numbers() -> None:
    """Streamlit's number box makes a whole number of what an address or a browser says before it looks whether there is
    one: ?seed=inf ended the page. Such a value counts as not given."""
    plain = NumberInputSerde.deserialize
    if getattr(plain, "only_finite", False):
        return

    def deserialize(self: NumberInputSerde, ui_value: float | None) -> float | None:
        return plain(self, ui_value if ui_value is not None and math.isfinite(ui_value) else None)

    deserialize.only_finite = True  # type: ignore[attr-defined]
    NumberInputSerde.deserialize = deserialize  # type: ignore[method-assign]


def share_uploads() -> None:
    """Have the copies of an uploaded file share its bytes.

    Streamlit gives each run of a script a deep copy of every widget's value, so that a file of 200 MB was copied at every
    move of a slider. Bytes cannot be changed: a file over the same ones is as good a copy.
    """

    def copied(file: UploadedFile, memo: dict[int, Any]) -> UploadedFile:
        return UploadedFile(UploadedFileRec(file.file_id, file.name, file.type, file.getvalue()), file._file_urls)

    UploadedFile.__deepcopy__ = copied  # type: ignore[attr-defined]


def take_any_upload() -> None:
    """Leave it to the reader of a file to say what is wrong with it, beside the control and in words.

    Streamlit ends the page, in every run, over a file whose ending the control does not offer.
    """
    file_uploader.enforce_filename_restriction = lambda filename, allowed_types: None


# ---- components ---------------------------------------------------------------------------------------------------
COMPONENTS = ("plot", "slider", "simplex", "held", "history", "download", "channel", "text")
_registering = threading.Lock()  # two first visitors at once


def renderer(name: str) -> Callable[..., Any]:
    """The component of components/<name>.js, registered with the server that runs this script (each test brings its own)."""
    manager = get_bidi_component_manager()
    with _registering:
        if manager.get_component_asset_root("gdm.plot") is None:
            manifest = ComponentManifest("gdm", "1", [ComponentConfig(each, "components") for each in COMPONENTS])
            manager.register_from_manifest(manifest, Path(__file__).parent)
            _component.cache_clear()
    return _component(name)


@cache
def _component(name: str) -> Callable[..., Any]:
    return component(f"gdm.{name}", js=f"{name}.js", isolate_styles=False)
