"""The slider component alone, without a server."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from pages.ui import component
from tests.browser.conftest import Visit

# Draws a slider over the page; `sent` holds the messages to the server.
PREPARE = """
async (modules) => {
  const { default: draw } = await import(`${modules}/slider.js`);
  document.getElementById("slider-test")?.remove();
  const sent = [], heard = [];
  const box = Object.assign(document.createElement("div"), { id: "slider-test" });
  box.style.cssText = "position:fixed;inset:0;background:white;z-index:9999999;padding:60px";
  document.querySelector(".stApp").append(box);
  const place = document.createElement("div");
  place.style.cssText = "width:300px;margin-bottom:30px";
  box.append(place);
  const scale = { min: 0, max: 100, step: 1, digits: 0 };
  const about = { key: "first", label: "First", help: "What it does." };
  const common = { ...about, disabled: false, live: true, value: 50, heard: 0, scale, chips: [["Hard", 10]] };
  const show = (more = {}) => draw({
    data: { ...common, ...more },
    parentElement: place,
    setStateValue: (name, message) => sent.push({ name, ...message }),
  });
  window.addEventListener("gdm:slider", ({ detail }) => heard.push(detail));
  show();
  window.gdmTest = { sent, heard, show, place };
}
"""


def _sent(page: Page) -> list[tuple[float, bool]]:
    return [(m["value"], m["held"]) for m in page.evaluate("window.gdmTest.sent")]


@pytest.fixture
def page(shared) -> Page:
    return _open_sliders(shared)


@pytest.fixture
def phone(shared) -> Page:
    return _open_sliders(shared, "phone")


def _open_sliders(opens: Callable[..., Visit], size: str = "desktop") -> Page:
    page = opens("/", size=size).ready(".gdm-lap")  # a page that loads quickly
    page.mouse.move(0, 0)
    page.evaluate(PREPARE, component.route())
    return page


def _thumb_position(page: Page, name: str, value: float) -> tuple[float, float]:
    """Return the position of the thumb at a value from 0 to 100."""
    box = page.get_by_role("slider", name=name, exact=True).bounding_box()
    thumb = 11.25  # the centre of the thumb never reaches the ends
    return box["x"] + thumb / 2 + (box["width"] - thumb) * value / 100, box["y"] + box["height"] / 2


def _drag(page: Page, *values: float) -> None:
    """Drag the first thumb from 50 to these values and keep holding it."""
    page.mouse.move(*_thumb_position(page, "First", 50))
    page.mouse.down()
    for value in values:
        page.mouse.move(*_thumb_position(page, "First", value))


# In one task, so that no timer of a slow machine runs in between.
HOLD = """(values) => {
  const input = window.gdmTest.place.querySelector("input");
  input.dispatchEvent(new PointerEvent("pointerdown", { button: 0 }));
  for (const value of values) {
    input.value = value;
    input.dispatchEvent(new Event("input"));
  }
}"""
RELEASE = "() => window.dispatchEvent(new PointerEvent('pointerup'))"


def test_held_slider_sends_its_latest_value_from_time_to_time(page):
    page.evaluate(HOLD, [51, 55, 60, 70])
    page.wait_for_function("window.gdmTest.sent.length === 1")
    assert _sent(page) == [(70, True)], "values in between are skipped"
    page.evaluate(f"values => {{ ({HOLD})(values); ({RELEASE})(); }}", [80])
    assert _sent(page) == [(70, True), (80, False)]
    assert page.evaluate("window.gdmTest.heard.at(-1).held") is False


def test_rerun_does_not_move_a_held_thumb(page):
    thumb = page.get_by_role("slider", name="First", exact=True)
    _drag(page, 70)
    page.wait_for_function("window.gdmTest.sent.length === 1")
    page.evaluate("window.gdmTest.show({ value: 52, heard: window.gdmTest.sent[0].number })")
    expect(thumb).to_have_value("70")
    page.mouse.move(*_thumb_position(page, "First", 72))
    page.mouse.up()
    expect(thumb).to_have_value("72")
    page.evaluate("window.gdmTest.show({ value: 52, heard: window.gdmTest.sent[0].number })")
    expect(thumb).to_have_value("72")  # a run that began before the release
    page.evaluate("window.gdmTest.show({ value: 40, heard: window.gdmTest.sent.at(-1).number })")
    expect(thumb).to_have_value("40")  # the page itself set another value
    told = {"key": "first", "value": 40, "held": False, "settled": True, "live": True}
    assert page.evaluate("window.gdmTest.heard.at(-1)") == told


def test_removed_slider_counts_as_released(page):
    _drag(page, 70)
    page.evaluate("(() => { const end = window.gdmTest.show(); window.gdmTest.place.remove(); end(); })()")
    page.wait_for_function("window.gdmTest.sent.at(-1)?.held === false")
    assert _sent(page)[-1] == (70, False)
    page.mouse.up()


def test_keys_move_the_slider_and_send_the_last_value(page):
    thumb = page.get_by_role("slider", name="First", exact=True)
    thumb.focus()
    moves = {"ArrowRight": 51, "ArrowUp": 52, "PageUp": 62, "ArrowLeft": 61, "PageDown": 51, "Home": 0}
    for key, value in moves.items():
        page.keyboard.press(key)
        expect(thumb).to_have_value(str(value))
    page.keyboard.press("End")
    expect(thumb).to_have_attribute("aria-valuetext", "100")
    page.wait_for_function(
        "() => { const { value, held } = window.gdmTest.sent.at(-1) ?? {}; return value === 100 && !held; }"
    )


def test_slider_without_live_sends_on_release_only(page):
    page.evaluate("window.gdmTest.show({ live: false })")
    _drag(page, 65)
    page.wait_for_function("window.gdmTest.heard.length > 0")  # figures still follow
    assert _sent(page) == []
    page.mouse.up()
    page.wait_for_function("window.gdmTest.sent.length === 1")
    assert _sent(page) == [(65, False)]


def test_slider_has_accessible_name_value_and_help(page):
    thumb = page.get_by_role("slider", name="First", exact=True)
    expect(thumb).to_have_value("50")
    expect(thumb).to_have_attribute("aria-valuetext", "50")
    assert thumb.evaluate("e => [e.min, e.max, e.step]") == ["0", "100", "1"]
    assert (
        thumb.evaluate("e => document.getElementById(e.getAttribute('aria-describedby')).textContent")
        == "What it does."
    )
    page.evaluate("window.gdmTest.show({ disabled: true })")
    expect(thumb).to_be_disabled()
    _drag(page, 80)
    page.mouse.up()
    expect(thumb).to_have_value("50")
    assert _sent(page) == []


def test_help_opens_by_mouse_and_key(page):
    words = page.locator("[role=tooltip]", has_text="What it does.").first
    button = page.get_by_role("button", name="About First")
    expect(words).to_be_hidden()
    button.hover()
    expect(words).to_be_visible()
    page.mouse.move(600, 600)
    expect(words).to_be_hidden()
    page.get_by_role("slider", name="First", exact=True).focus()
    page.keyboard.press("Shift+Tab")
    expect(button).to_be_focused()
    expect(words).to_be_visible()
    page.keyboard.press("Escape")
    expect(words).to_be_hidden()


def test_touch_drags_the_slider(phone):
    page = phone
    touch = page.context.new_cdp_session(page)

    def finger(kind: str, value: float | None = None) -> None:
        at = [] if value is None else [dict(zip("xy", _thumb_position(page, "First", value), strict=True))]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})

    finger("touchStart", 50)
    for value in (53, 58, 66):
        finger("touchMove", value)
    page.wait_for_function("window.gdmTest.heard.at(-1)?.value >= 60")
    assert all(held for _, held in _sent(page))
    finger("touchEnd")
    page.wait_for_function("window.gdmTest.sent.at(-1)?.held === false")
    thumb = page.get_by_role("slider", name="First", exact=True)
    assert _sent(page)[-1][0] == float(thumb.input_value()) >= 60
    expect(page.get_by_text("100", exact=True).first).to_have_css("opacity", "1")  # phones have no hover


def test_chip_sends_its_value_once(page):
    page.get_by_role("button", name="First: Hard 10").click()
    assert _sent(page) == [(10, False)]
    expect(page.get_by_role("slider", name="First", exact=True)).to_have_value("10")
