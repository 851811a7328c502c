"""The frame in a real browser: links to any page, turning from one to another, pictures that live on, and narrow windows, where a
phone keeps the picture in view and a tablet shows every page in the menu."""

from __future__ import annotations

import pytest
from playwright.sync_api import Dialog, Page, expect

from datasets import tables
from pages.ui import navigation
from tests.browser.test_nascar import rested

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


# ---- narrow windows -------------------------------------------------------------------------------------------------


def test_on_a_phone_the_picture_stays_in_view_while_a_slider_moves(visit):
    opened = visit("/playground", size="phone")
    page = opened.ready(".st-key-triangle figure[data-updates]")
    button = page.get_by_test_id("stExpandSidebarButton")
    said = button.evaluate("node => getComputedStyle(node, '::after').content")
    assert "controls" in said, "two arrows alone say nothing"
    button.tap()
    slider = page.get_by_role("slider", name="For state 1")
    expect(slider).to_be_in_viewport()
    figure = page.locator(".st-key-triangle .gdm-plot")
    expect(figure).to_be_in_viewport(ratio=0.9)
    page.wait_for_function(
        "() => { const box = document.querySelector('[data-testid=stSidebar]').getBoundingClientRect();"
        " return box.top > 0.4 * innerHeight && box.width > 0.9 * innerWidth; }",
    )
    over = "document.querySelector('[data-testid=stSidebar]').getBoundingClientRect().top"
    assert figure.evaluate(f"node => node.getBoundingClientRect().bottom - {over}") <= 0, (
        "nothing lies over the picture"
    )
    drawn = page.locator(".st-key-triangle figure").get_attribute("data-updates")
    slider.press("ArrowRight")
    page.wait_for_function(
        "before => document.querySelector('.st-key-triangle figure').dataset.updates !== before",
        arg=drawn,
    )
    expect(figure).to_be_in_viewport(ratio=0.9)
    page.get_by_test_id("stSidebarCollapseButton").get_by_role("button").tap()
    expect(page.get_by_role("heading", name="Playground")).to_be_in_viewport()
    assert opened.overflow() <= 0


@pytest.mark.bulk
def test_a_tablet_shows_every_page_in_the_menu_and_nothing_blinks(visit):
    opened = visit("/playground")
    page = opened.ready()
    page.set_viewport_size({"width": 1024, "height": 768})
    links = page.get_by_test_id("stTopNavLink")
    for entry in navigation.available():
        expect(links.get_by_text(entry.title, exact=True)).to_be_in_viewport()
    # What waits for a running script is faded by Streamlit, which would make the header blink at every slider.
    for part in (".gdm-head", ".gdm-quiet", ".gdm-foot"):
        faded = page.locator(part).first.evaluate(
            """(node) => {
              const box = node.closest("[data-testid=stElementContainer]");
              box.dataset.stale = "true";
              box.style.opacity = 0.3;
              return getComputedStyle(box).opacity;
            }"""
        )
        assert faded == "1", part


# ---- from page to page ----------------------------------------------------------------------------------------------


def turn(page: Page, name: str, address: str) -> None:
    page.get_by_role("link", name=name).first.click()
    page.wait_for_url(address)


def at(page: Page, n_states: int) -> None:
    """Wait for the slider to stand there."""
    page.wait_for_function("n => document.querySelector('.st-key-slider-K input')?.value === String(n)", arg=n_states)


def test_each_page_has_its_own_settings_and_keeps_them(visit):
    opened = visit("/nascar?T=200")
    page = opened.page
    at(page, 4)
    page.get_by_role("slider", name="States (K)").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**/nascar?*K=5*")
    page.get_by_text("Set it", exact=True).first.click()
    page.wait_for_url("**/nascar?*stay=Set*")
    rested(page)  # the server has heard of it
    turn(page, "Playground", "**/playground")
    page.get_by_role("slider", name="Softness").first.wait_for()
    turn(page, "Formula 1", "**/formula1*")  # which names its source: before or after it is turned to
    at(page, 3)
    turn(page, "NASCAR lab", "**/nascar?*K=5*")
    at(page, 5)
    assert "T=200" in page.url
    assert "stay=Set" in page.url


def test_page_with_an_upload_asks_before_a_reload(visit, tmp_path):
    table = tmp_path / "walk.csv"
    table.write_bytes(tables.template("table.csv"))
    asked: list[str] = []
    opened = visit("/your-data")
    page = opened.ready("[data-testid=stFileUploaderDropzoneInput]")

    def answer(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.on("dialog", answer)
    page.get_by_text("A table with one row").click()  # browsers ask only after a gesture
    page.reload()
    assert asked == []
    opened.ready("[data-testid=stFileUploaderDropzoneInput]")
    page.locator("[data-testid=stFileUploaderDropzoneInput]").first.set_input_files(table)
    page.wait_for_function("window.onbeforeunload !== null")
    page.get_by_text("What was understood").click()
    page.reload()
    assert asked == ["beforeunload"]
    opened.ready("[data-testid=stFileUploaderDropzoneInput]")
    page.wait_for_function("window.onbeforeunload === null")
