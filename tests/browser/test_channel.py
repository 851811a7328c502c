"""The live channel in a browser: how often a script runs, what a broken line does, and who comes first."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import drag

pytestmark = pytest.mark.browser

LINE = "window.gdmChannel?.socket?.readyState === 1"
# As behind a proxy that lets no WebSocket of ours through.
NO_LINE = """window.WebSocket = class extends WebSocket {
  constructor(address, ...more) {
    super(String(address).replace("/gdm/live/", "/gdm/nowhere/"), ...more);
  }
};"""
AT_REST = f"{LINE} && document.querySelector('[data-testid=stApp]')?.dataset.testScriptState !== 'running'"


def runs(page: Page) -> int:
    """How often a script has run for this visitor."""
    return int(page.evaluate("window.gdmChannel.runs"))


def asked(page: Page) -> list[str]:
    """Why the channel has asked for runs since this was called first."""
    return page.evaluate("""() => window.asked ??= (() => {
      const reasons = [];
      window.gdmChannel.socket.addEventListener("message", ({ data }) => {
        const { type, why } = JSON.parse(data);
        if (type === "run") reasons.push(why);
      });
      return reasons;
    })()""")


def said(page: Page, words: str) -> None:
    expect(page.locator(".gdm-text", has_text=words).first).to_be_attached()


def quiet(page: Page) -> int:
    """The number of runs once no more come."""
    before = -1
    while (now := runs(page)) != before:
        before = now
        page.wait_for_timeout(3_000)
    return now


# A hand at a slider as soon as there is a channel, before it has a place on the page; keeps what the page says of it then.
EARLY_HAND = """let channel;
const hand = () => {
  const slider = Object.assign(document.createElement("div"), { className: "st-key-slider-K" });
  const bar = document.createElement("div");
  bar.dataset.testid = "stSidebar";
  bar.append(slider);
  document.body.append(bar);
  const detail = { key: "K", said: "States (K) = 5", stands: false, held: false };
  window.dispatchEvent(new CustomEvent("gdm:slider", { detail }));
  setTimeout(() => {
    window.early = document.documentElement.dataset.gdmWaiting;
    bar.remove();
  });
};
Object.defineProperty(window, "gdmChannel", {
  get: () => channel,
  set: (made) => {
    channel = made;
    queueMicrotask(hand);
  },
});"""


def test_a_slider_that_is_moved_before_the_first_script_has_ended_waits_for_it(visit, app_url):
    """It wrote into a place that was not there yet, which is an error."""
    opened = visit("/playground", anew=True)
    page = opened.ready()
    page.add_init_script(EARLY_HAND)
    page.goto(app_url + "/nascar")
    opened.ready()
    page.wait_for_function(LINE)
    expect(page.locator(".gdm-pill")).to_be_hidden()
    assert page.evaluate("window.early") == "alone"


def test_a_script_runs_when_something_is_settled_and_not_while_anything_moves(visit):
    opened = visit("/nascar")
    page = opened.ready()
    page.wait_for_function(LINE)
    before = quiet(page)
    slider = page.get_by_role("slider", name="States (K)")
    drag(page, "States (K)", *np.arange(0.3, 0.7, 0.02), pause_ms=60)
    expect(page.locator(".gdm-pill")).to_contain_text("waiting for States (K) =")
    expect(page.locator(":root[data-gdm-waiting]")).to_be_attached()
    assert runs(page) == before, "while a thumb is held no script runs"
    page.mouse.up()
    expect(page.locator(".gdm-pill")).to_be_hidden()
    expect(page.locator(".gdm-facts")).to_contain_text(slider.get_attribute("aria-valuetext") or "nothing")
    settled = quiet(page)
    assert settled - before <= 3, "the wish, the end of its fit, the last of its answers"

    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.wait_for_function(AT_REST)
    playing, drawn = page.evaluate("[window.gdmChannel.runs, window.gdmChannel.number]")
    came = page.wait_for_function(
        "before => window.gdmChannel.number >= before + 2 && {runs: window.gdmChannel.runs}", arg=drawn
    )
    assert came.json_value() == {"runs": playing}, "pictures came, and no run"
    said(page, "Fitted in")


@pytest.mark.bulk
def test_formula_1_runs_as_seldom_and_not_while_a_thumb_is_held_beside_a_fit(visit):
    opened = visit("/formula1")
    page = opened.ready(".gdm-figure[data-state=fresh][data-updates]")
    page.wait_for_function(LINE)
    before = quiet(page)
    drag(page, "States (K)", *np.arange(0.3, 0.54, 0.02), pause_ms=60)
    assert runs(page) == before
    page.mouse.up()
    expect(page.locator(".gdm-pill")).to_be_hidden()
    settled = quiet(page)
    assert settled - before <= 3, "the wish, the end of its fit, the last of its answers"

    assert asked(page) == []
    controls = page.get_by_test_id("stSidebar")
    controls.get_by_role("button", name="Play").click()
    expect(controls.get_by_role("button", name="Pause")).to_be_visible()
    page.wait_for_function(AT_REST)
    drag(page, "Softness", *np.arange(0.3, 0.54, 0.02), pause_ms=60)
    expect(page.locator(".gdm-pill")).to_contain_text("waiting for Softness")
    ran, reasons = runs(page) - settled, asked(page)
    # On a busy machine the hand may hold the thumb for longer than the fit takes.
    assert ran <= 1 + len(reasons) <= 3, f"one for Play, none for the thumb; the fit asked for {reasons}"
    page.mouse.up()
    expect(page.locator(".gdm-pill")).to_be_hidden()


@pytest.mark.bulk
def test_a_line_that_breaks_comes_back_and_without_one_the_page_goes_on_by_runs(visit, app_url):
    opened = visit("/nascar?K=5&seed=3")
    page = opened.ready()
    page.wait_for_function(LINE)
    page.evaluate("window.gdmChannel.socket.close()")
    page.wait_for_function(f"window.gdmChannel.failed === 0 && {LINE}")
    page.close()

    alone = visit("/playground", anew=True)
    alone.page.add_init_script(NO_LINE)
    alone.page.goto(app_url + "/nascar?K=6&seed=4")
    expect(alone.page.get_by_text("Live pictures cannot reach this browser")).to_be_visible()
    said(alone.page, "Fitted in")
    alone.errors.clear()  # the browser says of each line that it was not let through


@pytest.mark.bulk
def test_a_click_on_another_page_outlasts_what_the_page_asks_for(visit):
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


@pytest.mark.bulk
def test_what_came_over_the_line_is_drawn_again_once_the_run_has_been_drawn(visit):
    """Streamlit's page may draw what a script said after the line has said something newer."""
    page = visit("/playground").ready()
    page.wait_for_function(LINE)
    page.wait_for_function(AT_REST)
    heard = page.evaluate(
        """async () => {
            const line = window.gdmChannel;
            const loaded = performance.getEntriesByType("resource").map(({ name }) => name);
            const address = loaded.find((name) => name.includes("gdm.channel/channel.js"));
            const { hear, default: rendered } = await import(address);
            const heard = [];
            hear("somewhere", ({ html }) => heard.push(html));
            const run = line.runs + 1;
            const say = (of, html) => line.socket.onmessage({ data: JSON.stringify(
                { v: 1, type: "parts", number: 0, run: of, parts: { somewhere: { html } } }) });
            say(run - 1, "of the run before");
            say(run, "newer");
            const parentElement = document.createElement("div");
            rendered({ data: { address: line.address, runs: run, moves: false, words: "" }, parentElement, setTriggerValue() {} });
            await new Promise((done) => setTimeout(done, 1000));
            return heard;
        }"""
    )
    assert heard == ["of the run before", "newer", "newer"]
