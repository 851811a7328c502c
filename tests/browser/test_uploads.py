"""Uploads on Your data: the page shows the state of the latest file."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

TABLE = "a,b\n" + "\n".join(f"{i % 5},{i * i % 13}" for i in range(300))
STATE = "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState"


def _file(name: str, content: str) -> dict:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content.encode()}


def test_file_sent_right_after_a_refused_one_replaces_it(visit):
    page = visit("/your-data").ready("input[type=file]")
    expect(page.locator(".gdm-foot")).to_be_visible()
    field = page.locator("input[type=file]").first.element_handle()
    field.set_input_files(_file("refused.pdf", "%PDF-1.4"))
    page.wait_for_function(f"{STATE} === 'running'")
    field.set_input_files(_file("good.csv", TABLE))
    expect(page.get_by_text("good.csv").first).to_be_visible()
    expect(page.locator(".gdm-message.error")).to_have_count(0)
    page.locator("[data-testid=stFileUploader]:visible input[type=file]").set_input_files(
        _file("refused.pdf", "%PDF-1.4")
    )
    expect(page.locator(".gdm-message.error")).to_contain_text("refused.pdf")
    expect(page.locator("[data-testid=stFileUploader]:visible")).to_have_count(1)


def test_question_is_answered_by_keyboard(visit):
    page = visit("/your-data").ready("input[type=file]")
    rows = "\n".join(f"{i * 20},{i * i % 13}" for i in range(300))
    page.locator("input[type=file]").first.set_input_files(_file("ticks.csv", f"time,a\n{rows}"))
    fit = page.get_by_role("button", name="Fit", exact=True)
    expect(fit).to_be_disabled()
    page.get_by_label("In which unit").first.focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", name="ms", exact=True)).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_text("at 50 Hz")).to_be_visible()
    expect(fit).to_be_enabled()
