"""Teach in a browser: a stretch is dragged over, named, and found again after a reload."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


def dragged(page: Page, begin: float, end: float, meanwhile: Callable[[], None] = lambda: None) -> tuple[float, float]:
    """From and To after a drag over these shares of the row of marks; `meanwhile` is done half-way."""
    first, second = (page.locator(".st-key-teach-mark input").nth(j) for j in (0, 1))
    before = first.input_value()
    surface = page.locator(".st-key-teach-strips .nsewdrag").first
    surface.scroll_into_view_if_needed()
    box = surface.bounding_box()
    assert box is not None
    height = box["y"] + 0.25 * box["height"]
    page.mouse.move(box["x"] + begin * box["width"], height)
    page.mouse.down()
    page.mouse.move(box["x"] + (begin + end) / 2 * box["width"], height, steps=4)
    meanwhile()
    page.mouse.move(box["x"] + end * box["width"], height, steps=4)
    page.mouse.up()
    expect(first).not_to_have_value(before)
    return float(first.input_value()), float(second.input_value())


def test_a_stretch_is_dragged_over_named_and_found_again_after_a_reload(visit):
    seen = visit("/behaviour?view=Teach&trial=Fitted%3A+simulated+mice+1")
    page = seen.ready(".st-key-teach-strips .gdm-figure[data-updates]")
    expect(page.locator(".st-key-teach-clip-0 button")).to_be_visible()
    whole = 2000 / 30

    def drawn_anew() -> None:
        """What a figure that comes in the midst of a drag would do to it; also a proposal that comes then."""
        page.locator(".st-key-teach-strips figure").evaluate("""(figure) => {
          const view = figure.parentElement.gdmView, { data } = view.given;
          const other = { ...data.figure, data: data.figure.data.slice(0, 1) };
          view.given = { ...view.given, data: { ...data, figure: other } };
          view.again();
        }""")

    begin, end = dragged(page, 0.2, 0.4, drawn_anew)
    assert begin == pytest.approx(0.2 * whole, abs=1.0)
    assert end == pytest.approx(0.4 * whole, abs=1.0)
    page.locator(".st-key-teach-words").get_by_role("button", name="investigation").click()
    line = page.get_by_text("1 mark of your own", exact=False)
    expect(line).to_be_visible()
    words = line.inner_text()
    page.get_by_label("Another word").fill("grooming")
    page.get_by_role("button", name="Add the word").click()  # the click itself ends the typing
    expect(page.locator(".st-key-teach-words").get_by_role("button", name="grooming")).to_be_visible()
    page.reload()
    expect(page.get_by_text(words)).to_be_visible()
    assert seen.errors == []


def marks(page: Page, number: int) -> None:
    """Wait until so many are listed."""
    line = f"{number} {'mark' if number == 1 else 'marks'} of your own"
    expect(page.get_by_text(line, exact=False)).to_be_visible()


def test_keys_mark_while_it_plays_and_answer_one_proposal_after_the_other(visit):
    seen = visit("/behaviour?view=Teach&trial=Fitted%3A+simulated+mice+1")
    page = seen.ready(".st-key-teach-strips .gdm-figure[data-updates]")
    timeline, said = page.locator(".mark[aria-label]"), page.locator("[data-role=said]")
    expect(page.locator(".st-key-teach-clip-0 button")).to_be_visible()
    strip = page.locator(".st-key-teach-strips .gdm-figure")
    drawn_before = int(strip.get_attribute("data-updates") or 0)
    stands = timeline.element_handle()

    # Paused: a key begins, the other word's key ends it and begins its own, Esc drops that.
    poses = page.locator("canvas[data-role=canvas]")
    poses.focus()
    page.keyboard.press("PageDown")
    page.keyboard.press("1")
    expect(timeline).to_have_attribute("data-open", "attack")
    page.keyboard.press("PageDown")
    page.keyboard.press("2")
    expect(timeline).to_have_attribute("data-open", "investigation")
    page.keyboard.press("Escape")
    expect(timeline).to_have_attribute("data-open", "")
    marks(page, 1)

    # Playing: the stretch is as long as it played.
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Pause poses")).to_be_visible()
    began = float(poses.get_attribute("data-frame") or 0)
    page.keyboard.press("2")
    page.wait_for_function(
        "([canvas, frame]) => Number(canvas.dataset.frame) > frame + 60", arg=[poses.element_handle(), began]
    )
    page.keyboard.press("2")
    page.keyboard.press(" ")
    marks(page, 2)
    expect(strip).not_to_have_attribute("data-updates", str(drawn_before))

    # Typing marks nothing; Ctrl+Z takes the last one back.
    page.get_by_label("Another word").press_sequentially("12")
    expect(timeline).to_have_attribute("data-open", "")
    poses.focus()
    page.keyboard.press("Control+z")
    marks(page, 1)

    # Three proposals by keys alone, after the first press.
    page.locator(".st-key-teach-clip-0 button").click()
    for n, key in enumerate("212", start=2):
        expect(said).to_contain_text("What is it?")
        expect(page.get_by_role("button", name="Pause the clip")).to_be_visible()
        question = said.inner_text()
        page.keyboard.press(key)
        marks(page, n)
        expect(said).not_to_have_text(question)
    expect(said).to_contain_text("What is it?")
    page.keyboard.press("Escape")
    expect(said).not_to_contain_text("What is it?")
    # What came above it meanwhile did not move its place: drawn anew it would lose keys and what it has not sent yet.
    assert stands.evaluate("(node) => node.isConnected")

    # The model has learned them, the file has them, and so has the page after a reload.
    expect(page.locator(".st-key-teach-states-now .gdm-figure[data-updates]")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Marks (JSON)").or_(page.get_by_role("button", name="Marks (JSON)")).click()
    found = json.loads(Path(saved.value.path()).read_text(encoding="utf-8"))["marks"]
    assert len(found) == 4
    assert {mark["word"] for mark in found} == {"attack", "investigation"}
    page.reload()
    marks(page, 4)
    assert seen.errors == []


@pytest.mark.bulk
def test_who_asks_for_less_motion_gets_a_button_in_place_of_playing(visit):
    seen = visit("/behaviour?view=Teach&trial=Fitted%3A+simulated+mice+1", reduced_motion="reduce")
    page = seen.ready(".st-key-teach-strips .gdm-figure[data-updates]")
    page.locator(".st-key-teach-clip-0 button").click()
    expect(page.locator("[data-role=said]")).to_contain_text("What is it?")
    expect(page.get_by_role("button", name="Play the clip")).to_be_visible()
