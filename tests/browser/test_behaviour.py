"""Behaviour and Your data in a browser: poses and strips share a cursor, files are uploaded and exported."""

import pytest
from playwright.sync_api import Page, expect

PLAYER = ".st-key-player canvas[data-ready]"
CURSOR = ".gdm-cursor-time:not([hidden])"

# Zooms the strips to a range. SEEN is the time of the cursor in them, -1 where it is out of sight.
WINDOW = """range => window.Plotly.relayout(document.querySelector(".st-key-strips .gdm-plot"), { "xaxis.range": range })
  .then(() => range)"""
SEEN = """() => {
  const plot = document.querySelector(".st-key-strips .gdm-plot");
  const line = document.querySelector(".st-key-strips .gdm-cursor:not([hidden])");
  const { xaxis } = plot._fullLayout;
  return line ? xaxis.p2l(parseFloat(line.style.left) - xaxis._offset) : -1;
}"""


def _frame(page: Page) -> float:
    """Return the frame that the player shows; it lives in a shadow tree."""
    return float(page.locator(PLAYER).evaluate("canvas => canvas.dataset.frame"))


def test_player_and_strips_share_the_cursor(revisit):
    opened = revisit("/behaviour")
    page = opened.ready(PLAYER)
    page.wait_for_selector(".st-key-strips .gdm-figure[data-updates]")
    before = _frame(page)
    page.locator(PLAYER).focus()
    page.keyboard.press("ArrowRight")
    assert _frame(page) == before + 1
    page.keyboard.press("PageUp")
    assert _frame(page) == before - 29
    page.evaluate("window.dispatchEvent(new CustomEvent('gdm:cursor', { detail: { group: 'page', time: 20 } }))")
    assert _frame(page) == pytest.approx(600, abs=1)
    bars = page.locator(".st-key-moment canvas")
    assert int(bars.get_attribute("data-sample")) == pytest.approx(600, abs=1), "shares follow the poses"
    page.locator(CURSOR).first.wait_for(state="attached")

    # A jump lands on the start of a bout.
    button = page.locator(".jumps button").first
    button.click()
    landed = _frame(page)
    assert landed != pytest.approx(600, abs=1)
    button.click()
    assert _frame(page) != landed
    place = page.evaluate(
        """() => {
          const plot = document.querySelector('.st-key-strips .gdm-plot');
          const line = document.querySelector('.st-key-strips .gdm-cursor');
          const { xaxis } = plot._fullLayout;
          return xaxis.p2l(parseFloat(line.style.left) - xaxis._offset);
        }"""
    )
    assert place == pytest.approx(_frame(page) / 30, abs=0.3)

    # When zoomed in, a jump moves the visible range, and so does a row of the table of bouts.
    row = "window.dispatchEvent(new CustomEvent('gdm:cursor', { detail: { group: 'page', time: 30, follow: true } }))"
    for move in (button.click, lambda: page.evaluate(row)):
        page.evaluate(WINDOW, [0, 3])
        move()
        page.wait_for_function(f"() => ({SEEN})() > 3")
        assert page.evaluate(SEEN) == pytest.approx(_frame(page) / 30, abs=0.05)
    assert _frame(page) == pytest.approx(900)

    before = _frame(page)
    page.locator(".st-key-player [data-role=play]").click()
    player = page.locator(PLAYER).element_handle()
    page.wait_for_function("([canvas, least]) => Number(canvas.dataset.frame) >= least", arg=[player, before + 10])


# ---- uploads -------------------------------------------------------------------------------------------------------

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
