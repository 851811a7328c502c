"""A server and a Chromium for browser tests, which are skipped without Chromium and fail under CI."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from gdm_studio.seeds import SEEDS_VARIABLE
from tests.support.browser_server import FLAGS, Server, find_chromium, running_server
from tests.support.patience import patience_s

# Streamlit looks for its server below the address of a page first (docs/known-issues.md).
LOOKS_FOR_SERVER = re.compile(r"/[\w-]+/_stcore/(health|host-config)$")
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
    """Start a server with an empty cache."""
    # No fits of further seeds, which tests/app covers.
    with running_server(tmp_path_factory.mktemp("server"), **{SEEDS_VARIABLE: "0"}) as server:
        yield server


@pytest.fixture(scope="session")
def app_url(app_server: Server) -> str:
    """Return the address of the server."""
    return app_server.url


# Playwright's event loop would block other tests in the same process.
@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """Launch a browser without a profile."""
    started = playwright.chromium.launch(executable_path=_chromium(), args=list(FLAGS))
    yield started
    started.close()


@pytest.fixture(scope="package")
def regular(playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """Launch a browser whose profile caches compiled scripts, which makes pages open faster."""
    profile = str(tmp_path_factory.mktemp("profile"))
    started = playwright.chromium.launch_persistent_context(profile, executable_path=_chromium(), args=list(FLAGS))
    yield started
    started.close()


@dataclass
class Visit:
    """An open page and its errors."""

    page: Page
    errors: list[str] = field(default_factory=list)

    def set_timeouts(self) -> None:
        """Set timeouts by the load of this machine."""
        self.page.set_default_timeout(1000 * patience_s())
        expect.set_options(timeout=1000 * patience_s())

    def ready(self, selector: str = ".gdm-figure[data-updates]") -> Page:
        """Wait for `selector` and the end of the run; return the page."""
        self.page.wait_for_selector(selector, state="attached")
        self.page.wait_for_function(
            "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState !== 'running'"
        )
        return self.page

    def themes(self) -> Iterator[str]:
        """Switch the open page to each theme, starting with the current one."""
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
        """Return by how many pixels the page is wider than its window."""
        return float(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def drag(page: Page, name: str, *shares: float, pause_ms: float = 0.0) -> None:
    """Drag a slider through these shares of its width and keep holding it."""
    box = page.get_by_role("slider", name=name).bounding_box()
    assert box is not None
    for number, share in enumerate(shares):
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2)
        if number == 0:
            page.mouse.down()
        page.wait_for_timeout(pause_ms)


def _opener(
    request: pytest.FixtureRequest, url: str, visits: list[Visit], ends: list[Callable[[], None]]
) -> Callable[..., Visit]:
    def open_page(
        path: str = "/", size: str = "desktop", scheme: str = "light", fresh: bool = False, **options: Any
    ) -> Visit:
        width, height = WIDTHS[size]
        if size == "phone":
            options |= {"has_touch": True, "is_mobile": True}
        if fresh or options:
            context = request.getfixturevalue("browser").new_context(**options)
            page = context.new_page()
            ends.append(context.close)
        else:
            page = request.getfixturevalue("regular").new_page()
            ends.append(page.close)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        opened = Visit(page)
        visits.append(opened)
        opened.set_timeouts()
        page.on("pageerror", lambda error: opened.errors.append(str(error)))
        page.on(
            "console",
            lambda message: (
                opened.errors.append(f"{message.text} {message.location.get('url', '')}")
                if message.type == "error" and not LOOKS_FOR_SERVER.search(message.location.get("url", ""))
                else None
            ),
        )
        page.goto(url + path)
        return opened

    return open_page


@pytest.fixture
def visit(request: pytest.FixtureRequest, app_url: str) -> Iterator[Callable[..., Visit]]:
    """visit("/playground?softness=1", size="phone", scheme="dark") opens a page.

    A phone, `fresh=True` or options of Playwright open a new browser context. The test fails if any page logs an error
    or shows an exception.
    """
    visits: list[Visit] = []
    ends: list[Callable[[], None]] = []
    yield _opener(request, app_url, visits, ends)
    heard = [error for opened in visits for error in opened.errors]
    left = [opened.page for opened in visits if not opened.page.is_closed()]
    shown = [text for page in left for text in page.locator(".stException").all_inner_texts()]
    for end in ends:
        end()
    assert heard + shown == []


@pytest.fixture(scope="package")
def shared(request: pytest.FixtureRequest, app_url: str) -> Callable[..., Visit]:
    """shared("/playground") returns one page per path and size, for tests that restore the page."""
    open_page, opened = _opener(request, app_url, [], []), {}

    def take(path: str, size: str = "desktop") -> Visit:
        if (path, size) not in opened:
            opened[path, size] = open_page(path, size)
        found: Visit = opened[path, size]
        found.set_timeouts()
        found.page.bring_to_front()
        return found

    return take
