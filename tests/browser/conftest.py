"""A real server and a real Chromium. Where none is installed the tests are skipped; under CI they fail instead."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDTHS = {"desktop": (1440, 900), "phone": (390, 844)}
# Streamlit looks for its server below the address of the page first, and finds it one level up.
PROBES = ("/_stcore/health", "/_stcore/host-config")


def _chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if found := shutil.which(name):
            return found
    message = "No Chromium was found. Install one (Debian: apt-get install chromium) to run the browser tests."
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def app_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that was started for these tests."""
    port = _free_port()
    log = tmp_path_factory.mktemp("server") / "log.txt"
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    command += ["--server.address", "127.0.0.1", "--server.fileWatcherType", "none"]
    with log.open("w") as out:
        server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until_healthy(server, url, log)
        yield url
    finally:
        server.terminate()
        try:
            server.wait(timeout=15)
        except subprocess.TimeoutExpired:
            server.kill()


def _wait_until_healthy(server: subprocess.Popen[bytes], url: str, log: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.poll() is not None:
            pytest.fail(f"The server ended at once:\n{log.read_text()}", pytrace=False)
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.1)
    pytest.fail(f"The server was not healthy within {seconds:.0f} s:\n{log.read_text()}", pytrace=False)


# For one module at a time: while it lives, its event loop keeps other tests of the process from running theirs.
@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    started = playwright.chromium.launch(executable_path=_chromium(), args=list(FLAGS))
    yield started
    started.close()


@dataclass
class Visit:
    """One open page, and what went wrong on it."""

    page: Page
    errors: list[str] = field(default_factory=list)

    def ready(self, selector: str = ".gdm-figure[data-updates]", seconds: float = 30) -> Page:
        """The page once `selector` is there and the script has come to rest."""
        self.page.wait_for_selector(selector, timeout=seconds * 1000, state="attached")
        self.page.wait_for_function(
            "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState !== 'running'",
            timeout=seconds * 1000,
        )
        return self.page

    def overflow(self) -> float:
        """How many pixels the page is wider than its window."""
        return float(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


@pytest.fixture
def visit(browser: Browser, app_url: str) -> Iterator[Callable[..., Visit]]:
    """visit("/playground?softness=1", size="phone", scheme="dark") opens a page in a context of its own."""
    contexts = []

    def open_page(path: str = "/", size: str = "desktop", scheme: str = "light", **options: object) -> Visit:
        width, height = WIDTHS[size]
        phone = {"has_touch": True, "is_mobile": True} if size == "phone" else {}
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            **phone,
            **options,  # type: ignore[arg-type]
        )
        contexts.append(context)
        opened = Visit(context.new_page())
        opened.page.on("pageerror", lambda error: opened.errors.append(str(error)))
        opened.page.on(
            "console",
            lambda message: (
                opened.errors.append(f"{message.text} {message.location.get('url', '')}")
                if message.type == "error" and not message.location.get("url", "").endswith(PROBES)
                else None
            ),
        )
        opened.page.goto(app_url + path)
        return opened

    yield open_page
    for context in contexts:
        context.close()
