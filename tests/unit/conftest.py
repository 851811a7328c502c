"""Fixtures of unit tests."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from datasets import formula1
from datasets.f1 import feed
from datasets.formula1 import Event, Session
from datasets.storage import cache_dir
from gdm_core.engine import Engine, ResultCache, control, dispatch, worker
from gdm_core.engine import cluster as clusters
from gdm_core.engine.cluster import GIBIBYTE, Host, Link
from gdm_core.models.registry import FAMILIES, NAMED_MODELS
from tests.support.fake_cluster import Cluster, Working
from tests.support.formula1 import cut_off
from tests.support.local_cluster import environment, wait_for_workers
from tests.support.real import recorded

settings.register_profile(
    "tests", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")


@pytest.fixture(scope="session")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a cluster of two workers for all tests of the engine, in one xdist process only."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        (tmp_path_factory.getbasetemp().parent / "cluster-of-the-tests").touch(exist_ok=False)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment().items():
            patch.setenv(name, value)
        host = Host(n_workers=2, memory=2 * GIBIBYTE)
    try:
        address = host.address()
        wait_for_workers(address, 2)
        yield address
    finally:
        host.close()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Connect engines to a fake cluster whose jobs the test ends."""
    made = Cluster()
    monkeypatch.setattr(dispatch, "connect", lambda on_event: Link(made))
    monkeypatch.setattr(clusters, "LOOK_EVERY_S", 0.0)
    return made


@pytest.fixture
def engine(cluster: Cluster, tmp_path: Path) -> Iterator[Engine]:
    """Return an engine on the fake cluster."""
    with Engine(ResultCache(tmp_path / "fits")) as engine:
        yield engine


@pytest.fixture
def working(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Engine]:
    """Return an engine that runs jobs in threads of this process."""
    monkeypatch.setattr(dispatch, "connect", lambda on_event: Link(Working(on_event)))
    monkeypatch.setattr(control, "get_worker", Working.here)
    for module, name in ((control, "secede"), (control, "rejoin"), (worker, "prepare")):
        monkeypatch.setattr(module, name, lambda: None)
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


@pytest.fixture
def log(home: Path) -> Iterator[feed.FeedLog]:
    """Return a listener to the log of FastF1."""
    listener = feed.open_feed(cache_dir("fastf1"), lambda share, text: None)
    yield listener
    logging.getLogger("fastf1").removeHandler(listener)


@pytest.fixture
def simple_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register a quick model family as "simple"."""
    monkeypatch.setitem(FAMILIES, "simple", ("tests.support.simple_model", "SimpleModel"))
    monkeypatch.setitem(NAMED_MODELS, "simple", ("simple", {}))
