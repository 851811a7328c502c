"""Formula 1 with an impatient user: controls move while earlier fits and queries are running."""

from __future__ import annotations

import random

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.bulk]

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
