"""Training replay: a scrubber under the ELBO curve, drawn by the browser."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_nascar import INFERRED, rested

pytestmark = pytest.mark.browser

CANVAS = f"document.querySelector('{INFERRED} canvas.gdm-states')?.toDataURL()"
STEP = "document.querySelector('.gdm-scrubber input').value"
PLAY_S = 5.0


def _runs(page: Page) -> int:
    return int(page.evaluate("window.gdmChannel.runs"))


def _drag(page: Page, share: float) -> str:
    """Drag the thumb, which is held, and return the new picture."""
    before = page.evaluate(CANVAS)
    thumb = page.get_by_role("slider", name="Training step")
    thumb.scroll_into_view_if_needed()
    box = thumb.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
    if before is None:
        page.mouse.down()
    page.wait_for_function(f"before => {{ const now = {CANVAS}; return now && now !== before; }}", arg=before)
    return str(page.evaluate(CANVAS))


def test_scrubber_shows_states_at_a_training_step(revisit):
    page = rested(revisit("/nascar?T=200").page)
    runs = _runs(page)
    pictures = {_drag(page, share) for share in (0.5, 0.05, 0.2)}
    assert len(pictures) == 3
    page.mouse.up()
    expect(page.locator(f"{INFERRED} .gdm-badge")).to_have_text(f"training step {page.evaluate(STEP)}")
    expect(page.locator(".st-key-elbo .gdm-cursor")).to_be_visible()
    page.keyboard.press("End")
    expect(page.locator(".gdm-states")).to_have_count(0)
    assert page.locator(f"{INFERRED} .gdm-badge:visible").count() == 0
    assert _runs(page) == runs, "no script runs during the replay"

    # Moving a control ends the replay.
    _drag(page, 0.3)
    page.mouse.up()
    page.get_by_role("slider", name="Temperature (τ)").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("(({ value, max }) => value === max)(document.querySelector('.gdm-scrubber input'))")
    rested(page)
    expect(page.locator(".gdm-states")).to_have_count(0)


def test_play_replays_training_in_five_seconds(revisit):
    page = rested(revisit("/nascar?T=200").page)
    runs, began = _runs(page), time.monotonic()
    page.get_by_role("button", name="Replay training").click()
    page.wait_for_function(CANVAS)
    expect(page.get_by_role("button", name="Pause the replay")).to_be_visible()
    expect(page.get_by_role("button", name="Replay training")).to_be_visible(timeout=4000 * PLAY_S)
    assert time.monotonic() - began > 0.9 * PLAY_S
    expect(page.locator(".gdm-states")).to_have_count(0)
    assert _runs(page) == runs, "no script runs during the replay"


def test_replay_repeats_steps_by_keys_and_calms_down(revisit):
    page = rested(revisit("/nascar?T=200").page)
    page.emulate_media(reduced_motion="reduce")
    page.get_by_role("button", name="Repeat the replay").click()
    page.evaluate(
        """() => {
          window.seen = [];
          const note = ({ detail }) => detail.key === "replay" && window.seen.push(detail.value);
          window.addEventListener("gdm:slider", note);
        }"""
    )
    page.get_by_role("button", name="Replay training").click()
    page.wait_for_function("window.seen.filter((value) => value === 0).length > 1")
    assert len(set(page.evaluate("window.seen"))) == 11, "ten pictures and the end"
    page.get_by_role("button", name="Pause the replay").click()
    page.get_by_role("slider", name="Training step").press("Home")
    page.get_by_role("slider", name="Training step").press("ArrowRight")
    most = int(page.evaluate(STEP.replace("value", "max")))
    assert int(page.evaluate(STEP)) == max(1, round(most / 50))
    page.emulate_media(reduced_motion="no-preference")
