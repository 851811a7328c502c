"""Every page as axe sees it, the checker of accessibility, in both themes: nothing that it calls serious or critical."""

from __future__ import annotations

from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

# The package brings the script; its own way of running it knows no impact.
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
FOUND = """
async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
  .filter(({ impact }) => impact === "serious" || impact === "critical")
  .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 200)} (${node.failureSummary})`))
"""
# Colours on their way from one to another are no finding, nor is what Streamlit fades while a run of the page is under way.
STILL = """
*, *::before, *::after { transition: none !important; animation: none !important; }
[data-stale=true] { opacity: 1 !important; }
"""
PAGES = {
    "home": ("/", "desktop"),
    "nascar": ("/nascar?stay=Set+it", "desktop"),
    "nascar on a phone, files": ("/nascar?view=Export+%26+reproduce", "phone"),
    "formula1": ("/formula1", "desktop"),
    "behaviour": ("/behaviour", "desktop"),
    "behaviour, Teach": ("/behaviour?view=Teach&trial=Fitted%3A+simulated+mice+1", "desktop"),
    "your_data": ("/your-data", "desktop"),
    "your_data, its example": ("/your-data?example=open", "desktop"),
    "compare": ("/compare?settings=2&seeds=1", "desktop"),
    "playground": ("/playground?about=Export+%26+reproduce", "desktop"),
    "paper": ("/paper", "desktop"),
}


def _at_rest(page: Page) -> None:
    """Nothing runs, and nothing waits to be drawn."""
    page.wait_for_selector(".gdm-foot")
    page.wait_for_function(
        """() => document.querySelector("[data-testid=stApp]")?.dataset.testScriptState !== "running"
          && !document.querySelector("[data-stale=true], .gdm-figure:not([data-updates])")
          && ![...document.querySelectorAll("[data-testid=stVegaLiteChart]")].some((n) => !n.querySelector("svg, canvas"))""",
    )


@pytest.mark.parametrize("name", list(PAGES))
def test_axe_finds_nothing_serious(visit, name):
    path, size = PAGES[name]
    opened = visit(path, size=size)
    page = opened.page
    _at_rest(page)
    page.add_style_tag(content=STILL)
    page.evaluate(AXE)
    found = {}
    for scheme in opened.themes():
        _at_rest(page)
        found[scheme] = page.evaluate(FOUND)
    assert found == {"light": [], "dark": []}
    assert opened.errors == []
