"""What unit tests share."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.fixture(scope="session")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of two workers for all tests of the engine: each start of one takes seconds of both processors. Its workers are
    copies of one process, so that those that a test kills are there again at once.

    Where tests run in several processes, a second one that wants a cluster fails: they were to stay together.
    """
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
    """In place of a cluster one that does nothing by itself, looked at whenever the engine comes by."""
    made = Cluster()
    monkeypatch.setattr(dispatch, "connect", lambda on_event: Link(made))
    monkeypatch.setattr(clusters, "LOOK_EVERY_S", 0.0)
    return made


@pytest.fixture
def engine(cluster: Cluster, tmp_path: Path) -> Iterator[Engine]:
    """On that cluster. Tests on a real one have an engine of their own."""
    with Engine(ResultCache(tmp_path / "fits")) as engine:
        yield engine


@pytest.fixture
def working(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Engine]:
    """An engine whose cluster does what it is sent, in threads of this process."""
    monkeypatch.setattr(dispatch, "connect", lambda on_event: Link(Working(on_event)))
    monkeypatch.setattr(control, "get_worker", Working.here)
    for module, name in ((control, "secede"), (control, "rejoin"), (worker, "prepare")):
        monkeypatch.setattr(module, name, lambda: None)
    with Engine(ResultCache(tmp_path / "fits")) as engine:
        yield engine


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, and no network."""
    cut_off(monkeypatch, tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with what FastF1 has downloaded of real sessions."""
    folder = tmp_path_factory.mktemp("data")
    shutil.copytree(recorded("f1/fastf1_cache"), folder / "fastf1")
    for path in [folder / "fastf1", *(folder / "fastf1").rglob("*")]:
        path.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def china(downloads: Path) -> tuple[Session, Event, list[tuple[float, str]]]:
    """The race in Shanghai, 2025, through FastF1 itself, offline, once: with its event, and what was heard of its progress."""
    heard: list[tuple[float, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        cut_off(patch, downloads)
        event = formula1.schedule(2025)[1]
        session = formula1.load_session(2025, event.name, "Race", progress=lambda *said: heard.append(said))
    return session, event, heard


@pytest.fixture
def log(home: Path) -> Iterator[feed.FeedLog]:
    """What FastF1 says while it loads."""
    listener = feed.open_feed(cache_dir("fastf1"), lambda share, text: None)
    yield listener
    logging.getLogger("fastf1").removeHandler(listener)


@pytest.fixture
def simple_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick model family under the name "simple"."""
    monkeypatch.setitem(FAMILIES, "simple", ("tests.support.simple_model", "SimpleModel"))
    monkeypatch.setitem(NAMED_MODELS, "simple", ("simple", {}))
