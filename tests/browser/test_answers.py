"""Answers in a real browser: settings compared, found again after the server has gone, suggested and used; the paper's panels."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.support.browser_server import running_server
from tests.support.patience import until

pytestmark = [pytest.mark.browser, pytest.mark.bulk]

TWO = "/compare?settings=2&seeds=1"  # GDM and AR-HMM, one fit each
PANELS = ("Figure 2", "Figure 3", "Appendix F", "Figure 4", "Table 1")


def told(page):
    """Wait for the verdict of a comparison."""
    expect(page.locator(".gdm-verdicts dd").first).to_contain_text("A GDM")


def test_two_models_are_compared_and_another_number_of_states_answers_anew(visit):
    opened = visit(TWO)
    page = opened.page
    told(page)
    expect(page.locator(".gdm-verdicts dd").first).to_contain_text("AR-HMM")
    page.wait_for_selector(".gdm-plot .main-svg", state="attached")
    opened.ready(".gdm-verdicts dd")  # what is typed while the page runs may go
    box = page.get_by_role("spinbutton", name="States (K)").first
    box.fill("3")
    box.press("Enter")
    expect(page.locator(".gdm-verdicts dd").first).to_contain_text("A GDM, K 3")
    page.get_by_role("tab", name="Differences").click()
    page.wait_for_selector(".st-key-differences .main-svg")


def test_what_was_compared_is_found_again_after_the_server_was_killed(browser, tmp_path):
    before: list[str] = []
    for again in (False, True):
        with running_server(tmp_path) as server:
            page = browser.new_page()
            page.goto(server.url + TWO)
            told(page)
            page.close()
            server.process.kill()
        kept = sorted(path.name for path in (tmp_path / "fits").iterdir())
        if again:
            assert kept == before
        before = kept
    assert len(before) >= 3, "two fits, and the lines to beat"


def test_settings_are_suggested_and_used(visit):
    # Nobody suggests so many states. Of this model few fits are asked for, which give way to all else that a machine does.
    opened = visit("/nascar?setting=Standard&T=200&model=AR-HMM&K=11&view=Suggest+settings")
    page = opened.ready()
    page.get_by_role("button", name="Suggest settings").click()
    use = page.get_by_role("button", name="Use these settings")
    until(use.count, lambda: page.locator("[data-testid=stMain]").inner_text()[-800:], every_s=0.5)
    expect(use).to_be_enabled()
    use.click()
    slider = page.get_by_role("slider", name="States (K)")
    expect(slider).not_to_have_attribute("aria-valuenow", "11")
    page.wait_for_function("!new URL(location.href).searchParams.get('K')?.startsWith('11')")


def test_every_panel_of_the_paper_draws(visit):
    opened = visit("/paper")
    page = opened.page
    expect(page.get_by_role("table")).to_be_visible()
    for panel in PANELS:
        page.get_by_text(panel).first.click()
        expect(page.locator(".gdm-head p")).to_contain_text(panel)
        drawn = page.locator(".st-key-gdm-panel-picture-paper").locator(".main-svg, table").first
        expect(drawn).to_be_visible()
