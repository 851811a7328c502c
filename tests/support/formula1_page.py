"""The Formula 1 page with invented sessions and an engine in this process."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from datasets.f1 import loader
from datasets.f1.session import Driver, Session
from datasets.formula1 import Event, SessionSlot
from pages.formula1 import field, sessions
from pages.formula1.selection import Place
from pages.lab import live
from pages.lab.live.background import Jobs
from tests.support import drawn
from tests.support.formula1 import LAP_S, ring_driver, ring_session
from tests.support.live_engine import QuickEngine
from tests.support.page import opened

RING = Place(year=2024, event="Ring Grand Prix", name="Race")
WEEKEND = Event(
    2024, 1, "Ring Grand Prix", "Ringland", "Ringtown", "2024-03-10",
    (SessionSlot("Qualifying", "2024-03-09T10:00"), SessionSlot("Race", "2024-03-10T10:00")),
)  # fmt: skip
FUTURE = Event(2024, 2, "Far Grand Prix", "Ringland", "Ringtown", "2999-03-10", (SessionSlot("Race", "2999-03-10"),))


def ring_race() -> Session:
    """Return a session of three drivers at constant speed, without pedals."""
    return ring_session(ring_driver("AAA"), ring_driver("BBB"), ring_driver("CCC"))


def driven_race() -> Session:
    """Return a session of three drivers who brake and accelerate twice a lap."""
    return ring_session(*map(_on_pedals, ("AAA", "BBB", "CCC"), (0.0, 0.03, 0.06)))


def _on_pedals(code: str, late: float) -> Driver:
    driver = ring_driver(code)
    there = 4 * np.pi * ((driver.time - 100.0) / LAP_S - late)
    faster = np.cos(there)
    pedals = {"throttle": np.clip(100 * faster, 0, 100), "brake": (faster < -0.7).astype(np.float32)}
    pedals |= {"speed": 113 + 40 * np.sin(there), "gear": driver.channels["gear"]}
    return replace(driver, channels={name: values.astype(np.float32) for name, values in pedals.items()})


def arrange(monkeypatch: pytest.MonkeyPatch, folder: Path, race: Callable[[], Session] = ring_race) -> QuickEngine:
    """Set up a calendar with one past session and an engine, with empty caches."""
    monkeypatch.setenv("GDM_DATA_DIR", str(folder))
    monkeypatch.setattr(loader, "schedule", lambda year, **more: (WEEKEND, FUTURE) if year == 2024 else ())
    monkeypatch.setattr(loader, "stored_sessions", lambda: ((2024, "Ring Grand Prix", "Race"),))
    monkeypatch.setattr(loader, "is_stored", lambda *where: where == (RING.year, RING.event, RING.name))
    monkeypatch.setattr(loader, "load_session", lambda *where, **more: race())
    monkeypatch.setattr(sessions, "LOADS", Jobs(sessions.MAX_KEPT))
    engine = QuickEngine()
    monkeypatch.setattr(live.panels, "engine", lambda: engine)
    field.measure_field.clear()
    return engine


def driven_by(monkeypatch: pytest.MonkeyPatch, *drivers: Driver, **more: Any) -> None:
    """Replace every loaded session by one with these drivers."""
    monkeypatch.setattr(loader, "load_session", lambda *where, **_: ring_session(*drivers, **more))


def fails(monkeypatch: pytest.MonkeyPatch, what: str, error: Exception) -> list[Any]:
    """Make a function of the library fail; return its calls."""
    asked: list[Any] = []

    def fail(*where: Any, **more: Any) -> None:
        asked.append(where)
        raise error

    monkeypatch.setattr(loader, what, fail)
    return asked


def one_lap(place: np.ndarray, distance: np.ndarray) -> SimpleNamespace:
    """Return the attributes of a lap that the map needs."""
    lap = np.ones(len(place), np.int64)
    return SimpleNamespace(place=place, distance=distance, lap=lap, speed=distance, segment=None)


PAPER = {"watch": "paper", "laps-of": "all"}  # the channels of the paper, all laps, K = 8


def visit(**query: str) -> AppTest:
    """Open the page, with the simulated race by default."""
    app = opened("formula1", **({"source": "simulated"} | query))
    # A stored session may load more slowly than the page waits.
    if sessions.is_requested(RING) and not (load := sessions.request_session(RING)).ended:
        load.wait(2.0)
        app.run()
    return app


def visit_states(**query: str) -> AppTest:
    """Open the tab with a fit, with the simulated race by default."""
    return visit(view="States", **query)


words = drawn.words


def box(app: AppTest, label: str) -> Any:
    """Return a select box by its label."""
    return next(one for one in app.selectbox if one.label == label)


def one_of(value: str | list[str]) -> str:
    """Return a value of the address, which becomes a list once the page has written it."""
    return value if isinstance(value, str) else value[0]


def drivers(app: AppTest) -> tuple[str, str]:
    """Return the codes of the chosen drivers."""
    return box(app, "Reference driver").value, box(app, "Compare with").value
