"""Every figure of the export panel leaves as SVG and PNG, and the link in a script opens the view again."""

from __future__ import annotations

import re
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.support.patience import patience_s

pytestmark = [pytest.mark.browser, pytest.mark.bulk]

PREVIEW = ".st-key-nascar-export-preview .gdm-figure"
VIEW = "/nascar?trial=New+trial&view=Export+%26+reproduce"


def choose(page: Page, name: str) -> None:
    """Choose a figure. The list closes when another one becomes ready, and is opened again."""
    option = page.get_by_role("option", name=name, exact=True)
    end = time.monotonic() + patience_s()
    while True:
        if not page.get_by_role("option").count():
            page.get_by_role("combobox", name="Figure").click()
        try:
            option.click(timeout=2_000)
        except PlaywrightTimeout:
            assert time.monotonic() < end, f"{name} was not offered"
        else:
            return


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_every_figure_leaves_as_svg_and_png_and_the_report_draws_them_by_itself(visit, size, tmp_path):
    opened = visit(VIEW, size=size)
    page = opened.ready(f"{PREVIEW}[data-updates]")
    page.get_by_role("button", name="States (CSV)").wait_for()
    for name in ("Shares of each state", "Use of each state", "Stays", "Which state wins where", "Prediction"):
        before = page.locator(PREVIEW).get_attribute("aria-label")
        choose(page, name)
        page.wait_for_function(  # also while it is worked out, its place is there
            "([place, before]) => ![before, 'This figure is being worked out.']"
            ".includes(document.querySelector(place).getAttribute('aria-label').trim())",
            arg=[PREVIEW, before],
        )
        page = opened.ready(PREVIEW)
        stem = name.lower().replace(" ", "-")
        content = {}
        for kind in ("SVG", "PNG"):
            with page.expect_download() as waiting:
                page.get_by_role("button", name=kind, exact=True).click()
            assert waiting.value.suggested_filename == f"nascar-{stem}.{kind.lower()}"
            content[kind] = waiting.value.path().read_bytes()
        assert content["PNG"].startswith(b"\x89PNG")
        width = re.search(rb'<svg[^>]* width="(\d+)"', content["SVG"])
        assert width is not None
        assert int(width[1]) >= 900, "as wide as a page, also from a phone"
    if size == "desktop":
        with page.expect_download() as waiting:
            page.get_by_role("button", name="Report (HTML)").click()
        waiting.value.save_as(tmp_path / "report.html")
        report = page.context.new_page()
        report.goto((tmp_path / "report.html").as_uri())
        shown = report.locator("figure").count()
        report.wait_for_selector(f"#figure-{shown - 1} .main-svg")
        assert report.locator("figure > div .main-svg").count() >= shown > 5
        report.close()
    assert opened.overflow() <= 0


def test_the_link_in_the_script_opens_the_view_again(visit):
    opened = visit(VIEW)
    page = opened.ready(f"{PREVIEW}[data-updates]")
    button = page.get_by_role("button", name="Python script")
    with page.expect_download() as waiting:
        button.click()
    link = waiting.value.path().read_text().split('"""')[1].splitlines()[1]
    assert link.partition("?")[0] == page.url.partition("?")[0]
    assert parse_qs(urlsplit(link).query) == parse_qs(urlsplit(page.url).query)
    assert {"trial": ["New trial"], "view": ["Export & reproduce"]}.items() <= parse_qs(urlsplit(link).query).items()
