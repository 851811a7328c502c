"""A server and a browser of their own for measuring the app, and what they cost: processor time, memory, complaints."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from playwright.sync_api import Browser, BrowserContext, Page

from gdm_core.engine.messages import code_version
from tests.support.patience import patience_s

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The first two draw what hangs from an address bar, for each context anew: half a second of processor time, and nobody sees
# it. The others are those that Playwright names, since of two such lists the last counts.
UNUSED = (
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--disable-features={','.join(UNUSED)}",
    # Pages that stand behind another one are people too: they must not be slowed down.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)
WINDOW = {"width": 1440, "height": 900}
RAISED = re.compile(r"^([\w.]+(Error|Exception|Interrupt)\b.*|error [0-9a-f]{6}\b.*)")
HOST = "127.0.0.1"


def find_chromium() -> str | None:
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def load_average() -> float:
    """Processes that wanted a processor in the last minute; on two cores, above 2 each has less than it asks for."""
    return round(os.getloadavg()[0], 1)


@dataclass
class Server:
    """A running app. `started` is how long it took to answer its health check."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path
    started: float = 0.0

    def healthy(self, timeout: float = 30.0) -> float:
        """Seconds that the health check took."""
        began = time.perf_counter()
        with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=timeout) as answer:
            answer.read()
        return time.perf_counter() - began

    def complaints(self) -> list[str]:
        """What the log holds of exceptions, but for those of a visitor who left while he was being answered."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if RAISED.match(line) and "WebSocketDisconnected" not in line]

    def family(self) -> list[psutil.Process]:
        """The server, then its scheduler and workers."""
        server = psutil.Process(self.process.pid)
        return [server, *server.children(recursive=True)]

    def memory(self) -> dict[str, float]:
        """Megabytes that the server holds, and all that it started."""
        server, *others = self.family()
        return {
            "server_mb": round(held(server) / 1e6, 1),
            "workers_mb": round(sum(map(held, others)) / 1e6, 1),
        }

    def busy(self) -> tuple[float, float]:
        """Seconds of processor time so far of the server, and of all that it started."""
        server, *others = self.family()
        return _processor(server), sum(map(_processor, others))


def held(process: psutil.Process) -> float:
    """Bytes of memory; workers are copies of one process, so what several share is divided among them where that is known."""
    try:
        return float(process.memory_full_info().pss if sys.platform == "linux" else process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0.0


def _processor(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


@contextmanager
def running_server(folder: Path, base: str = "", **settings: str) -> Iterator[Server]:
    """A server that keeps its results in `folder`, so that no fit has been seen before. It ends with the block.

    base      the path that it is put under
    settings  of its environment
    """
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port = int(listener.getsockname()[1])
    log = folder / "server.log"
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    command += ["--server.address", HOST, "--server.fileWatcherType", "none"]
    pinned = code_version().partition("+")[2]  # results of one run belong together, even where somebody edits the code
    if base:
        command += ["--server.baseUrlPath", base]
    inherited = {name: value for name, value in os.environ.items() if name != "GDM_SCHEDULER"}
    environment = inherited | {"GDM_DATA_DIR": str(folder), "GDM_CODE_VERSION": pinned}
    environment |= {"MALLOC_ARENA_MAX": "2"} | settings  # as `make app` and `gdm studio` start it
    began = time.perf_counter()
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
    server = Server(process, f"http://{HOST}:{port}" + (f"/{base}" if base else ""), log)
    try:
        _wait(server)
        server.started = time.perf_counter() - began
        yield server
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(server: Server) -> None:
    end = time.monotonic() + patience_s()
    while time.monotonic() < end:
        if server.process.poll() is not None:
            raise RuntimeError(f"The server ended at once:\n{server.log.read_text()}")
        try:
            server.healthy()
            return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.02)
    raise RuntimeError(f"The server did not start in time:\n{server.log.read_text()}")


@dataclass
class Visitors:
    """Pages that are opened for a measurement, each with an empty browser store of its own, and their complaints."""

    browser: Browser
    server: Server
    errors: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)

    def page(self, script: str = "") -> Page:
        """A blank page; `script` runs in it before anything else."""
        context = self.browser.new_context(viewport=WINDOW)
        self.contexts.append(context)
        if script:
            context.add_init_script(script)
        page = context.new_page()
        page.set_default_timeout(300_000)
        page.on("pageerror", lambda error: self.errors.append(f"exception: {error}"))
        page.on("console", lambda message: self._hear(message.type, message.text, message.location.get("url", "")))
        return page

    def _hear(self, kind: str, text: str, url: str) -> None:
        if kind == "error":
            self.errors.append(f"console: {text} {url}".strip())

    def leave(self) -> None:
        for context in self.contexts:
            context.close()
        self.contexts.clear()


class Watch:
    """Asks the server for its health twice a second and weighs its processes, on a thread of its own."""

    def __init__(self, server: Server, every: float = 0.5, weigh_every: float = 5.0) -> None:
        self._server, self._every, self._weigh_every = server, every, weigh_every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.health: list[float] = []  # seconds
        self.failures: list[str] = []
        self.memory: list[dict[str, float]] = []
        self._began = 0.0

    def __enter__(self) -> Watch:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def weigh(self) -> None:
        self.memory.append({"at_s": round(time.monotonic() - self._began, 1), **self._server.memory()})

    def _run(self) -> None:
        weighed = -self._weigh_every
        while True:
            now = time.monotonic() - self._began
            if now - weighed >= self._weigh_every:
                weighed = now
                self.weigh()
            try:
                self.health.append(self._server.healthy())
            except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
                self.failures.append(f"health: {error}")
            if self._stop.wait(self._every):
                return
