"""Fixtures of page tests."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.runtime.state.session_state import SessionState
from streamlit.testing.v1 import AppTest, app_test, local_script_runner
from streamlit.testing.v1.local_script_runner import LocalScriptRunner

from gdm_core import GDM
from gdm_core.analysis import baselines
from gdm_studio.seeds import SEEDS_VARIABLE
from pages.behaviour import recordings
from pages.lab import Dataset
from pages.lab.live import FitSession, panels
from pages.ui import server
from tests.support import formula1_page, live_fit, offered
from tests.support.live_engine import QuickEngine
from tests.support.patience import patience_s
from tests.support.recording import SMALL

RUN = AppTest._run


class Asked(Mapping[str, Any]):
    """The state of a session, looked up lazily by the names that a page uses."""

    whole = SessionState.filtered_state.fget  # type: ignore[attr-defined]

    def __init__(self, state: SessionState) -> None:
        self._state = state

    def __getitem__(self, name: str) -> Any:
        if name.startswith("$$"):  # Streamlit's own names
            raise KeyError(name)
        return self._state[name]

    def __iter__(self) -> Iterator[str]:
        return iter(Asked.whole(self._state))

    def __len__(self) -> int:
        return len(Asked.whole(self._state))


@pytest.fixture(scope="session", autouse=True)
def _streamlit_caches() -> Iterator[None]:
    """Cache what every run of an AppTest repeats: component manifests, compiled scripts and session state.

    This saves a third of the processor time of these tests.
    """
    scripts = ScriptCache()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        patch.setattr(app_test, "ScriptCache", lambda: scripts)
        patch.setattr(SessionState, "filtered_state", property(Asked))
        patch.setattr(local_script_runner, "require_widgets_deltas", _run_to_the_end)
        patch.setattr(AppTest, "_run", _without_exceptions)
        yield


@pytest.fixture(scope="module", autouse=True)
def _short_baselines() -> Iterator[None]:
    """Fit hidden Markov models of the scorecard with two steps; no page test reads their accuracy.

    Unit tests in the same process need them whole, so the change ends with each file.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines, "_MAX_ITERATIONS", 2)
        yield


def _without_exceptions(app: AppTest, *given: Any, **more: Any) -> AppTest:
    """Run the page and fail if it shows an exception."""
    RUN(app, *given, **more)
    if app.exception:
        pytest.fail(f"{app.exception[0].message}\n{''.join(app.exception[0].stack_trace)}")
    return app


def _run_to_the_end(runner: LocalScriptRunner, timeout: float) -> None:
    """Wait for the script, in place of the `timeout` of AppTest (3 s), which an overloaded machine exceeds."""
    thread = runner._script_thread
    assert thread is not None
    thread.join(patience_s())
    if thread.is_alive():
        runner.request_stop()
        thread.join()
        pytest.fail("A script did not end.")


@pytest.fixture(autouse=True)
def _one_seed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit one seed, except in tests of several seeds."""
    if "seeds" not in request.node.name:
        monkeypatch.setenv(SEEDS_VARIABLE, "0")


@pytest.fixture(autouse=True)
def _downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what download buttons would make."""
    offered.record(monkeypatch)


@pytest.fixture(autouse=True)
def _no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no workers in the background."""
    monkeypatch.setattr(server, "get_ready", lambda: None)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> QuickEngine:
    """Return the engine of all pages, with an empty data folder."""
    made = QuickEngine()
    monkeypatch.setattr(panels, "engine", lambda: made)
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path))
    return made


@pytest.fixture
def real(engine: QuickEngine, monkeypatch: pytest.MonkeyPatch) -> QuickEngine:
    """Return the engine set to fit the requested models."""
    engine.real = True
    return engine


@pytest.fixture
def live(engine: QuickEngine) -> FitSession:
    """Return a live fit with its first result; later jobs wait for the test."""
    engine.auto = False
    return live_fit.at_rest(engine)


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> QuickEngine:
    """Set up the Formula 1 page (tests/support/formula1_page.py)."""
    return formula1_page.arrange(monkeypatch, tmp_path)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a session state outside of a server."""
    made: dict[str, Any] = {}
    monkeypatch.setattr(st, "session_state", made)
    return made


@pytest.fixture(scope="module")
def sketch() -> tuple[Dataset, GDM, bytes]:
    """Return short recordings, a fitted model and its bytes."""
    data = recordings.load_simulated(SMALL)
    model = GDM(n_states=4, n_latent=2, n_steps=1).fit(data.train)
    return data, model, model.to_bytes()
