"""The Formula 1 page in a browser: the maps, the cursor, and quick changes by an impatient user."""

import random
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.bulk

MAP = ".st-key-map .gdm-figure[data-updates]"
FIND = """() => {
  const plot = document.querySelector(".st-key-map .gdm-plot");
  const { xaxis, yaxis } = plot._fullLayout;
  const dots = plot._fullData.find((t) => t.mode === "markers");
  const box = plot.getBoundingClientRect();
  return [box.left + xaxis._offset + xaxis.l2p(dots.x[3]), box.top + yaxis._offset + yaxis.l2p(dots.y[3])];
}"""


def _point_until(page: Page, point: Callable[[], None], selector: str) -> None:
    """Repeat pointing until the element appears, since the page may still move."""
    for _ in range(100):
        point()
        page.wait_for_timeout(500)
        if page.locator(selector).count():
            return
        page.mouse.move(5, 5)
    pytest.fail(f"{selector} did not come")


def test_hover_and_click_on_the_map_of_a_race(visit):
    opened = visit("/formula1?view=States")
    page = opened.ready(MAP)
    points = "(n, t) => n + (t.mode === 'markers' ? t._length : 0), 0"
    page.wait_for_function(f"document.querySelector('.st-key-map .gdm-plot')._fullData.reduce({points}) > 20_000")
    page.locator(".gdm-score").first.wait_for()

    def point() -> None:
        x, y = page.evaluate(FIND)
        page.mouse.move(x - 3, y - 3)
        page.mouse.move(x, y, steps=3)

    _point_until(page, point, ".st-key-map .hovertext")
    told = page.locator(".st-key-map .hovertext").first.text_content() or ""
    for word in ("lap ", "after corner ", "km/h", "S"):
        assert word in told, told

    page.locator(".st-key-strips").scroll_into_view_if_needed()

    def point_at_a_strip() -> None:
        box = page.locator(".st-key-strips .gdm-plot").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 30)
        page.mouse.move(box["x"] + box["width"] * 0.52, box["y"] + 32)

    _point_until(page, point_at_a_strip, ".st-key-map .gdm-cursor-path:not([hidden])")
    sample = int(page.locator(".st-key-moment canvas").get_attribute("data-sample"))
    assert sample > 100, "the bars follow the strips"
    assert page.locator(".st-key-moment").get_by_role("button", name="Play", exact=True).is_visible()


def test_click_on_the_map_zooms_the_telemetry(visit):
    page = visit("/formula1").ready(".st-key-gain-map .gdm-figure[data-updates]")
    page.locator(".f1-corners").wait_for()
    page.locator(".st-key-gain-map").scroll_into_view_if_needed()
    corner = """() => {
      const plot = document.querySelector(".st-key-gain-map .gdm-plot");
      const { xaxis, yaxis } = plot._fullLayout;
      const line = plot._fullData[4];
      const box = plot.getBoundingClientRect();
      return [box.left + xaxis._offset + xaxis.l2p(line.x[1]), box.top + yaxis._offset + yaxis.l2p(line.y[1])];
    }"""

    def click() -> None:
        x, y = page.evaluate(corner)
        page.mouse.move(x - 3, y - 3)
        page.mouse.move(x, y, steps=3)
        page.mouse.click(x, y)
        if "zoom=T" in page.url:
            page.evaluate("document.body.classList.add('zoomed')")

    _point_until(page, click, "body.zoomed")
    page.wait_for_function("document.querySelector('.st-key-telemetry .gdm-plot')._fullLayout.xaxis.range[0] > 0")


def test_other_driver_can_be_chosen(visit):
    opened = visit("/formula1?view=States", scheme="dark")
    page = opened.ready(MAP)
    page.get_by_role("radio", name="RGL (held-out)").click()
    page.wait_for_function(
        "[...document.querySelectorAll('.st-key-map .annotation-text')].some((n) => n.textContent.startsWith('RGL'))"
    )
    page.wait_for_function("location.search.includes('who=')")
    page.get_by_role("button", name="Labels").click()
    main = page.get_by_role("slider", name="Main states: minimum presence (% of samples)")
    main.press("ArrowRight")
    page.wait_for_function("location.search.includes('badge-presence=25')")
    # A popover is outside the themed app, but its slider has the same colour.
    colours = [
        slider.evaluate("n => getComputedStyle(n.closest('.gdm-slider').querySelector('output')).color")
        for slider in (main, page.get_by_role("slider", name="States (K)"))
    ]
    assert colours == ["rgb(70, 160, 181)"] * 2


# ---- an impatient user ---------------------------------------------------------------------------------------------

MOVES = 20
SLIDERS = ("States (K)", "Temperature (τ)", "Stickiness (γ)")
DRIVERS = ("Reference driver", "Compare with")


def move(page: Page, hand: random.Random, slider: str) -> None:
    """Move a slider by one to three keys."""
    page.get_by_role("slider", name=slider).first.focus()
    for _ in range(hand.randint(1, 3)):
        page.keyboard.press(hand.choice(("ArrowLeft", "ArrowRight", "PageUp", "PageDown")))


def choose(page: Page, hand: random.Random, label: str) -> None:
    """Choose another driver if the list is visible."""
    box = page.get_by_role("combobox", name=label).first
    if not box.count():
        return
    box.focus()
    page.keyboard.press("ArrowDown")
    for _ in range(hand.randint(1, 4)):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")


def test_quick_changes_raise_no_exception(visit, app_server):
    began = len(app_server.log.read_text())
    opened = visit("/formula1?view=States")
    page = opened.ready(".gdm-figure[data-updates]")
    page.get_by_text("Session and drivers").click()
    page.get_by_role("radio", name="Set by hand").click()  # shows the slider of gamma
    page.get_by_role("slider", name=SLIDERS[2]).first.wait_for(state="attached")
    hand = random.Random(0)
    before = page.url
    for turn in range(MOVES):
        if turn % 3 == 2:
            choose(page, hand, hand.choice(DRIVERS))
        else:
            move(page, hand, SLIDERS[turn % 3] if turn % 2 else hand.choice(SLIDERS))
        if turn % 5 == 4:  # let some fits finish
            page.wait_for_timeout(2_500)
        else:
            page.wait_for_timeout(hand.choice((30, 100, 300)))
        assert page.locator(".stException").count() == 0, page.locator(".stException").first.inner_text()
    expect(page.locator(".gdm-head")).to_be_visible()
    page.wait_for_timeout(2_000)
    assert page.url != before
    assert page.locator(".stException").count() == 0, page.locator(".stException").first.inner_text()
    log = app_server.log.read_text()[began:]
    assert "Traceback" not in log, log[log.index("Traceback") :][:3000]
