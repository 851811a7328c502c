"""What a visitor sees while the thumb of a slider moves: pictures a second, and how long after the thumb each comes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from benchmarks.browser_recorder import Thumb
from tests.support.browser_server import Visitors, load_average

PATIENCE_S = 5.0  # for one picture while the thumb rests on a value
TRIANGLE = ".st-key-triangle figure"
STRIPS = ".st-key-strips figure"  # drawn in the same frame as the map or the poses
SLIDERS = {"softness": "Softness (τ)", "K": "States (K)"}
NEAR_S = 6.0  # that a hand rests on the slider before it takes the thumb: what the states of a race take two workers
EVERY_S = 0.016  # between two movements of a hand that drags on

# A picture is told apart by what it was drawn from, by Plotly and over it: the same drawn again is no new one. It counts
# in the frame in which it comes to the screen, and the one that the next overtakes before does not.
WATCH = """
(selector) => {
  const notes = { moved: 0, pictures: [] };
  window.gdmHeld = notes;
  const hash = (given) => {
    let found = 7;
    const step = typeof given === "string" ? 1 : 5; // of the bytes of a picture, every fifth tells it apart
    for (let i = 0; i < given.length; i += step) found = (Math.imul(found, 31) + (given[i].charCodeAt?.() ?? given[i])) | 0;
    return found;
  };
  const look = (figure) => {
    const { data, layout } = figure.querySelector(".gdm-plot");
    const canvas = figure.querySelector(".gdm-states"); // above all that Plotly has drawn
    if (canvas) return hash(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data);
    return hash(JSON.stringify([data, layout.shapes ?? []], (_, v) => (ArrayBuffer.isView(v) ? Array.from(v) : v)));
  };
  const figure = () => document.querySelector(selector);
  notes.last = look(figure());
  window.addEventListener("input", () => (notes.moved = performance.now()), true);
  let frame = 0;
  const seen = () => {
    frame = 0;
    const at = performance.now(), now = look(figure());
    if (now !== notes.last) notes.pictures.push({ at, after: at - notes.moved });
    notes.last = now;
  };
  new MutationObserver((changes) => {
    if (changes.some(({ target }) => target === figure())) frame ||= requestAnimationFrame(seen);
  }).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-updates"] });
}
"""


@dataclass(frozen=True)
class Held:
    """One slider held and moved.

    after_ms   median milliseconds from the thumb's arrival at a value to the picture of it
    per_s      different pictures a second while the thumb moves on and on
    unseen     values that brought no new picture within PATIENCE_S
    load       load average at the end
    """

    after_ms: float
    per_s: float
    unseen: int
    values: int
    load: float


def hold(page: Page, slider: str, figure: str, values: Sequence[float], seconds: float) -> Held:
    """Take the thumb through `values`, waiting at each for its picture, then to and fro for some seconds; let it go there."""
    page.evaluate(WATCH, figure)
    thumb = Thumb(page, slider)
    thumb.take()
    found, unseen = [], 0
    for value in values:
        page.evaluate("window.gdmHeld.pictures = []")
        thumb.go(value)
        try:
            page.wait_for_function("window.gdmHeld.pictures.length > 0", polling=5, timeout=1000 * PATIENCE_S)
            found.append(float(page.evaluate("window.gdmHeld.pictures[0].after")))
        except PlaywrightTimeout:
            unseen += 1
    page.evaluate("window.gdmHeld.pictures = []")
    began = time.monotonic()
    least, most = min(values), max(values)
    while (passed := time.monotonic() - began) < seconds:
        share = abs(passed % 2 - 1)  # there and back in two seconds: slower, K has no ten values a second to show
        thumb.go(least + (most - least) * share)
        page.wait_for_timeout(1000 * EVERY_S)
    pictures = int(page.evaluate("window.gdmHeld.pictures.length"))
    page.mouse.up()
    return Held(
        statistics.median(found) if found else float("inf"), pictures / passed, unseen, len(values), load_average()
    )


def elsewhere(visitors: Visitors, address: str, slider: str, values: Sequence[float], seconds: float) -> Held:
    """A slider of a lab whose first result ships with the app, under a hand that comes near before it takes it."""
    page = visitors.page()
    page.goto(f"{visitors.server.url}/{address}", wait_until="commit")
    page.wait_for_selector(f"{STRIPS}[data-state=fresh][data-updates]", state="attached")
    page.wait_for_timeout(2_000)
    name = SLIDERS[slider]
    page.get_by_role("slider", name=name).hover()
    page.wait_for_timeout(1000 * NEAR_S)
    try:
        return hold(page, name, STRIPS, values, seconds)
    finally:
        visitors.leave()


def playground(visitors: Visitors, values: Sequence[float], seconds: float) -> Held:
    """Softness on the Playground."""
    page = visitors.page()
    page.goto(f"{visitors.server.url}/playground", wait_until="commit")
    page.wait_for_selector(f"{TRIANGLE}[data-updates]", state="attached")
    page.wait_for_timeout(2_000)
    try:
        return hold(page, "Softness (τ)", TRIANGLE, values, seconds)
    finally:
        visitors.leave()
