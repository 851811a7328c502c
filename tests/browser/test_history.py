"""Back and Forward: each change of a setting is a step of the history."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.bulk]


def _wait_for_address(page: Page, *parts: str, removed: tuple[str, ...] = ()) -> None:
    """Wait until the address has these parts and the run has ended."""
    page.wait_for_function(
        "([there, gone]) => there.every((part) => location.search.includes(part)) "
        "&& !gone.some((part) => location.search.includes(part)) "
        "&& document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'",
        arg=[list(parts), list(removed)],
    )


def _steps(page: Page) -> int:
    return int(page.evaluate("history.length"))


def _choose(page: Page, label: str, option: str) -> None:
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("option", name=option, exact=True).click()


def test_back_and_forward_restore_settings(visit):
    opened = visit("/nascar?T=200")
    page = opened.page
    fitted = page.locator(".st-key-inferred-track .gdm-figure[data-state=fresh][data-updates]")
    fitted.wait_for()
    _wait_for_address(page, "T=200")
    first, facts = _steps(page), page.locator(".gdm-facts")

    page.get_by_role("slider", name="States (K)").press("ArrowRight")
    _wait_for_address(page, "K=5")
    expect(facts).to_contain_text("K5")
    fitted.wait_for()
    # The address changes before the page has run.
    _choose(page, "Scenario", "Standard")
    expect(page.locator(".gdm-head")).to_contain_text("standard track")
    _wait_for_address(page, "scenario=Standard")
    page.get_by_role("radio", name="Set by hand").click()
    page.get_by_role("slider", name="Stickiness (γ)").wait_for(state="attached")
    _wait_for_address(page, "stay=Set+by+hand")
    # Back replaces the controls, and for a moment the earlier ones are there too, below.
    page.get_by_text("Advanced", exact=True).first.click()
    seed = page.get_by_role("spinbutton", name="Initialization seed").first
    seed.fill("3")
    seed.press("Enter")
    _wait_for_address(page, "seed=3")
    expect(facts).to_contain_text("seed3")
    fitted.wait_for()
    _wait_for_address(page, "seed=3")
    assert _steps(page) == first + 4, page.url

    page.go_back()
    _wait_for_address(page, "stay=Set+by+hand", removed=("seed",))
    expect(seed).to_have_value("0")
    expect(facts).to_contain_text("seed0")
    page.go_back()
    _wait_for_address(page, "scenario=Standard", removed=("stay",))
    expect(page.get_by_role("radio", name="Learned from data").first).to_be_checked()
    expect(facts).to_contain_text("stickiness γlearned")
    page.go_back()
    _wait_for_address(page, "K=5", removed=("scenario",))
    expect(page.locator(".gdm-head")).to_contain_text("soft-sticky")
    page.go_back()
    _wait_for_address(page, "T=200", removed=("K=",))
    expect(facts).to_contain_text("K4")
    page.go_forward()
    _wait_for_address(page, "K=5")
    expect(facts).to_contain_text("K5")
    assert _steps(page) == first + 4
