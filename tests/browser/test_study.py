"""The Study page in a browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_first_visit_and_another_question(visit):
    opened = visit("/study")
    page = opened.ready(".st-key-study-dots .gdm-figure[data-updates]")
    answer = page.locator(".st-key-gdm-panel-card-study")
    expect(answer).to_contain_text("control and treated")
    page.get_by_role("combobox", name="Does it differ between").click()
    page.get_by_role("option", name="session").click()
    expect(answer).to_contain_text("session 1 and session 2")
    expect(page).to_have_url(re.compile("between=session"))
    page.get_by_role("tab", name="Changes").click()
    expect(page.locator(".st-key-study-changes .gdm-figure[data-updates]")).to_be_visible()
    assert opened.overflow() <= 0
