"""Turning from page to page in a real browser, where settings live in the address."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.test_nascar import rested

pytestmark = pytest.mark.browser


def turn(page: Page, name: str, address: str) -> None:
    page.get_by_role("link", name=name).first.click()
    page.wait_for_url(address)


def at(page: Page, n_states: int) -> None:
    """Wait for the slider to stand there."""
    page.wait_for_function("n => document.querySelector('.st-key-slider-K input')?.value === String(n)", arg=n_states)


def test_each_page_has_its_own_settings_and_keeps_them(visit):
    opened = visit("/nascar?T=200")
    page = opened.page
    at(page, 4)
    page.get_by_role("slider", name="States (K)").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**/nascar?*K=5*")
    page.get_by_text("Set it", exact=True).first.click()
    page.wait_for_url("**/nascar?*stay=Set*")
    rested(page)  # what is pinned is the result that stands, on a busy machine still the one before
    page.get_by_role("button", name="Pin this result").click()
    page.wait_for_url("**/nascar?*pin=gdm_5_*")
    turn(page, "Playground", "**/playground")
    page.get_by_role("slider", name="Softness").first.wait_for()
    turn(page, "Formula 1", "**/formula1*")  # which names its source: before or after it is turned to
    at(page, 3)
    page.get_by_role("button", name="Pin this result").wait_for()  # what is pinned elsewhere is not pinned here
    assert "pin" not in page.url
    turn(page, "NASCAR lab", "**/nascar?*K=5*")
    at(page, 5)
    assert "T=200" in page.url
    assert "stay=Set" in page.url
    page.get_by_role("button", name="Unpin").wait_for()
    page.wait_for_url("**/nascar?*pin=gdm_5_*")
