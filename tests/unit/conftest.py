"""Fixtures of unit tests."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import fastf1
import pytest
from distributed import LocalCluster
from hypothesis import HealthCheck, settings

from datasets import formula1
from datasets.f1 import feed
from datasets.formula1 import Event, Session
from datasets.storage import cache_dir
from gdm_core.engine import Engine, ResultCache
from tests.support.formula1 import cut_off
from tests.support.real import recorded

settings.register_profile(
    "tests", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")


@pytest.fixture(scope="session")
def scheduler() -> Iterator[str]:
    """Run a Dask cluster of two workers in threads of this process."""
    how: dict[str, Any] = {"processes": False, "dashboard_address": None, "memory_limit": 0, "protocol": "tcp"}
    with (
        dask.config.set({"distributed.worker.memory.pause": False}),
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", **how) as cluster,
    ):
        yield cluster.scheduler_address


@pytest.fixture
def engine(scheduler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Engine]:
    """Return an engine with an empty cache whose jobs run in threads of this process."""
    monkeypatch.setenv("GDM_SCHEDULER", scheduler)
    with Engine(ResultCache(tmp_path / "fits")) as engine:
        yield engine


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty data folder, without a network."""
    cut_off(monkeypatch, tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data folder with FastF1 downloads of real sessions."""
    folder = tmp_path_factory.mktemp("data")
    shutil.copytree(recorded("f1/fastf1_cache"), folder / "fastf1")
    for path in [folder / "fastf1", *(folder / "fastf1").rglob("*")]:
        path.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def china(downloads: Path) -> tuple[Session, Event, list[tuple[float, str]]]:
    """Return the race in Shanghai 2025, its event and the reported progress."""
    heard: list[tuple[float, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        cut_off(patch, downloads)
        event = formula1.schedule(2025)[1]
        session = formula1.load_session(2025, event.name, "Race", progress=lambda *said: heard.append(said))
    return session, event, heard


@pytest.fixture(scope="session")
def melbourne(downloads: Path) -> Session:
    """Return qualifying in Melbourne 2025, which has no corners."""
    with pytest.MonkeyPatch.context() as patch:
        cut_off(patch, downloads)
        return formula1.load_session(2025, "Australian Grand Prix", "Qualifying", offline=True)


@pytest.fixture(scope="session")
def china_feed(downloads: Path) -> Any:
    """Return the race in Shanghai 2025 as FastF1 loads it."""
    fastf1.Cache.configure(cache_dir=str(downloads / "fastf1"))
    fastf1.Cache.offline_mode(True)
    loaded = fastf1.get_session(2025, "China", "R")
    loaded.load(laps=True, telemetry=True, weather=False, messages=False)
    return loaded


@pytest.fixture
def log(home: Path) -> Iterator[feed.FeedLog]:
    """Return a listener to the log of FastF1."""
    listener = feed.open_feed(cache_dir("fastf1"), lambda share, text: None)
    yield listener
    logging.getLogger("fastf1").removeHandler(listener)
