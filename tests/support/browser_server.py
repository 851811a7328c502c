"""A server and browsers for tests and benchmarks of the app."""

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

from gdm_core.engine.spec import code_version
from tests.support.patience import patience_s

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The first two draw pop-ups of the address bar, which take half a second per context. The others are disabled by Playwright,
# whose own list would be replaced by this one.
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
    # Pages in the background must run at full speed.
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
    """Return the number of processes that wanted a processor in the last minute."""
    return round(os.getloadavg()[0], 1)


@dataclass
class Server:
    """A running app; `started` is the number of seconds to its first health check."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path
    started: float = 0.0

    def healthy(self, timeout: float = 30.0) -> float:
        """Return the seconds of a health check."""
        began = time.perf_counter()
        with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=timeout) as answer:
            answer.read()
        return time.perf_counter() - began

    def complaints(self) -> list[str]:
        """Return the exceptions in the log, except for disconnected visitors."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if RAISED.match(line) and "WebSocketDisconnected" not in line]

    def memory_mb(self) -> float:
        """Return the megabytes of the server and all its child processes."""
        server = psutil.Process(self.process.pid)
        return sum(map(memory_bytes, [server, *server.children(recursive=True)])) / 1e6


def memory_bytes(process: psutil.Process) -> float:
    """Return the memory of a process; shared memory is divided among processes on Linux."""
    try:
        return float(process.memory_full_info().pss if sys.platform == "linux" else process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0.0


@contextmanager
def running_server(folder: Path, script: str = "app.py", **settings: str) -> Iterator[Server]:
    """Run a server with its cache in `folder` and these environment variables."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port = int(listener.getsockname()[1])
    log = folder / "server.log"
    command = [sys.executable, "-m", "streamlit", "run", script, "--server.port", str(port)]
    command += ["--server.address", HOST, "--server.fileWatcherType", "none"]
    pinned = code_version().partition("+")[2]  # edits of the code during a run change no keys
    inherited = {name: value for name, value in os.environ.items() if name != "GDM_SCHEDULER"}
    environment = inherited | {"GDM_DATA_DIR": str(folder), "GDM_CODE_VERSION": pinned}
    environment |= {"MALLOC_ARENA_MAX": "2"} | settings  # as `make app` and `gdm studio` start it
    began = time.perf_counter()
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
    server = Server(process, f"http://{HOST}:{port}", log)
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
    """Pages in separate browser contexts, and their errors."""

    browser: Browser
    server: Server
    errors: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)

    def page(self, script: str = "") -> Page:
        """Return a blank page that runs `script` first."""
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
    """Checks the health of a server twice a second in a thread."""

    def __init__(self, server: Server, every: float = 0.5) -> None:
        self._server, self._every = server, every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.health: list[float] = []  # seconds
        self.failures: list[str] = []

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            try:
                self.health.append(self._server.healthy())
            except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
                self.failures.append(f"health: {error}")
