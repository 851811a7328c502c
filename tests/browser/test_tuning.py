"""Every page with a fit under an impatient hand: controls move while earlier fits and answers are still about.

Whether fits and answers end between two moves depends on the machine. `test_answers_that_come_late_never_meet_those_of_
another_fit` (tests/app/test_formula1_page.py) has them end in every order; here a browser drives a server and workers.
"""

from __future__ import annotations

import random

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.bulk]

MOVES = {"formula1": 20, "nascar": 12, "behaviour": 12}  # most where dragging K once broke the page
SLIDERS = ("States (K)", "Softness (τ)", "Stickiness (γ)")
DRIVERS = ("Fit on (train)", "Apply to (test)", "Driver", "against")


def move(page: Page, hand: random.Random, slider: str) -> None:
    """One to three steps of a slider, as fast as keys repeat."""
    page.get_by_role("slider", name=slider).first.focus()
    for _ in range(hand.randint(1, 3)):
        page.keyboard.press(hand.choice(("ArrowLeft", "ArrowRight", "PageUp", "PageDown")))


def choose(page: Page, hand: random.Random, label: str) -> None:
    """Another driver from a list, wherever it is just now: a tab may be waiting for its states."""
    box = page.get_by_role("combobox", name=label).first
    if not box.count():
        return
    box.focus()
    page.keyboard.press("ArrowDown")
    for _ in range(hand.randint(1, 4)):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")


@pytest.mark.parametrize("where", ["nascar", "formula1", "behaviour"])
def test_nothing_breaks_under_an_impatient_hand(visit, app_server, where):
    began = len(app_server.log.read_text())
    opened = visit(f"/{where}")
    page = opened.ready(".gdm-figure[data-updates]")
    page.get_by_role("radio", name="Set it").click()  # otherwise there is no gamma to move
    page.get_by_role("slider", name=SLIDERS[2]).first.wait_for(state="attached")
    hand = random.Random(where)
    before = page.url
    for turn in range(MOVES[where]):
        if where == "formula1" and turn % 3 == 2:
            choose(page, hand, hand.choice(DRIVERS))
        else:
            move(page, hand, SLIDERS[turn % 3] if turn % 2 else hand.choice(SLIDERS))
        if turn % 5 == 4:  # long enough for a quick answer, and often for the exact one that follows it
            page.wait_for_timeout(2_500)
        else:
            page.wait_for_timeout(hand.choice((30, 100, 300)))
        assert page.locator(".stException").count() == 0, page.locator(".stException").first.inner_text()
    expect(page.locator(".gdm-head")).to_be_visible()
    page.wait_for_timeout(2_000)
    assert page.url != before, "something was moved"
    assert page.locator(".stException").count() == 0, page.locator(".stException").first.inner_text()
    log = app_server.log.read_text()[began:]
    assert "Traceback" not in log, log[log.index("Traceback") :][:3000]
