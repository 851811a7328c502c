"""A server and a Chromium for browser tests, which are skipped without Chromium and fail under CI."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Playwright,
    expect,
    sync_playwright,
)

from gdm_core.engine.cluster import WORKERS_VARIABLE
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
    # One worker, since each test process has a server. No fits of further seeds, which tests/app covers.
    settings = {WORKERS_VARIABLE: "1", SEEDS_VARIABLE: "0"}
    with running_server(tmp_path_factory.mktemp("server"), **settings) as server:
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


@pytest.fixture(scope="package")
def touch_screen(browser: Browser) -> Iterator[BrowserContext]:
    """Open a context of a touch screen."""
    context = browser.new_context(has_touch=True, is_mobile=True)
    yield context
    context.close()


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


def _begin_visit(page: Page, size: str, scheme: str, visits: list[Visit], ends: list[Callable[[], None]]) -> Visit:
    """Set the size and the theme of a page and record its errors."""
    width, height = WIDTHS[size]
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme)
    opened = Visit(page)
    visits.append(opened)
    opened.set_timeouts()

    def hear(message: ConsoleMessage) -> None:
        url = message.location.get("url", "")
        if message.type == "error" and not LOOKS_FOR_SERVER.search(url):
            opened.errors.append(f"{message.text} {url}")

    def hear_exception(error: Error) -> None:
        opened.errors.append(str(error))

    page.on("console", hear)
    page.on("pageerror", hear_exception)
    ends.append(lambda: page.remove_listener("console", hear))
    ends.append(lambda: page.remove_listener("pageerror", hear_exception))
    return opened


def _end_visits(visits: list[Visit], ends: list[Callable[[], None]]) -> None:
    """Close what the visits opened; fail if a page logged an error or shows an exception."""
    heard = [error for opened in visits for error in opened.errors]
    left = [opened.page for opened in visits if not opened.page.is_closed()]
    shown = [text for page in left for text in page.locator(".stException").all_inner_texts()]
    for end in ends:
        end()
    assert heard + shown == []


def _opener(
    request: pytest.FixtureRequest, url: str, visits: list[Visit], ends: list[Callable[[], None]]
) -> Callable[..., Visit]:
    def open_page(
        path: str = "/", size: str = "desktop", scheme: str = "light", fresh: bool = False, **options: Any
    ) -> Visit:
        if fresh or options:
            context = request.getfixturevalue("browser").new_context(**options)
            page = context.new_page()
        else:
            context = None
            page = request.getfixturevalue("touch_screen" if size == "phone" else "regular").new_page()
        opened = _begin_visit(page, size, scheme, visits, ends)
        ends.append((context or page).close)
        page.goto(url + path)
        return opened

    return open_page


@pytest.fixture
def visit(request: pytest.FixtureRequest, app_url: str) -> Iterator[Callable[..., Visit]]:
    """visit("/playground?tau=1", size="phone", scheme="dark") opens a page.

    `fresh=True` or options of Playwright open a new browser context. The test fails if any page logs an error or shows an
    exception.
    """
    visits: list[Visit] = []
    ends: list[Callable[[], None]] = []
    yield _opener(request, app_url, visits, ends)
    _end_visits(visits, ends)


# ---- one page for many tests ----------------------------------------------------------------------------------------
# As Back and Forward do, which is faster than loading the app again.
GO = "path => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }"
RESTED = "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"


@pytest.fixture(scope="package")
def kept_page(regular: BrowserContext, app_url: str) -> Page:
    """Open the page of `revisit`."""
    page = regular.new_page()
    page.goto(app_url)
    return page


@pytest.fixture
def revisit(kept_page: Page) -> Iterator[Callable[..., Visit]]:
    """revisit("/nascar?T=200", scheme="dark") turns the page of earlier tests to an address, in the same session."""
    visits: list[Visit] = []
    ends: list[Callable[[], None]] = []

    def turn_to(path: str, scheme: str = "light") -> Visit:
        opened = _begin_visit(kept_page, "desktop", scheme, visits, ends)
        kept_page.bring_to_front()
        kept_page.mouse.up()
        kept_page.mouse.move(0, 0)
        kept_page.wait_for_function(f"{RESTED} && window.gdmChannel?.runs && !window.gdmChannel.moves")
        for _ in range(2):  # a page that was open before returns with its own settings first
            runs = kept_page.evaluate("window.gdmChannel.runs")
            kept_page.evaluate(GO, path)
            kept_page.wait_for_function(f"runs => window.gdmChannel.runs > runs && {RESTED}", arg=runs)
            if kept_page.evaluate("location.pathname + location.search") == path:
                break
        return opened

    yield turn_to
    _end_visits(visits, ends)


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
