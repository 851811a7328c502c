"""A real server and a real Chromium. Where none is installed the tests are skipped; under CI they fail instead."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

from benchmarks.browser_server import FLAGS, PROBES, Server, find_chromium, running_server

# Milliseconds, for whatever a test waits for: a busy machine takes its time, and where all is well nobody waits so long.
PATIENCE = 240_000
WIDTHS = {"desktop": (1440, 900), "phone": (390, 844)}


def _chromium() -> str:
    found = find_chromium()
    if found is not None:
        return found
    message = "No Chromium was found. Install one (Debian: apt-get install chromium) to run the browser tests."
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@pytest.fixture(scope="session")
def app_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that was started for these tests, and keeps its results apart from everybody's."""
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="session")
def app_url(app_server: Server) -> str:
    """Its address."""
    return app_server.url


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

    def ready(self, selector: str = ".gdm-figure[data-updates]") -> Page:
        """The page once `selector` is there and the script has come to rest."""
        self.page.wait_for_selector(selector, state="attached")
        self.page.wait_for_function(
            "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState !== 'running'"
        )
        return self.page

    def themes(self) -> Iterator[str]:
        """Both themes on the open page, that of its opening first; each once the page stands in it."""
        first = "dark" if self.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") else "light"
        for scheme in (first, "light" if first == "dark" else "dark"):
            self.page.emulate_media(color_scheme=scheme)
            self.page.wait_for_function(
                "dark => (getComputedStyle(document.querySelector('.stApp')).backgroundColor.match(/\\d+/g)"
                ".slice(0, 3).reduce((sum, part) => sum + Number(part), 0) < 200) === dark",
                arg=scheme == "dark",
            )
            yield scheme

    def overflow(self) -> float:
        """How many pixels the page is wider than its window."""
        return float(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


@pytest.fixture
def visit(browser: Browser, app_url: str) -> Iterator[Callable[..., Visit]]:
    """visit("/playground?softness=1", size="phone", scheme="dark") opens a page in a context of its own."""
    contexts = []
    expect.set_options(timeout=PATIENCE)

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
        context.set_default_timeout(PATIENCE)
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
