"""Narrow windows: a phone keeps the picture in view while its controls are open, a tablet shows every page in the menu."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from pages.ui import navigation

pytestmark = pytest.mark.browser


def test_on_a_phone_the_picture_stays_in_view_while_a_slider_moves(visit):
    opened = visit("/playground", size="phone")
    page = opened.ready(".st-key-triangle figure[data-updates]")
    button = page.get_by_test_id("stExpandSidebarButton")
    said = button.evaluate("node => getComputedStyle(node, '::after').content")
    assert "controls" in said, "two arrows alone say nothing"
    button.tap()
    slider = page.get_by_role("slider", name="For state 1")
    expect(slider).to_be_in_viewport()
    figure = page.locator(".st-key-triangle .gdm-plot")
    expect(figure).to_be_in_viewport(ratio=0.9)
    page.wait_for_function(
        "() => { const box = document.querySelector('[data-testid=stSidebar]').getBoundingClientRect();"
        " return box.top > 0.4 * innerHeight && box.width > 0.9 * innerWidth; }",
    )
    over = "document.querySelector('[data-testid=stSidebar]').getBoundingClientRect().top"
    assert figure.evaluate(f"node => node.getBoundingClientRect().bottom - {over}") <= 0, (
        "nothing lies over the picture"
    )
    drawn = page.locator(".st-key-triangle figure").get_attribute("data-updates")
    slider.press("ArrowRight")
    page.wait_for_function(
        "before => document.querySelector('.st-key-triangle figure').dataset.updates !== before",
        arg=drawn,
    )
    expect(figure).to_be_in_viewport(ratio=0.9)
    page.get_by_test_id("stSidebarCollapseButton").get_by_role("button").tap()
    expect(page.get_by_role("heading", name="Playground")).to_be_in_viewport()
    assert opened.overflow() <= 0


@pytest.mark.bulk
def test_a_tablet_shows_every_page_in_the_menu_and_nothing_blinks(visit):
    opened = visit("/playground")
    page = opened.ready()
    page.set_viewport_size({"width": 1024, "height": 768})
    links = page.get_by_test_id("stTopNavLink")
    for entry in navigation.available():
        expect(links.get_by_text(entry.title, exact=True)).to_be_in_viewport()
    # What waits for a running script is faded by Streamlit, which would make the header blink at every slider.
    for part in (".gdm-head", ".gdm-quiet", ".gdm-foot"):
        faded = page.locator(part).first.evaluate(
            """(node) => {
              const box = node.closest("[data-testid=stElementContainer]");
              box.dataset.stale = "true";
              box.style.opacity = 0.3;
              return getComputedStyle(box).opacity;
            }"""
        )
        assert faded == "1", part
