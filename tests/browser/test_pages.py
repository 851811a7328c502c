"""Every page in both themes: it fits its window, has no errors and no serious finding of axe."""

import re
from collections.abc import Callable
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import WIDTHS

# The package's own runner does not report the impact.
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
FOUND = """
async (rules) => (await axe.run(document, { resultTypes: ["violations"], ...rules })).violations
  .filter(({ impact }) => impact === "serious" || impact === "critical")
  .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 200)} (${node.failureSummary})`))
"""
# Ignore transitions, and Streamlit's fading during a run.
STILL = """
*, *::before, *::after { transition: none !important; animation: none !important; }
[data-stale=true] { opacity: 1 !important; }
"""
INK = {"light": "rgb(29, 31, 39)", "dark": "rgb(232, 233, 238)"}
ACCENT = {"light": "rgb(23, 120, 159)", "dark": "rgb(70, 160, 181)"}


def home(page: Page, scheme: str, phone: bool) -> None:
    expect(page.locator(".gdm-lap").first).to_be_visible()


def nascar(page: Page, scheme: str, phone: bool) -> None:
    page.wait_for_selector(".st-key-inferred-track .gdm-figure[data-state=fresh][data-updates]")
    page.wait_for_selector(".gdm-score")
    expect(page.get_by_text("until the fit ends")).to_have_count(0)  # these are dimmed
    page.wait_for_function(
        """dark => {
          const { color } = document.querySelector(".st-key-strips .gdm-plot")._fullLayout.font;
          return parseInt(color.slice(1, 3), 16) > 128 === dark;
        }""",
        arg=scheme == "dark",
    )


def comparison(page: Page, scheme: str, phone: bool) -> None:
    """Wait for the traces, the map and three corners."""
    for key in ("telemetry", "gain-map"):
        page.wait_for_selector(f".st-key-{key} .gdm-figure[data-updates]")
    expect(page.locator(".f1-corners [role=listitem]")).to_have_count(3)


def formula1(page: Page, scheme: str, phone: bool) -> None:
    """Wait for 16 corner numbers and the driver's name; wide screens also show the states of most segments."""
    page.wait_for_selector(".st-key-map .gdm-figure[data-state=fresh][data-updates]")
    page.get_by_text("simulated race").first.wait_for()
    page.locator(".gdm-score").first.wait_for()
    page.wait_for_function(
        """phone => {
          const notes = document.querySelectorAll(".st-key-map .annotation-text").length;
          return phone ? notes === 17 : notes > 17 + 8;
        }""",
        arg=phone,
    )


def behaviour(page: Page, scheme: str, phone: bool) -> None:
    expect(page.locator(".st-key-player canvas[data-ready]")).to_have_css("color", INK[scheme])


def your_data(page: Page, scheme: str, phone: bool) -> None:
    expect(page.locator("[data-testid=stFileUploader]").first).to_be_visible()


def playground(page: Page, scheme: str, phone: bool) -> None:
    drawer = page.get_by_test_id("stExpandSidebarButton")
    if phone and drawer.is_visible():
        drawer.tap()
    slider = page.locator(".st-key-slider-tau .gdm-slider")
    expect(slider).to_be_visible()
    page.wait_for_function(  # the drawer of a phone opens slowly
        """() => {
          const { left, width } = document.querySelector(".st-key-slider-tau .gdm-slider").getBoundingClientRect();
          return left >= 0 && width > 150;
        }"""
    )
    expect(slider).to_have_css("color", INK[scheme])
    expect(slider.locator("output")).to_have_css("color", ACCENT[scheme])


def compare(page: Page, scheme: str, phone: bool) -> None:
    """Wait for the comparison of two models."""
    expect(page.locator(".gdm-verdicts dd").first).to_contain_text("A GDM")
    expect(page.locator(".gdm-verdicts dd").first).to_contain_text("AR-HMM")


def paper(page: Page, scheme: str, phone: bool) -> None:
    expect(page.get_by_role("table").first).to_be_visible()


def anything(page: Page, scheme: str, phone: bool) -> None:
    """Check nothing else."""


# Further checks of a page, and whether axe runs on it.
PAGES: dict[tuple[str, str], tuple[Callable[[Page, str, bool], None], bool]] = {
    ("/", "desktop"): (home, True),
    ("/", "phone"): (home, False),
    ("/nascar?stay=Set+by+hand&T=200", "desktop"): (nascar, True),
    ("/nascar?T=200", "phone"): (nascar, False),
    ("/nascar?view=Export", "phone"): (anything, True),
    ("/formula1", "desktop"): (comparison, True),
    ("/formula1", "phone"): (comparison, False),
    ("/formula1?view=States", "desktop"): (formula1, True),
    ("/formula1?view=States", "phone"): (formula1, False),
    ("/formula1?view=Laps", "desktop"): (anything, True),
    ("/formula1?view=Field", "desktop"): (anything, True),
    ("/behaviour", "desktop"): (behaviour, True),
    ("/behaviour", "phone"): (behaviour, False),
    ("/behaviour?view=Labels&labels=Labelling&trial=Training%3A+simulated+mice+1", "desktop"): (anything, True),
    ("/your-data", "desktop"): (your_data, True),
    ("/your-data", "phone"): (your_data, False),
    ("/your-data?example=open", "desktop"): (anything, True),
    ("/study", "desktop"): (anything, True),
    ("/study", "phone"): (anything, False),
    ("/compare?settings=2&seeds=1", "desktop"): (compare, True),
    ("/playground?about=Export", "desktop"): (playground, True),
    ("/playground", "phone"): (playground, False),
    ("/paper", "desktop"): (paper, True),
}


def _at_rest(page: Page) -> None:
    """Wait until nothing runs and every figure is drawn."""
    page.wait_for_selector(".gdm-foot")
    page.wait_for_function(
        """() => document.querySelector("[data-testid=stApp]")?.dataset.testScriptState !== "running"
          && !document.querySelector("[data-stale=true], .gdm-figure:not([data-updates])")
          && ![...document.querySelectorAll("[data-testid=stVegaLiteChart]")].some((n) => !n.querySelector("svg, canvas"))"""
    )


MOST_TABS, MOST_CONTROLS = 6, 7
LABELS = "[data-testid=stWidgetLabel], .gdm-slider label, summary, [data-testid=stPopover] button, .stButton button"
CONTROLS = f"""() => [...document.querySelectorAll("[data-testid=stSidebar] :is({LABELS})")]
  .filter((node) => node.checkVisibility()).length"""


# `make test` opens each page once; `make test-all` adds settings and sizes.
ONCE = {
    "/",
    "/nascar?stay=Set+by+hand&T=200",
    "/formula1",
    "/behaviour",
    "/your-data",
    "/study",
    "/compare?settings=2&seeds=1",
    "/playground?about=Export",
    "/paper",
}


@pytest.mark.parametrize(
    ("path", "size"),
    [
        (path, size) if size == "desktop" and path in ONCE else pytest.param(path, size, marks=pytest.mark.bulk)
        for path, size in PAGES
    ],
)
def test_page_is_accessible_and_fits_its_window(visit, revisit, path, size):
    stands, checked = PAGES[path, size]
    # Half of the pages open in the light theme, half in the dark one; both themes are checked.
    scheme = "light" if checked else "dark"
    opened = revisit(path, scheme) if size == "desktop" else visit(path, size, scheme)
    page = opened.page
    _at_rest(page)
    expect(page.locator("h1").first).to_be_visible()
    assert opened.overflow() <= 0
    if not path.startswith("/formula1"):
        assert page.get_by_role("tab").count() <= MOST_TABS
        assert page.evaluate(CONTROLS) <= MOST_CONTROLS
    if checked:
        still = page.add_style_tag(content=STILL)
        page.evaluate(AXE)
    found = {}
    for scheme in opened.themes():
        stands(page, scheme, size == "phone")
        _at_rest(page)
        assert page.locator(".stException").count() == 0
        assert opened.overflow() <= 0
        # Only contrast depends on the theme.
        rules = {"runOnly": ["color-contrast"]} if found else {}
        found[scheme] = page.evaluate(FOUND, rules) if checked else []
    if checked:
        still.evaluate("node => node.remove()")
    page.set_viewport_size({"width": WIDTHS["phone"][0], "height": WIDTHS["desktop"][1]})
    page.wait_for_function("innerWidth === document.documentElement.clientWidth")
    _at_rest(page)
    assert opened.overflow() <= 0
    assert found == {"light": [], "dark": []}


def test_dragged_car_moves_both_laps(shared):
    page = shared("/").page
    road = page.locator(".gdm-road").last
    road.scroll_into_view_if_needed()
    box = road.bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.86 * box["height"])
    page.mouse.down()
    cars = page.locator(".gdm-road [role=slider]")
    for car in cars.all():
        expect(car).to_have_attribute("aria-valuenow", re.compile("6[0-9]|7[0-9]"))  # the middle of the lower straight
    before = [car.bounding_box() for car in cars.all()]
    page.wait_for_timeout(200)
    assert [car.bounding_box() for car in cars.all()] == before, "cars wait while one is held"
    page.mouse.up()
    expect(page.locator(".gdm-laps")).not_to_have_class(re.compile("held"))
