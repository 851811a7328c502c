"""The Formula 1 page in a real browser: the cascade, links, and a whole race drawn in time."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

MAP = ".st-key-map .gdm-figure[data-updates]"
FIND = """() => {
  const plot = document.querySelector(".st-key-map .gdm-plot");
  const { xaxis, yaxis } = plot._fullLayout;
  const dots = plot._fullData.find((t) => t.mode === "markers");
  const box = plot.getBoundingClientRect();
  return [box.left + xaxis._offset + xaxis.l2p(dots.x[3]), box.top + yaxis._offset + yaxis.l2p(dots.y[3])];
}"""


# How large the first picture of a video is, from its bytes.
FIRST_FRAME = """async (bytes) => {
  const video = document.createElement("video");
  video.src = URL.createObjectURL(new Blob([Uint8Array.from(atob(bytes), (one) => one.charCodeAt(0))]));
  await new Promise((done, failed) => Object.assign(video, { onloadeddata: done, onerror: () => failed(video.error) }));
  return [video.videoWidth, video.videoHeight];
}"""


def _point_until(page: Page, point: Callable[[], None], selector: str) -> None:
    """Point again until it is noticed: on a busy machine the page may still move under the pointer."""
    for _ in range(100):
        point()
        page.wait_for_timeout(500)
        if page.locator(selector).count():
            return
        page.mouse.move(5, 5)
    pytest.fail(f"{selector} did not come")


def test_a_whole_race_is_drawn_and_pointing_and_clicking_tell_where_it_is(visit):
    """A hover tells lap, corner, speed and states; a strip points at its place; a click zooms to the corner."""
    opened = visit("/formula1?view=Corners")
    page = opened.ready(MAP)
    points = "(n, t) => n + (t.mode === 'markers' ? t._length : 0), 0"
    page.wait_for_function(f"document.querySelector('.st-key-map .gdm-plot')._fullData.reduce({points}) > 20_000")
    page.locator(".gdm-score").first.wait_for()

    def point() -> None:
        x, y = page.evaluate(FIND)
        page.mouse.move(x - 3, y - 3)
        page.mouse.move(x, y, steps=3)

    _point_until(page, point, ".st-key-map .hovertext")
    told = page.locator(".st-key-map .hovertext").first.text_content() or ""
    for word in ("lap ", "after corner ", "km/h", "S"):
        assert word in told, told

    page.locator(".st-key-strips").scroll_into_view_if_needed()

    def point_at_a_strip() -> None:
        box = page.locator(".st-key-strips .gdm-plot").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 30)
        page.mouse.move(box["x"] + box["width"] * 0.52, box["y"] + 32)

    _point_until(page, point_at_a_strip, ".st-key-map .gdm-cursor-path:not([hidden])")

    def click() -> None:
        point()
        page.mouse.click(*page.evaluate(FIND))

    page.locator(".st-key-map").scroll_into_view_if_needed()
    _point_until(page, click, ".st-key-telemetry .gdm-figure[data-updates]")
    page.wait_for_function("/zoom=T\\d+/.test(location.search)")
    expect(page.get_by_role("tab", name="Telemetry")).to_have_attribute("aria-selected", "true")


@pytest.mark.bulk
def test_the_other_driver_and_the_average_lap_are_a_click_away_and_so_is_what_is_written_on_the_map(visit):
    opened = visit("/formula1", scheme="dark")
    page = opened.ready(MAP)
    page.get_by_role("radio", name="Average lap").click()
    page.wait_for_function(
        "!document.querySelector('.st-key-map figure').getAttribute('aria-label').includes(' 21616 samples')",
    )
    page.get_by_role("radio", name="RGL, applied").click()
    page.wait_for_function(
        "[...document.querySelectorAll('.st-key-map .annotation-text')].some((n) => n.textContent.startsWith('RGL'))",
    )
    page.wait_for_function("location.search.includes('who=') && location.search.includes('drawn=')")
    page.get_by_role("button", name="Labels").click()
    main = page.get_by_role("slider", name="Main states: in more than (% of samples)")
    main.press("ArrowRight")
    page.wait_for_function("location.search.includes('badge-presence=25')")
    # A popover lies outside of the app and knows nothing of its theme: the thumb has the accent of all others even so.
    colours = [
        slider.evaluate("n => getComputedStyle(n.closest('.gdm-slider').querySelector('output')).color")
        for slider in (main, page.get_by_role("slider", name="States (K)"))
    ]
    assert colours == ["rgb(70, 160, 181)"] * 2


MEASURE = """() => {
  const plot = document.querySelector(".st-key-map .gdm-plot");
  const { xaxis, yaxis } = plot._fullLayout;
  const origin = plot.getBoundingClientRect();
  const half = 6.5;  // of the track as it is drawn
  const line = [...plot._fullData[0].x].map((x, i) => [
    origin.left + xaxis._offset + xaxis.c2p(x), origin.top + yaxis._offset + yaxis.c2p(plot._fullData[0].y[i])]);
  const boxes = [];
  const corners = [];
  plot.layout.annotations.forEach(({ name }, i) => {
    const group = plot.querySelector(`.annotation[data-index="${i}"]`);
    const shown = group && group.style.display !== "none";
    const words = shown && group.querySelector(name === "badge" ? ".annotation-text-g rect.bg" : ".annotation-text");
    if (words) (name === "badge" ? boxes : corners).push(words.getBoundingClientRect());
  });
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const onTrack = (box) => line.some(([x, y]) =>
    Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom)) < half);
  const pairs = (one, other) => one.flatMap((a, i) => other.filter((b, j) => (one !== other || j > i) && meet(a, b)));
  return {
    badges: boxes.length, corners: corners.length - 1,  // one is the driver's name
    covered: pairs(boxes, boxes).length + pairs(boxes, corners).length + pairs(corners, corners).length,
    onTrack: boxes.filter(onTrack).length + corners.slice(0, -1).filter(onTrack).length,
  };
}"""


@pytest.mark.bulk
def test_nothing_on_the_map_covers_anything_else_at_any_width_or_zoomed(visit):
    opened = visit("/formula1")
    page = opened.ready(MAP)
    seen = {}
    # At 1024 pixels the map is 394 wide, beside the time that is won: too narrow for badges that cover nothing. Widths follow each
    # other so that none is narrower than one before of the same layout: then Plotly keeps the ranges that it has widened.
    for width, badges in ((1440, 16), (1180, 16), (390, 0), (1024, 0)):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(
            """(badges) => {
              const plot = document.querySelector(".st-key-map .gdm-plot");
              const drawn = plot?._fullLayout;
              return drawn && drawn.width === plot.clientWidth
                && plot.layout.annotations.filter(({ name }) => name === "badge").length === badges
                && plot.querySelectorAll(".annotation").length === plot.layout.annotations.length;
            }""",
            arg=badges,
        )
        found = page.evaluate(MEASURE)
        seen[width] = page.evaluate("document.querySelector('.st-key-map .gdm-plot').clientWidth")
        assert found == {"badges": badges, "corners": 16, "covered": 0, "onTrack": 0}, width
        if badges:  # T9 to T13, twice as large
            page.evaluate("""async () => {
              const plot = document.querySelector(".st-key-map .gdm-plot");
              const { xaxis, yaxis } = plot.layout;
              window.wholeMap = { "xaxis.range": [...xaxis.range], "yaxis.range": [...yaxis.range] };
              const [middle, up] = [(a) => (a.range[0] + a.range[1]) / 2, (a) => (a.range[1] - a.range[0]) / 4];
              await window.Plotly.relayout(plot, {
                "xaxis.range": [middle(xaxis) - up(xaxis), middle(xaxis) + up(xaxis)],
                "yaxis.range": [middle(yaxis) - 2 * up(yaxis), middle(yaxis)],
              });
            }""")
            zoomed = page.evaluate(MEASURE)
            assert (zoomed["covered"], zoomed["onTrack"]) == (0, 0), width
            assert zoomed["badges"] > 2
            page.evaluate("window.Plotly.relayout(document.querySelector('.st-key-map .gdm-plot'), window.wholeMap)")
    assert len(set(seen.values())) == 4, seen


REACHES = "([canvas, least]) => Number(canvas.dataset.seconds) >= least"
COUNT_FRAMES = """() => {
  window.framesAsked = 0;
  const ask = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (then) => {
    if (/advance/.test(String(then))) window.framesAsked += 1;
    return ask(then);
  };
}"""


OPAQUE = """(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.filter((value, i) => i % 4 === 3 && value === 255).length / (data.length / 4);
}"""


@pytest.mark.bulk
def test_a_lap_is_played_by_keyboard_and_the_map_follows(visit):
    opened = visit("/formula1?view=Telemetry")
    page = opened.ready(MAP)
    canvas = page.locator('.st-key-lap-player canvas[data-ready="yes"]')
    canvas.wait_for()
    page.locator(".gdm-score").first.wait_for()
    seconds = lambda: float(canvas.evaluate("(canvas) => canvas.dataset.seconds"))  # noqa: E731
    canvas.scroll_into_view_if_needed()
    assert seconds() == 0
    canvas.press("Space")
    page.wait_for_function(REACHES, arg=[canvas.element_handle(), 0.5], polling=50)
    page.locator(".st-key-lap-player").get_by_role("button", name="Pause").click()
    stood = seconds()
    canvas.press("PageDown")
    assert seconds() == pytest.approx(stood + 5, abs=0.01)
    # The cursor of the page goes with the first car.
    for figure in ("map", "telemetry", "compared-states"):
        page.locator(f".st-key-{figure} .gdm-cursor:not([hidden])").wait_for(state="attached")
    canvas.press("End")
    last = page.locator(".st-key-lap-player input").get_attribute("max")
    assert last is not None
    assert seconds() == pytest.approx(float(last), abs=0.01)
    # Saved, it is a video that holds the words below the picture too: on an opaque ground, of what is played until it stands.
    page.locator(".st-key-lap-player").get_by_label("Speed").select_option("4")
    with page.expect_download() as saved:
        page.locator(".st-key-lap-player").get_by_role("button", name="Save as video").click()
        page.wait_for_function(REACHES, arg=[canvas.element_handle(), 2.0], polling=50)
        assert canvas.evaluate(OPAQUE) == 1, "a video has no ground of the page below it"
        page.locator(".st-key-lap-player").get_by_role("button", name="Pause").click()
    assert saved.value.suggested_filename.startswith("formula1-shanghai-approximate-layout-simulated-race-flt-lap-")
    content = Path(saved.value.path()).read_bytes()
    assert content[:4] == b"\x1a\x45\xdf\xa3", "WebM begins so"
    width, height = page.evaluate(FIRST_FRAME, base64.b64encode(content).decode())
    assert min(width, height) > 200, "a browser plays it"
    assert canvas.evaluate(OPAQUE) < 1
    # Who asks for less motion gets a still picture a second: no frame is asked for.
    page.emulate_media(reduced_motion="reduce")
    page.evaluate(COUNT_FRAMES)
    canvas.press("Home")
    canvas.press("Space")
    page.wait_for_function(REACHES, arg=[canvas.element_handle(), 0.9], polling=50)
    assert page.evaluate("window.framesAsked") == 0
