"""Behaviour and Your data in a browser: poses and strips move together, files come out and go in."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Page, expect

from datasets import tables
from pages.ui import settings

pytestmark = pytest.mark.browser

PLAYER = "canvas[data-ready]"
CURSOR = ".gdm-cursor-time:not([hidden])"
UPLOADER = "[data-testid=stFileUploader]"

# Shows a stretch of the strips; the moment of the cursor in them, -1 where it is out of sight.
WINDOW = """range => window.Plotly.relayout(document.querySelector(".st-key-strips .gdm-plot"), { "xaxis.range": range })
  .then(() => range)"""
SEEN = """() => {
  const plot = document.querySelector(".st-key-strips .gdm-plot");
  const line = document.querySelector(".st-key-strips .gdm-cursor:not([hidden])");
  const { xaxis } = plot._fullLayout;
  return line ? xaxis.p2l(parseFloat(line.style.left) - xaxis._offset) : -1;
}"""


def _frame(page: Page) -> float:
    """The frame that the player shows. It draws in a shadow tree, which a plain query does not look into."""
    return float(page.locator(PLAYER).evaluate("canvas => canvas.dataset.frame"))


def test_the_player_and_the_strips_point_at_the_same_moment(visit):
    opened = visit("/behaviour")
    page = opened.ready(PLAYER)
    page.wait_for_selector(".st-key-strips .gdm-figure[data-updates]")
    before = _frame(page)
    page.locator(PLAYER).focus()
    page.keyboard.press("ArrowRight")
    assert _frame(page) == before + 1
    page.keyboard.press("PageUp")
    assert _frame(page) == before - 29
    page.evaluate("window.dispatchEvent(new CustomEvent('gdm:cursor', { detail: { group: 'page', time: 20 } }))")
    assert _frame(page) == pytest.approx(600, abs=1)
    page.locator(CURSOR).first.wait_for(state="attached")

    # The bouts on the page are those of the bundled result, so a jump must land on the start of one.
    button = page.locator(".jumps button").first
    button.click()
    landed = _frame(page)
    assert landed != pytest.approx(600, abs=1)
    button.click()
    assert _frame(page) != landed
    place = page.evaluate(
        """() => {
          const plot = document.querySelector('.st-key-strips .gdm-plot');
          const line = document.querySelector('.st-key-strips .gdm-cursor');
          const { xaxis } = plot._fullLayout;
          return xaxis.p2l(parseFloat(line.style.left) - xaxis._offset);
        }"""
    )
    assert place == pytest.approx(_frame(page) / 30, abs=0.3)

    # Zoomed in to a window without the next bout, a jump takes the window along; and so does a row of the table of bouts.
    row = "window.dispatchEvent(new CustomEvent('gdm:cursor', { detail: { group: 'page', time: 30, follow: true } }))"
    for move in (button.click, lambda: page.evaluate(row)):
        page.evaluate(WINDOW, [0, 3])
        move()
        page.wait_for_function(f"() => ({SEEN})() > 3")
        assert page.evaluate(SEEN) == pytest.approx(_frame(page) / 30, abs=0.05)
    assert _frame(page) == pytest.approx(900)

    before = _frame(page)
    assert page.locator("[data-role=play]").inner_text() == "Play poses", "the fit has a Play of its own"
    page.locator("[data-role=play]").click()
    player = page.locator(PLAYER).element_handle()
    page.wait_for_function("([canvas, least]) => Number(canvas.dataset.frame) >= least", arg=[player, before + 10])


@pytest.mark.bulk
def test_a_link_brings_its_settings(visit):
    name = settings.key("name1", settings.of("simulated-2000-0-keypoints"))  # names belong to their recording
    page = visit(f"/behaviour?features=Raw+keypoints&K=3&trial=Fitted:+simulated+mice+3&{name}=resting").ready(PLAYER)
    shown = page.get_by_role("combobox", name="Trial").first
    expect(shown).to_have_value("Fitted: simulated mice 3")
    expect(page.locator(".gdm-facts")).to_contain_text("K3")
    assert f"{name}=resting" in page.url
    expect(page.locator(".gdm-key[aria-label=states]").first).to_contain_text("resting")  # once they are fitted


def test_a_bad_upload_is_named_and_a_good_one_is_fitted_explored_and_taken_along(visit, tmp_path: Path):
    opened = visit("/your-data")
    page = opened.ready(UPLOADER)
    bad, good = tmp_path / "bad.npz", tmp_path / "walk.csv"
    bad.write_bytes(b"PK\x03\x04 this is no archive")
    good.write_bytes(tables.template("table.csv"))
    assert len(pd.read_csv(io.BytesIO(good.read_bytes()))) == 120
    chooser = page.locator("[data-testid=stFileUploaderDropzoneInput]").first
    chooser.set_input_files(bad)
    page.wait_for_selector(".gdm-message.error")
    assert "bad.npz" in page.locator(".gdm-message.error").inner_text()
    page.get_by_role("button", name="Remove bad.npz").click()
    page.wait_for_selector(".gdm-message.error", state="detached")
    opened.ready(UPLOADER)  # another place than before, once the run has ended
    page.locator("[data-testid=stFileUploaderDropzoneInput]").first.set_input_files(good)
    page.wait_for_selector(".st-key-first-look .gdm-figure[data-updates]")
    expect(page.locator("body")).to_contain_text("30 samples a second")

    page.get_by_role("button", name="Fit it").click()
    page.wait_for_selector(".st-key-strips .gdm-figure[data-state=fresh][data-updates]")
    page.get_by_text("Macro-F1").first.wait_for()
    page.get_by_role("tab", name="Export & reproduce").click()
    button = page.get_by_role("button", name="States (CSV)")
    button.wait_for()
    with page.expect_download() as waiting:
        button.click()
    table = pd.read_csv(waiting.value.path())
    shares = table.filter(regex=r"^p_\d+$").to_numpy()
    assert len(table) == 60, "one of the two trials"
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-4)
