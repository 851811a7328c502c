"""The desk in a browser: painted at once, kept over a reload, moved about on, and asked at."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit

pytestmark = pytest.mark.browser


OPENED = "/behaviour?view=Teach"
DESK = ".mark[aria-label]"


def desk(seen: Visit) -> Page:
    """The page once the desk can be marked on."""
    page = seen.ready(DESK)
    expect(page.get_by_role("combobox", name="Trial").first).to_have_value("Fitted: simulated mice 1")
    expect(page.locator(".mark button[data-word]")).to_have_count(4)
    return page


def listed(page: Page, number: int) -> None:
    """Wait until the page has heard of so many."""
    line = f"{number} {'mark' if number == 1 else 'marks'} of your own"
    expect(page.get_by_text(line, exact=False)).to_be_visible()


def painted(page: Page, number: int) -> None:
    """So many marks are on the timeline now: the browser asks nobody for that."""
    assert page.locator(DESK).get_attribute("data-marks") == str(number)


def moment(page: Page, time: float) -> None:
    page.evaluate(
        "time => window.dispatchEvent(new CustomEvent('gdm:cursor', { detail: { group: 'page', time, follow: true } }))",
        time,
    )


def ink(page: Page, x: float, y: float = 20) -> list[int]:
    """The colour of the timeline at this share of its width."""
    return page.locator("[data-role=line]").evaluate(
        "(line, [x, y]) => [...line.getContext('2d').getImageData(x * line.width, y * devicePixelRatio, 1, 1).data]",
        [x, y],
    )


def stored(page: Page) -> list[list]:
    return page.evaluate(
        "JSON.parse(localStorage.getItem(Object.keys(localStorage).find(key => /^gdm-marks-\\w+$/.test(key)))).marks"
    )


def test_marks_are_painted_whatever_the_server_does_and_outlive_it(visit, app_server):
    """Keys, a drag, undo and redo while the server is stopped; then the page is reloaded before it has heard of all."""
    seen = visit(OPENED, fresh=True)
    page = desk(seen)
    page.locator("canvas[data-role=canvas]").focus()
    app_server.process.send_signal(signal.SIGSTOP)
    try:
        slow = []
        for n in range(5):
            moment(page, 4.0 * n)
            page.keyboard.press("12"[n % 2])
            moment(page, 4.0 * n + 2)
            page.keyboard.press("12"[n % 2])
            painted(page, n + 1)
            slow.append(float(page.locator("[data-role=line]").get_attribute("data-key-ms") or "inf"))
        assert sorted(slow)[2] < 50, f"milliseconds from a key to its mark: {slow}"
        assert ink(page, 0.5)[3] == 255, "the mark that ends at the present moment is drawn left of it"
        for key, left in (("Control+z", 4), ("Control+z", 3), ("Control+Shift+z", 4), ("Delete", 4)):
            page.keyboard.press(key)
            painted(page, left)
        expect(page.locator("[data-role=said]")).to_have_text("No mark is here to take away.")
        line = page.locator("[data-role=line]")
        line.scroll_into_view_if_needed()
        box = line.bounding_box()
        assert box is not None
        moment(page, 40.0)
        page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 20, steps=4)
        page.mouse.up()
        begin, end = (float(page.locator(f"[data-role={name}]").input_value()) for name in ("from", "to"))
        assert (begin, end) == (pytest.approx(42, abs=0.2), pytest.approx(46, abs=0.2))
        page.locator(".mark").get_by_role("button", name="mount").click()
        painted(page, 5)
        kept = stored(page)
        assert len(kept) == 5
    finally:
        app_server.process.send_signal(signal.SIGCONT)
    page.reload()
    desk(seen)
    listed(page, 5)
    painted(page, 5)
    page.get_by_label("Another word").press_sequentially("12")
    painted(page, 5)
    page.get_by_role("button", name="Add the word").click()
    expect(page.locator(".mark button[data-word='12']")).to_be_visible()
    page.reload()
    desk_words = page.locator(".mark button[data-word='12']")
    expect(desk_words).to_be_visible()
    assert stored(page) == kept


@pytest.mark.bulk
def test_two_windows_that_mark_at_once_lose_nothing_of_each_other(visit, app_server):
    """Both mark in turns while the server is stopped, so that neither has been heard; one takes a mark back."""
    seen = visit(OPENED, fresh=True)
    first = desk(seen)
    other = Visit(first.context.new_page(), seen.errors)
    other.page.goto(first.url)
    windows = [first, desk(other)]
    app_server.process.send_signal(signal.SIGSTOP)
    try:
        for n in range(25):
            page = windows[n % 2]
            page.bring_to_front()
            page.locator("canvas[data-role=canvas]").focus()
            moment(page, 2.5 * n)
            page.keyboard.press("1234"[n % 4])
            moment(page, 2.5 * n + 1)
            page.keyboard.press("1234"[n % 4])
            for one in windows:
                expect(one.locator(DESK)).to_have_attribute("data-marks", str(n + 1))
        page.keyboard.press("Control+z")
        for one in windows:
            expect(one.locator(DESK)).to_have_attribute("data-marks", "24")
        page.keyboard.press("Control+Shift+z")
        for one in windows:
            expect(one.locator(DESK)).to_have_attribute("data-marks", "25")
        assert len(stored(first)) == 25
    finally:
        app_server.process.send_signal(signal.SIGCONT)
    for one in windows:
        listed(one, 25)
        one.reload()
    for one in windows:
        expect(one.locator(DESK)).to_have_attribute("data-marks", "25")


@pytest.mark.bulk
def test_the_hand_moves_by_frames_zooms_and_jumps(visit):
    seen = visit(OPENED, fresh=True)
    page = desk(seen)
    now, poses = page.locator("[data-role=now]"), page.locator("canvas[data-role=canvas]")
    expect(now).to_contain_text("frame 120")  # where the player opens
    page.locator(DESK).get_by_role("button", name="Whole").click()
    expect(page.locator("[data-role=window]")).to_have_text("67 s")
    for _ in range(9):
        page.locator("[data-role=closer]").click()
    expect(page.locator("[data-role=window]")).to_have_text("1.0 s")
    moment(page, 10.0)
    expect(now).to_contain_text("frame 300")
    for key, frame in ((".", 301), (".", 302), (",", 301)):
        page.keyboard.press(key)
        expect(now).to_contain_text(f"frame {frame}")
        assert float(poses.get_attribute("data-frame") or 0) == frame
    speed = page.locator("[data-role=speed]")
    for key, value in (("-", "0.5"), ("+", "1"), ("+", "2")):
        page.keyboard.press(key)
        expect(speed).to_have_value(value)
    page.keyboard.press("n")
    expect(page.locator("[data-role=said]")).to_contain_text("nothing has been learned")
    page.locator(".mark").get_by_role("button", name="investigation").click()
    moment(page, 12.0)
    page.keyboard.press("2")
    moment(page, 11.0)
    page.keyboard.press("u")
    expect(now).to_contain_text("frame 360")


@pytest.mark.bulk
def test_the_model_asks_and_keys_answer_one_clip_after_the_other(visit):
    seen = visit(OPENED, fresh=True)
    page = desk(seen)
    question = page.locator("[data-role=question]")
    page.get_by_role("button", name="Ask me what to name").click()
    for n, key in enumerate("2120", start=1):
        expect(question).to_contain_text("What is it?")
        expect(page.get_by_role("button", name="Pause the clip")).to_be_visible()
        before = question.inner_text()
        page.keyboard.press(key)
        painted(page, min(n, 3))
        expect(question).not_to_have_text(before)
    page.keyboard.press("Escape")
    expect(question).to_be_hidden()
    # The model has learned them, and the file has them.
    expect(page.locator(".st-key-teach-states-now .gdm-figure[data-updates]")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Marks (JSON)").or_(page.get_by_role("button", name="Marks (JSON)")).click()
    found = json.loads(Path(saved.value.path()).read_text(encoding="utf-8"))["marks"]
    assert [mark["word"] for mark in found] == ["investigation", "attack", "investigation"]
    page.keyboard.press("n")
    expect(page.locator("[data-role=said]")).not_to_contain_text("nothing has been learned")


@pytest.mark.bulk
def test_who_asks_for_less_motion_gets_a_button_in_place_of_playing(visit):
    page = desk(visit(OPENED, reduced_motion="reduce"))
    page.get_by_role("button", name="Ask me what to name").click()
    expect(page.locator("[data-role=question]")).to_contain_text("What is it?")
    expect(page.get_by_role("button", name="Play the clip")).to_be_visible()
