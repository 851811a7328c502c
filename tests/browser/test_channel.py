"""The live channel in a browser: broken connections and navigation."""

import random
import re

import pytest
from playwright.sync_api import expect

from tests.browser.test_nascar import rested
from tests.support.browser_server import running_server

pytestmark = pytest.mark.bulk

LINE = "window.gdmChannel?.socket?.readyState === 1"
# As behind a proxy that blocks this WebSocket.
NO_LINE = """window.WebSocket = class extends WebSocket {
  constructor(address, ...more) {
    super(String(address).replace("/gdm/live/", "/gdm/nowhere/"), ...more);
  }
};"""
AT_REST = f"{LINE} && document.querySelector('[data-testid=stApp]')?.dataset.testScriptState !== 'running'"

BRING = """() => {
  const { data } = document.querySelector(".st-key-inferred-track figure").parentElement.gdmView.given;
  const parts = { "inferred-track": { ...data, figure: { ...data.figure, alt: "from the channel" } } };
  window.gdmChannel.socket.onmessage({ data: JSON.stringify({ v: 1, type: "parts", number: 999, run: 0, parts }) });
}"""


def test_broken_channel_reconnects_or_falls_back_to_reruns(visit, app_url):
    opened = visit("/nascar?K=5&seed=3")
    page = opened.ready()
    page.wait_for_function(LINE)
    page.evaluate("window.gdmChannel.socket.close()")
    page.wait_for_function(f"window.gdmChannel.failed === 0 && {LINE}")
    page.close()

    alone = visit("/playground", fresh=True)
    alone.page.add_init_script(NO_LINE)
    alone.page.goto(app_url + "/nascar?K=6&seed=4")
    rested(alone.page)
    alone.errors.clear()  # the browser logs each blocked connection


def test_new_theme_keeps_what_the_channel_brought(visit):
    opened = visit("/nascar")
    page = opened.ready(".st-key-inferred-track .gdm-figure[data-updates]")
    page.wait_for_function(LINE)
    page.evaluate(BRING)
    for _ in opened.themes():
        page.wait_for_timeout(500)  # Streamlit draws components again
        expect(page.locator(".st-key-inferred-track figure")).to_have_attribute("aria-label", "from the channel")


def test_click_on_another_page_survives_a_requested_run(visit):
    opened = visit("/nascar")
    page = opened.ready()
    page.wait_for_function(LINE)
    ask = "window.gdmChannel.socket.onmessage({data: JSON.stringify({v: 1, type: 'run', number: 0, why: 'fit'})})"
    page.get_by_role("link", name="Playground").first.click()
    page.evaluate(ask)
    expect(page).to_have_url(re.compile("playground"))
    page.wait_for_function(AT_REST)
    page.evaluate(ask)
    page.go_back()
    page.evaluate(ask)
    expect(page).to_have_url(re.compile("nascar"))
    expect(page.locator("h1")).to_have_text("NASCAR lab")


def test_no_click_or_key_is_lost_while_the_page_updates(regular, tmp_path):
    hand = random.Random(0)
    with running_server(tmp_path, "tests/support/counting_app.py") as server:
        page = regular.new_page()
        page.goto(server.url)
        page.wait_for_function(LINE)
        runs = "Number(document.querySelector('[data-runs]').dataset.runs)"
        page.wait_for_function(f"{runs} > 3")  # the channel asks for runs by itself
        button = page.get_by_role("button", name="Count", exact=True)
        for act in (button.click, lambda: page.keyboard.press("n")) * 25:
            act()
            page.wait_for_timeout(hand.choice((250, 400, 750, 1000)))  # the channel asks after 700 ms without input
        expect(page.get_by_text("25 clicks and 25 keys")).to_be_visible()
        page.close()
