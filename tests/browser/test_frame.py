"""The frame in a browser: links, turning pages, Back and Forward, figures updated in place and narrow windows."""

import pytest
from playwright.sync_api import Dialog, Page, expect

from datasets import tables
from pages.ui import navigation

PAGES = {"/": ".gdm-lap", "/playground": ".gdm-figure[data-updates]"}


def test_link_opens_its_settings_and_can_be_copied(visit):
    opened = visit("/playground?tau=1.5&logit1=-2&noise=99&dice=abc")
    page = opened.ready()
    assert page.get_by_text("Page not found").count() == 0
    expect(page.locator(".gdm-facts")).to_contain_text("τ1.50")
    expect(page.get_by_role("slider", name="Preference for S1")).to_have_value("-2")
    clipboard = "Object.defineProperty(navigator, 'clipboard', { configurable: true, value: %s })"
    page.evaluate(clipboard % "{ writeText: async (text) => { window.copied = text; } }")
    button = page.get_by_role("button", name="Copy link")
    button.click()
    page.get_by_text("Link copied").wait_for()
    assert page.evaluate("window.copied") == page.url
    page.evaluate(clipboard % "undefined")  # as over plain HTTP
    button.click()
    page.get_by_text("Copy it from the address bar").wait_for()


def test_reduced_motion_stops_the_animation_on_home(revisit):
    page = revisit("/").ready(PAGES["/"])
    page.emulate_media(reduced_motion="reduce")
    moves = "node => getComputedStyle(node).animationPlayState"
    assert page.locator(".gdm-road em").first.evaluate(moves) == "paused"
    page.emulate_media(reduced_motion="no-preference")
    assert page.locator(".gdm-road em").first.evaluate(moves) == "running"
    page.get_by_role("link", name="Playground").click()
    page.wait_for_selector(PAGES["/playground"])
    assert "/playground" in page.url


@pytest.mark.bulk
def test_plotly_is_loaded_once_and_not_on_home(visit):
    opened = visit("/", fresh=True)
    own: dict[str, int] = {}
    cached: list[str] = []

    def note(response) -> None:
        if "/static/" in response.url and "/gdm/" not in response.url:
            return
        if response.url.startswith("http") and response.from_service_worker is False:
            own[response.url] = int(response.headers.get("content-length", 0))
        if "plotly-cartesian" in response.url:
            cached.append(response.headers.get("content-encoding", ""))

    opened.page.on("response", note)
    opened.page.reload()
    opened.ready(PAGES["/"])
    assert sum(own.values()) < 500_000
    opened.page.goto(opened.page.url.rstrip("/") + "/playground")
    opened.ready()
    assert cached == ["gzip"]
    again = opened.page.evaluate(
        "performance.getEntriesByType('resource').filter((e) => e.name.includes('plotly-cartesian')).length"
    )
    assert again == 1
    opened.page.reload()
    opened.ready()
    transferred = opened.page.evaluate(
        "performance.getEntriesByType('resource').find((e) => e.name.includes('plotly-cartesian')).transferSize"
    )
    assert transferred == 0, "the browser cache is used"


# ---- narrow windows -------------------------------------------------------------------------------------------------


@pytest.mark.bulk
def test_phone_keeps_the_picture_in_view(visit):
    # Not in the shared context, where another test may have left the controls open.
    opened = visit("/playground", size="phone", has_touch=True, is_mobile=True)
    page = opened.ready(".st-key-triangle figure[data-updates]")
    page.get_by_test_id("stExpandSidebarButton").tap()
    slider = page.get_by_role("slider", name="Preference for S1")
    expect(slider).to_be_in_viewport()
    figure = page.locator(".st-key-triangle .gdm-plot")
    expect(figure).to_be_in_viewport(ratio=0.9)
    page.wait_for_function(
        "() => { const box = document.querySelector('[data-testid=stSidebar]').getBoundingClientRect();"
        " return box.top > 0.4 * innerHeight && box.width > 0.9 * innerWidth; }"
    )
    over = "document.querySelector('[data-testid=stSidebar]').getBoundingClientRect().top"
    assert figure.evaluate(f"node => node.getBoundingClientRect().bottom - {over}") <= 0
    drawn = page.locator(".st-key-triangle figure").get_attribute("data-updates")
    slider.press("ArrowRight")
    page.wait_for_function(
        "before => document.querySelector('.st-key-triangle figure').dataset.updates !== before", arg=drawn
    )
    expect(figure).to_be_in_viewport(ratio=0.9)
    page.get_by_test_id("stSidebarCollapseButton").get_by_role("button").tap()
    expect(page.get_by_role("heading", name="Playground")).to_be_in_viewport()
    assert opened.overflow() <= 0


@pytest.mark.bulk
def test_tablet_menu_shows_every_page(visit):
    opened = visit("/playground")
    page = opened.ready()
    page.set_viewport_size({"width": 1024, "height": 768})
    links = page.get_by_test_id("stTopNavLink")
    for entry in navigation.REGISTRY:
        expect(links.get_by_text(entry.title, exact=True)).to_be_in_viewport()


# ---- leaving a page ----------------------------------------------------------------------------------------------------
def test_page_with_an_upload_asks_before_a_reload(visit, tmp_path):
    table = tmp_path / "walk.csv"
    table.write_bytes(tables.template(tables.EXAMPLE))
    asked: list[str] = []
    opened = visit("/your-data")
    page = opened.ready("[data-testid=stFileUploaderDropzoneInput]")

    def answer(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.on("dialog", answer)
    page.get_by_text("A table with one row").click()  # browsers ask only after a click
    page.reload()
    assert asked == []
    opened.ready("[data-testid=stFileUploaderDropzoneInput]")
    page.locator("[data-testid=stFileUploaderDropzoneInput]").first.set_input_files(table)
    page.wait_for_function("window.onbeforeunload !== null")
    page.get_by_text("Data check").click()
    page.reload()
    assert asked == ["beforeunload"]
    opened.ready("[data-testid=stFileUploaderDropzoneInput]")
    page.wait_for_function("window.onbeforeunload === null")


# ---- Back and Forward ----------------------------------------------------------------------------------------------


def _wait_for_address(page: Page, *parts: str, removed: tuple[str, ...] = ()) -> None:
    """Wait until the address has these parts and the run has ended."""
    page.wait_for_function(
        "([there, gone]) => there.every((part) => location.search.includes(part)) "
        "&& !gone.some((part) => location.search.includes(part)) "
        "&& document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'",
        arg=[list(parts), list(removed)],
    )


def _steps(page: Page) -> int:
    return int(page.evaluate("history.length"))


def _choose(page: Page, label: str, option: str) -> None:
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("option", name=option, exact=True).click()


@pytest.mark.bulk
def test_back_and_forward_restore_settings(visit):
    opened = visit("/nascar?T=200")
    page = opened.page
    fitted = page.locator(".st-key-inferred-track .gdm-figure[data-state=fresh][data-updates]")
    fitted.wait_for()
    _wait_for_address(page, "T=200")
    first, facts = _steps(page), page.locator(".gdm-facts")

    page.get_by_role("slider", name="States (K)").press("ArrowRight")
    _wait_for_address(page, "K=5")
    expect(facts).to_contain_text("K5")
    fitted.wait_for()
    # The address changes before the page has run.
    _choose(page, "Scenario", "Standard")
    expect(page.locator(".gdm-head")).to_contain_text("standard track")
    _wait_for_address(page, "scenario=Standard")
    page.get_by_role("radio", name="Set by hand").click()
    page.get_by_role("slider", name="Stickiness (γ)").wait_for(state="attached")
    _wait_for_address(page, "stay=Set+by+hand")
    # Back replaces the controls, and for a moment the earlier ones are there too, below.
    page.get_by_text("Advanced", exact=True).first.click()
    seed = page.get_by_role("spinbutton", name="Initialization seed").first
    seed.fill("3")
    seed.press("Enter")
    _wait_for_address(page, "seed=3")
    expect(facts).to_contain_text("seed3")
    fitted.wait_for()
    _wait_for_address(page, "seed=3")
    assert _steps(page) == first + 4, page.url

    page.go_back()
    _wait_for_address(page, "stay=Set+by+hand", removed=("seed",))
    expect(seed).to_have_value("0")
    expect(facts).to_contain_text("seed0")
    page.go_back()
    _wait_for_address(page, "scenario=Standard", removed=("stay",))
    expect(page.get_by_role("radio", name="Learned from data").first).to_be_checked()
    expect(facts).to_contain_text("stickiness γlearned")
    page.go_back()
    _wait_for_address(page, "K=5", removed=("scenario",))
    expect(page.locator(".gdm-head")).to_contain_text("soft-sticky")
    page.go_back()
    _wait_for_address(page, "T=200", removed=("K=",))
    expect(facts).to_contain_text("K4")
    page.go_forward()
    _wait_for_address(page, "K=5")
    expect(facts).to_contain_text("K5")
    assert _steps(page) == first + 4
