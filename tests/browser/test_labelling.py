"""The labelling desk in a browser: marks by keys and drags, undo, jumps and zoom."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit

OPENED = "/behaviour?view=Labels&labels=Labelling&trial=Training%3A+simulated+mice+1"
LABELS = ".desk button[data-label]"


def desk(seen: Visit) -> Page:
    """Return the page once the desk is visible."""
    page = seen.ready(".desk")
    expect(page.locator(LABELS)).to_have_count(4)
    return page


def move_to(page: Page, time: float) -> None:
    page.evaluate(
        "time => window.dispatchEvent(new CustomEvent('gdm:cursor', { detail: { group: 'page', time, follow: true } }))",
        time,
    )


def label(page: Page, key: str, begin: float, end: float) -> None:
    for time in (begin, end):
        move_to(page, time)
        page.keyboard.press(key)


def n_drawn(page: Page) -> int:
    """Return the number of marks on the desk, sent to the page or not."""
    return int(page.locator("[data-role=line]").get_attribute("data-marks") or 0)


def expect_listed(page: Page, n: int) -> None:
    """Wait until the page has the marks."""
    expect(page.get_by_text(f"{n} labelled {'stretch' if n == 1 else 'stretches'}")).to_be_visible()


def test_keys_and_drags_mark_at_once_and_undo_takes_back(visit):
    page = desk(visit(OPENED))
    page.locator(".st-key-player canvas").focus()
    for n in range(4):
        label(page, "12"[n % 2], 4.0 * n, 4.0 * n + 2)
        assert n_drawn(page) == n + 1
    expect_listed(page, 4)
    expect(page.get_by_text("No predicted labels yet")).to_have_count(0)
    page.keyboard.press("Control+z")
    assert n_drawn(page) == 3
    expect_listed(page, 3)
    line = page.locator("[data-role=line]")
    line.scroll_into_view_if_needed()
    box = line.bounding_box()
    assert box is not None
    move_to(page, 40.0)
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 20, steps=4)
    page.mouse.up()
    page.locator(LABELS, has_text="mount").click()
    expect_listed(page, 4)
    label(page, "1", 40, 44)
    expect(page.locator("[data-role=message]")).to_contain_text("already labelled “mount”")
    assert n_drawn(page) == 4
    page.get_by_label("New label").press_sequentially("12")
    assert n_drawn(page) == 4, "keys that are typed mark nothing"
    page.get_by_role("button", name="Add label").click()
    expect(page.locator(LABELS)).to_have_count(5)


@pytest.mark.bulk
def test_the_cursor_steps_zooms_and_jumps(visit):
    page = desk(visit(OPENED))
    now = page.locator("[data-role=now]")
    page.get_by_role("button", name="Whole trial").click()
    expect(page.locator("[data-role=window]")).to_have_text("67 s")
    for _ in range(9):
        page.locator("[data-role=closer]").click()
    expect(page.locator("[data-role=window]")).to_have_text("1.0 s")
    move_to(page, 10.0)
    for key, frame in ((".", 301), (".", 302), (",", 301)):
        page.keyboard.press(key)
        expect(now).to_contain_text(f"frame {frame}")
    page.keyboard.press("n")
    expect(page.locator("[data-role=message]")).to_contain_text("No predictions yet")
    label(page, "2", 10, 12)
    move_to(page, 11.0)
    page.keyboard.press("u")
    expect(now).to_contain_text("frame 360")


@pytest.mark.bulk
def test_next_clip_selects_a_clip_that_a_key_labels(visit):
    page = desk(visit(OPENED))
    page.get_by_role("button", name="Next clip").click()
    expect(page.locator("[data-role=message]")).to_have_text("Press the label of the selected stretch.")
    page.keyboard.press("2")
    expect_listed(page, 1)
