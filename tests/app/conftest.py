"""What tests of pages share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.runtime.state.session_state import SessionState
from streamlit.testing.v1 import app_test, local_script_runner
from streamlit.testing.v1.local_script_runner import LocalScriptRunner

from gdm_studio.seeds import SEEDS_VARIABLE
from pages.lab.live import screen, session
from pages.ui import server
from tests.support.live_engine import QuickEngine
from tests.support.patience import WAIT_S, Clock


class Asked(Mapping[str, Any]):
    """The state of a session by the names that a page knows, each looked up where somebody asks for it."""

    whole = SessionState.filtered_state.fget  # type: ignore[attr-defined]

    def __init__(self, state: SessionState) -> None:
        self._state = state

    def __getitem__(self, name: str) -> Any:
        if name.startswith("$$"):  # of Streamlit's own
            raise KeyError(name)
        return self._state[name]

    def __iter__(self) -> Iterator[str]:
        return iter(Asked.whole(self._state))

    def __len__(self) -> int:
        return len(Asked.whole(self._state))


@pytest.fixture(scope="session", autouse=True)
def _streamlit_begins_once() -> Iterator[None]:
    """Every run of an AppTest reads what all installed packages say of themselves, in search of components, compiles app and
    page anew, asks a thousand times a second whether it is over, and reads all that a session holds for each control: a third
    of the processor time of these tests."""
    scripts = ScriptCache()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        patch.setattr(app_test, "ScriptCache", lambda: scripts)
        patch.setattr(SessionState, "filtered_state", property(Asked))
        patch.setattr(local_script_runner, "require_widgets_deltas", _run_to_the_end)
        yield


def _run_to_the_end(runner: LocalScriptRunner, timeout: float) -> None:
    """A busy machine takes its time: `timeout`, three seconds where a test says nothing, would tell of the machine."""
    thread = runner._script_thread
    assert thread is not None
    clock = Clock()
    while thread.is_alive() and clock.look() < WAIT_S:
        thread.join(1.0)
    if thread.is_alive():
        runner.request_stop()
        thread.join()
        pytest.fail(f"A script ran for more than {WAIT_S:g} quiet seconds.")


@pytest.fixture(autouse=True)
def _unhurried(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test changes controls faster than a person can. Only the tests of that waiting itself should meet it."""
    if request.path.name != "test_live.py":
        monkeypatch.setattr(session, "HURRY_S", 0.0)


@pytest.fixture(autouse=True)
def _one_seed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """More seeds are fitted in the background, for minutes of all tests together. Only tests of them should pay."""
    if "seeds" not in request.node.name:
        monkeypatch.setenv(SEEDS_VARIABLE, "0")


@pytest.fixture(autouse=True)
def _no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script run by a test starts no workers in the background."""
    monkeypatch.setattr(server, "get_ready", lambda: None)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> QuickEngine:
    """What pages fit on: in this process, at once, and with an empty data folder."""
    made = QuickEngine()
    monkeypatch.setattr(screen, "engine", lambda: made)
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path))
    return made
