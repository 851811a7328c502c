"""Teach in a browser: a stretch is dragged over, named, and found again after a reload."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

TRIES = 12  # a figure that is drawn anew under the pointer ends a drag


def dragged(page: Page, begin: float, end: float) -> tuple[float, float]:
    """From and To after a drag over these shares of the row of marks."""
    first, second = (page.locator(".st-key-teach-mark input").nth(j) for j in (0, 1))
    before = first.input_value()
    surface = page.locator(".st-key-teach-strips .nsewdrag").first
    for _ in range(TRIES):
        surface.scroll_into_view_if_needed()
        box = surface.bounding_box()
        assert box is not None
        height = box["y"] + 0.25 * box["height"]
        page.mouse.move(box["x"] + begin * box["width"], height)
        page.mouse.down()
        page.mouse.move(box["x"] + (begin + end) / 2 * box["width"], height, steps=4)
        page.mouse.move(box["x"] + end * box["width"], height, steps=4)
        page.mouse.up()
        try:
            expect(first).not_to_have_value(before, timeout=10_000)
        except AssertionError:
            continue
        return float(first.input_value()), float(second.input_value())
    raise AssertionError(f"From is still {before} after {TRIES} drags")


def test_a_stretch_is_dragged_over_named_and_found_again_after_a_reload(visit):
    seen = visit("/behaviour?view=Teach&trial=Fitted%3A+simulated+mice+1")
    page = seen.ready(".st-key-teach-strips .gdm-figure[data-updates]")
    expect(page.locator(".st-key-teach-clip-0 button")).to_be_visible()
    begin, end = dragged(page, 0.2, 0.4)
    whole = 2000 / 30
    assert begin == pytest.approx(0.2 * whole, abs=1.0)
    assert end == pytest.approx(0.4 * whole, abs=1.0)
    page.locator(".st-key-teach-words").get_by_role("button", name="investigation").click()
    line = page.get_by_text("1 mark of your own", exact=False)
    expect(line).to_be_visible()
    words = line.inner_text()
    page.reload()
    expect(page.get_by_text(words)).to_be_visible()
    assert seen.errors == []
