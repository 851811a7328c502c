"""Tasks of a newcomer: what the temperature does, and how many states to use. test_nascar.py has the third: exports."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.patience import patience_s

pytestmark = [pytest.mark.browser, pytest.mark.bulk]

SHORT = "/nascar?T=200"
# Mean of the largest share over time, from the stacked areas.
CERTAINTY = """() => {
  const shares = document.querySelector(".st-key-proportions .gdm-plot")._fullData.map((trace) => trace.y);
  const largest = [...shares[0]].map((_, t) => Math.max(...shares.map((share) => share[t])));
  return largest.reduce((sum, share) => sum + share, 0) / largest.length;
}"""


def finished(page: Page) -> Page:
    """Wait until the displayed fit is scored."""
    page.wait_for_selector(".st-key-inferred-track .gdm-figure[data-state=fresh][data-updates]")
    page.wait_for_selector(".st-key-proportions .gdm-figure[data-state=fresh][data-updates]")
    page.wait_for_selector(".gdm-score[data-verdict]")
    return page


def test_low_temperature_gives_hard_states(revisit):
    page = finished(revisit(SHORT).page)
    soft = page.evaluate(CERTAINTY)
    slider = page.get_by_role("slider", name="Temperature (τ)")
    page.locator(".gdm-slider", has=slider).get_by_role("button", name="About").focus()
    expect(page.get_by_text("low values switch abruptly, high values blend")).to_be_visible()
    slider.focus()
    page.keyboard.press("Home")
    page.wait_for_url("**tau=0.01**")
    page.wait_for_function(f"({CERTAINTY})() > {soft} + 0.1")
    assert finished(page).evaluate(CERTAINTY) > soft + 0.1


def test_suggestion_names_the_number_of_states(visit):
    page = finished(visit("/nascar?K=6").page)
    page.get_by_role("tab", name="Suggest settings").click()
    page.get_by_role("button", name="Suggest settings").click()
    apply = page.get_by_role("button", name="Use Gumbel Dynamical Model, K = 4")
    expect(apply).to_be_visible(timeout=4000 * patience_s())
    expect(page.get_by_text(re.compile(r"^Use \w+ states"))).to_be_visible()
