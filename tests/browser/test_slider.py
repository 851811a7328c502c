"""The slider in a browser, by itself, with a server that answers when the test says so. On a page: test_playground.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit

pytestmark = pytest.mark.browser

UPLOADER = "[data-testid=stFileUploader]"

# Two sliders drawn with the component's own module over the page; `sent` holds what the server would hear.
PREPARE = """
async () => {
  // Anew for each test: which of its words are under way the script knows by itself.
  const { default: draw } = await import(`/_stcore/bidi-components/gdm.slider/slider.js?${crypto.randomUUID()}`);
  document.getElementById("slider-test")?.remove();
  const sent = [], heard = [];
  const box = Object.assign(document.createElement("div"), { id: "slider-test" });
  box.style.cssText = "position:fixed;inset:0;background:white;z-index:9999999;padding:60px";
  document.querySelector(".stApp").append(box);
  const places = ["first", "second"].map((key) => {
    const place = document.createElement("div");
    place.style.cssText = "width:300px;margin-bottom:30px";
    box.append(place);
    return place;
  });
  const scale = { min: 0, max: 100, step: 1, before: "", digits: 0, after: " m" };
  const common = { help: "What it does.", disabled: false, live: true, value: 50, heard: 0, scale };
  const show = (i, more = {}) => draw({
    data: { ...common, key: ["first", "second"][i], label: ["First", "Second"][i], ...more },
    parentElement: places[i],
    setTriggerValue: (name, message) => sent.push({ key: ["first", "second"][i], ...message }),
  });
  window.addEventListener("gdm:slider", ({ detail }) => heard.push(detail));
  const answer = () => {
    const numbers = {};
    for (const { key, number } of sent) numbers[key] = number;
    draw({ data: { answered: numbers }, parentElement: document.createElement("div") });
    return numbers;
  };
  const rest = () => new Promise((done) => requestAnimationFrame(() => setTimeout(() => setTimeout(done))));
  show(0);
  show(1);
  window.gdmTest = { sent, heard, show, answer, rest, places };
}
"""


def _sent(page: Page) -> list[tuple[str, float, bool]]:
    return [(m["key"], m["value"], m["held"]) for m in page.evaluate("window.gdmTest.sent")]


@pytest.fixture
def page(shared) -> Page:
    return _alone(shared)


@pytest.fixture
def phone(shared) -> Page:
    return _alone(shared, "phone")


def _alone(opens: Callable[..., Visit], size: str = "desktop") -> Page:
    page = opens("/your-data", size=size).ready(UPLOADER)  # a light page: the sliders lie over it
    page.mouse.move(0, 0)
    page.evaluate(PREPARE)
    return page


def _at(page: Page, name: str, value: float) -> tuple[float, float]:
    """Where the thumb is at this value of 0 to 100."""
    box = page.get_by_role("slider", name=name, exact=True).bounding_box()
    thumb = 11.25  # its width: the thumb's middle never reaches the ends
    return box["x"] + thumb / 2 + (box["width"] - thumb) * value / 100, box["y"] + box["height"] / 2


def _drag(page: Page, *values: float) -> None:
    """Take the first thumb, which stands at 50, and move it; it stays held."""
    page.mouse.move(*_at(page, "First", 50))
    page.mouse.down()
    for value in values:
        page.mouse.move(*_at(page, "First", value))


def _answer(page: Page) -> None:
    page.evaluate("async () => { window.gdmTest.answer(); await window.gdmTest.rest(); }")


def test_one_value_is_under_way_at_a_time_and_the_latest_goes_next(page):
    _drag(page, 51, 55, 60, 70)
    page.wait_for_function("window.gdmTest.heard.at(-1).value === 70")
    first = _sent(page)
    assert [held for *_, held in first] == [True], "the server has not answered, so that nothing else goes out"
    _answer(page)
    assert _sent(page)[1:] == [("first", 70, True)], "what lies between is never sent"
    page.mouse.move(*_at(page, "First", 80))
    page.mouse.up()
    page.wait_for_function("window.gdmTest.sent.length === 3")
    assert _sent(page)[-1] == ("first", 80, False), "the release waits for nobody"
    _answer(page)
    page.wait_for_timeout(400)
    assert len(_sent(page)) == 3
    assert [h["held"] for h in page.evaluate("window.gdmTest.heard")][-1] is False


def test_without_an_answer_it_speaks_again_after_a_while(visit):
    page = _alone(visit)
    page.clock.install()
    _drag(page, 60, 75)
    page.wait_for_function("window.gdmTest.heard.at(-1).value === 75")
    page.clock.fast_forward(10_000)
    page.wait_for_function("window.gdmTest.sent.length === 2")
    assert _sent(page)[-1] == ("first", 75, True)
    page.mouse.up()


def test_a_thumb_brought_back_is_confirmed_too(page):
    _drag(page, 60, 50)
    page.mouse.up()
    page.wait_for_function("window.gdmTest.sent.at(-1)?.held === false")
    assert _sent(page)[-1] == ("first", 50, False)


def test_a_click_that_moves_nothing_says_nothing(page):
    page.mouse.click(*_at(page, "First", 50))
    page.wait_for_timeout(400)
    assert _sent(page) == []


def test_a_run_while_it_is_held_does_not_tear_the_thumb_from_the_finger(page):
    thumb = page.get_by_role("slider", name="First", exact=True)
    _drag(page, 70)
    page.evaluate("window.gdmTest.show(0, { value: 52, heard: window.gdmTest.sent[0].number })")
    expect(thumb).to_have_value("70")
    page.mouse.move(*_at(page, "First", 72))
    page.mouse.up()
    expect(thumb).to_have_value("72")
    page.evaluate("window.gdmTest.show(0, { value: 52, heard: window.gdmTest.sent[0].number })")
    expect(thumb).to_have_value("72")  # that run began before the release was heard
    page.evaluate("window.gdmTest.show(0, { value: 40, heard: window.gdmTest.sent.at(-1).number })")
    expect(thumb).to_have_value("40")  # now the page itself says otherwise, and pictures are told
    told = {"key": "first", "value": 40, "held": False, "said": "First = 40 m", "stands": True}
    assert page.evaluate("window.gdmTest.heard.at(-1)") == told


def test_a_slider_that_is_taken_away_under_the_finger_counts_as_let_go(page):
    _drag(page, 70)
    page.evaluate("(() => { const end = window.gdmTest.show(0); window.gdmTest.places[0].remove(); end(); })()")
    page.wait_for_function("window.gdmTest.sent.at(-1)?.held === false")
    assert _sent(page)[-1] == ("first", 70, False)
    page.mouse.up()


def test_two_sliders_share_one_line(page):
    page.get_by_role("slider", name="First", exact=True).focus()
    page.keyboard.press("ArrowRight")
    page.get_by_role("slider", name="Second", exact=True).focus()  # leaving the first one settles it
    page.wait_for_function("window.gdmTest.sent.length === 2")
    unanswered = page.evaluate(  # in one go: once it has come to rest, its value waits for nobody
        """async () => {
          const input = window.gdmTest.places[1].querySelector("input");
          input.stepDown();
          input.dispatchEvent(new Event("input", { bubbles: true }));
          for (let i = 0; i < 3; i++) await null; // what is said at once is said in the next microtask
          return window.gdmTest.sent.map(({ key, value, held }) => [key, value, held]);
        }"""
    )
    assert unanswered == [["first", 51, True], ["first", 51, False]]
    _answer(page)
    page.wait_for_function(
        "() => { const { key, held } = window.gdmTest.sent.at(-1); return key === 'second' && !held; }"
    )
    # It may have come to rest before the answer did: then nothing is said of it while it moved.
    assert _sent(page)[2:] in ([("second", 49, True), ("second", 49, False)], [("second", 49, False)])


def test_keys_move_it_and_settle_where_they_come_to_rest(page):
    thumb = page.get_by_role("slider", name="First", exact=True)
    thumb.focus()
    moves = {"ArrowRight": 51, "ArrowUp": 52, "PageUp": 62, "ArrowLeft": 61, "PageDown": 51, "Home": 0}
    for key, value in moves.items():
        page.keyboard.press(key)
        expect(thumb).to_have_value(str(value))
    page.keyboard.press("End")
    expect(thumb).to_have_attribute("aria-valuetext", "100 m")
    # On a slow machine the thumb comes to rest between two presses: what was said last need not be of the last key.
    page.wait_for_function(
        "() => { const { value, held } = window.gdmTest.sent.at(-1); return value === 100 && !held; }"
    )
    settled = [message for message in _sent(page) if not message[2]]
    thumb.evaluate(  # at once, for the same reason
        """(input) => {
          for (let i = 0; i < 30; i++) {
            input.stepDown();
            input.dispatchEvent(new Event("input", { bubbles: true }));
          }
        }"""
    )
    page.wait_for_function("() => { const last = window.gdmTest.sent.at(-1); return last.value === 70 && !last.held; }")
    more = [message for message in _sent(page) if not message[2]][len(settled) :]
    assert len(more) == 1, "a key that follows at once is the same movement"


def test_a_quiet_slider_speaks_on_release_alone(page):
    page.evaluate("window.gdmTest.show(0, { live: false })")
    _drag(page, 65)
    page.wait_for_function("window.gdmTest.heard.length > 0")  # pictures in the browser follow all the same
    assert _sent(page) == []
    page.mouse.up()
    page.wait_for_function("window.gdmTest.sent.length === 1")
    assert _sent(page) == [("first", 65, False)]


def test_it_says_what_it_is(page):
    thumb = page.get_by_role("slider", name="First", exact=True)
    expect(thumb).to_have_value("50")
    expect(thumb).to_have_attribute("aria-valuetext", "50 m")
    assert thumb.evaluate("e => [e.min, e.max, e.step]") == ["0", "100", "1"]
    assert (
        thumb.evaluate("e => document.getElementById(e.getAttribute('aria-describedby')).textContent")
        == "What it does."
    )
    page.evaluate("window.gdmTest.show(0, { disabled: true })")
    expect(thumb).to_be_disabled()
    _drag(page, 80)
    page.mouse.up()
    expect(thumb).to_have_value("50")
    assert _sent(page) == []


def test_its_help_opens_under_mouse_key_and_finger(page, phone):
    words = page.locator("[role=tooltip]", has_text="What it does.").first
    button = page.get_by_role("button", name="About First")
    expect(words).to_be_hidden()
    button.hover()
    expect(words).to_be_visible()
    here = button.bounding_box()
    assert words.bounding_box()["x"] >= here["x"] + here["width"], (
        "where there is room, it covers no control below or above"
    )
    page.mouse.move(600, 600)
    expect(words).to_be_hidden()
    page.get_by_role("slider", name="First", exact=True).focus()
    page.keyboard.press("Shift+Tab")
    expect(button).to_be_focused()
    expect(words).to_be_visible()
    page.keyboard.press("Escape")
    expect(words).to_be_hidden()
    phone.get_by_role("button", name="About First").tap()
    words = phone.locator("[role=tooltip]", has_text="What it does.").first
    expect(words).to_be_visible()
    box = words.bounding_box()
    assert 0 <= box["x"] <= 390 - box["width"]
    phone.get_by_role("button", name="About First").tap()
    expect(words).to_be_hidden()


def test_a_finger_drags_it(phone):
    page = phone
    touch = page.context.new_cdp_session(page)

    def finger(kind: str, value: float | None = None) -> None:
        at = [] if value is None else [dict(zip("xy", _at(page, "First", value), strict=True))]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})

    finger("touchStart", 50)
    for value in (53, 58, 66):
        finger("touchMove", value)
    page.wait_for_function("window.gdmTest.heard.at(-1)?.value >= 60")
    assert all(held for *_, held in _sent(page))
    finger("touchEnd")
    page.wait_for_function("window.gdmTest.sent.at(-1)?.held === false")
    thumb = page.get_by_role("slider", name="First", exact=True)
    assert _sent(page)[-1][1] == float(thumb.input_value()) >= 60
    expect(page.get_by_text("100 m", exact=True).first).to_have_css("opacity", "1")  # nothing hovers on a phone
