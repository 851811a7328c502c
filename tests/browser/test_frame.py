"""The frame in a real browser: links to any page, and pictures that live on."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

PAGES = {"/": ".gdm-lap", "/playground": ".gdm-figure[data-updates]"}
TRIANGLE = ".gdm-figure"


def test_a_link_opens_just_that_and_can_be_copied_over_plain_http(visit):
    """There browsers give scripts no clipboard. What is beyond its range does not break the page."""
    opened = visit("/playground?softness=1.5&logit1=-2&noise=99&dice=abc")
    page = opened.ready()
    assert page.get_by_text("Page not found").count() == 0
    expect(page.locator(".gdm-facts")).to_contain_text("softness τ1.50")
    expect(page.get_by_role("slider", name="For state 1")).to_have_value("-2")
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', { value: undefined });"
        "document.addEventListener('copy', ({ target }) => (window.copied = target.value))"
    )
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Link copied").wait_for()
    assert page.evaluate("window.copied") == page.url


# What is written in figures, of whatever kind, and how light it is: 0 to 765.
WRITTEN = """[...document.querySelectorAll(".stMain svg text")].filter((node) => node.textContent.trim()).map((node) => [
  node.textContent.trim(),
  getComputedStyle(node).fill.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0),
])"""


def test_a_slider_changes_the_picture_and_keeps_node_and_link_and_the_theme_can_change_under_it(visit):
    """A figure under a slider of its own is no place to zoom: there a drag takes hold of a dot (test_playground.py)."""
    opened = visit("/playground", scheme="light")
    page = opened.ready()
    figure = page.locator(TRIANGLE).first
    page.evaluate(f"window.gdmNode = document.querySelector('{TRIANGLE} .main-svg')")
    for softness in ("0.25", "0.3", "0.35", "0.4"):
        before = figure.get_attribute("data-updates")
        page.get_by_role("slider", name="Softness").press("ArrowRight")
        page.wait_for_function(f"document.querySelector('{TRIANGLE}').dataset.updates !== '{before}'")
        page.wait_for_url(f"**softness={softness}**")
    assert page.evaluate(f"window.gdmNode === document.querySelector('{TRIANGLE} .main-svg')")
    page.wait_for_selector(".st-key-winners .annotation-text")
    for scheme, readable in (("dark", "> 250"), ("light", "< 500")):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(f"{WRITTEN}.every(([text, light]) => light {readable})")
        assert {"S3", "71.1%", "softness τ (logarithmic)"} <= {text for text, _ in page.evaluate(WRITTEN)}


def test_home_stands_still_for_those_who_ask_for_it_and_its_menu_leads_to_a_page(visit):
    opened = visit("/", reduced_motion="reduce")
    page = opened.ready(PAGES["/"])
    moves = "node => getComputedStyle(node).animationName"
    assert page.locator(".gdm-road em").first.evaluate(moves) == "none"
    page.emulate_media(reduced_motion="no-preference")
    assert page.locator(".gdm-road em").first.evaluate(moves) == "gdm-drive"
    page.get_by_role("link", name="Playground").click()
    page.wait_for_selector(PAGES["/playground"])
    assert "/playground" in page.url


@pytest.mark.bulk
def test_home_weighs_little_and_the_plotting_library_comes_once(visit):
    opened = visit("/", anew=True)
    own: dict[str, int] = {}
    cached: list[str] = []

    def note(response) -> None:
        if "/static/" in response.url:
            return
        if response.url.startswith("http") and response.from_service_worker is False:
            own[response.url] = int(response.headers.get("content-length", 0))
        if "plotly.min.js" in response.url:
            cached.append(response.url)

    opened.page.on("response", note)
    opened.page.reload()
    opened.ready(PAGES["/"])
    assert sum(own.values()) < 500_000, "Home needs no plotting library"
    opened.page.goto(opened.page.url.rstrip("/") + "/playground")
    opened.ready()
    print(f"own weight of Home and Playground together: {sum(own.values()):,} bytes")
    assert 1_000_000 < sum(own.values()) < 6_000_000
    assert len(cached) == 1
    again = opened.page.evaluate(
        "performance.getEntriesByType('resource').filter((e) => e.name.includes('plotly.min')).length"
    )
    assert again == 1
    opened.page.reload()
    opened.ready()
    transferred = opened.page.evaluate(
        "performance.getEntriesByType('resource').find((e) => e.name.includes('plotly.min')).transferSize"
    )
    assert transferred == 0, "a second visit takes the library from the browser's own store"


@pytest.mark.bulk
def test_the_link_can_be_copied(visit):
    opened = visit("/playground?softness=2", permissions=["clipboard-read", "clipboard-write"])
    page = opened.ready()
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("Link copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").endswith("/playground?softness=2")
