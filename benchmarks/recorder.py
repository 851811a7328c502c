"""A recorder of slider moves and figure changes inside the page, and functions that drag sliders."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

PATIENCE_S = 60.0  # for one fit
FIGURE = ".st-key-inferred-track .gdm-figure"
THUMB = 11.25  # width in pixels; the centre stays half of it from both ends of the slider

# `events` has an entry for each drawing of the watched figure. Drawings are compared by content: redrawing the same
# picture is not a change. A drawing counts in the frame in which it appears.
SCRIPT = """
(() => {
  const notes = { selector: "FIGURE", moved: 0, released: 0, bytes: 0, events: [] };
  window.gdmNotes = notes;
  const release = () => (notes.released = performance.now());
  window.addEventListener("pointerup", release, true);
  window.addEventListener("mouseup", release, true);
  window.addEventListener("input", () => (notes.moved = performance.now()), true);
  const Plain = window.WebSocket;
  window.WebSocket = class extends Plain {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({ data }) => (notes.bytes += data.byteLength ?? data.size ?? data.length));
    }
  };
  const hash = (given) => {
    let found = 7;
    const step = typeof given === "string" ? 1 : 5; // every fifth byte of an image is enough
    for (let i = 0; i < given.length; i += step) found = (Math.imul(found, 31) + (given[i].charCodeAt?.() ?? given[i])) | 0;
    return found;
  };
  const look = (figure) => {
    const canvas = figure.querySelector(".gdm-states, .gdm-dots"); // covers what Plotly has drawn
    if (canvas) return hash(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data);
    const { data, layout } = figure.querySelector(".gdm-plot");
    return hash(JSON.stringify([data, layout.shapes ?? []], (_, v) => (ArrayBuffer.isView(v) ? Array.from(v) : v)));
  };
  let frame = 0;
  const record = () => {
    frame = 0;
    const figure = document.querySelector(notes.selector);
    if (!figure?.querySelector(".gdm-plot")?.layout) return;
    const at = performance.now();
    notes.events.push({ at, after: at - notes.moved, state: figure.dataset.state, look: look(figure) });
  };
  window.gdmWatch = (selector) => {
    Object.assign(notes, { selector, events: [] });
    record();
  };
  new MutationObserver((changes) => {
    if (changes.some(({ target }) => target.matches?.(notes.selector))) frame ||= requestAnimationFrame(record);
  }).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-updates"] });
})();
""".replace("FIGURE", FIGURE)

# The finished fit is drawn, and differs from the picture before the release.
FINISHED = """
(look) => {
  const { events, released } = window.gdmNotes;
  const later = events.filter((event) => event.at > released);
  return later.some((event) => event.look !== look) && later.at(-1).state === "fresh";
}
"""


@dataclass(frozen=True)
class Move:
    """Seconds from the release of a slider to the next picture and to the finished fit, and kilobytes received."""

    changed: float
    finished: float
    kilobytes: float


def wait_for_rest(page: Page, selector: str = f"{FIGURE}[data-state=fresh][data-updates]") -> None:
    """Wait for a finished picture and one second without a script run."""
    page.wait_for_selector(selector, state="attached")
    quiet = time.monotonic()
    while time.monotonic() - quiet < 1.0:
        if page.evaluate("document.querySelector('[data-testid=stApp]')?.dataset.testScriptState") == "running":
            quiet = time.monotonic()
        page.wait_for_timeout(50)


class Thumb:
    """The thumb of a slider on the screen."""

    def __init__(self, page: Page, slider: str) -> None:
        self._page = page
        found = page.get_by_role("slider", name=slider)
        self._low, self._high, self.value = (float(v) for v in found.evaluate("e => [e.min, e.max, e.value]"))
        box = found.bounding_box()
        if box is None:
            raise RuntimeError(f"The slider {slider!r} is not on the screen.")
        self._left, self._width, self._y = box["x"] + THUMB / 2, box["width"] - THUMB, box["y"] + box["height"] / 2

    def go(self, value: float, steps: int = 1) -> None:
        """Move the mouse to the position of `value`."""
        share = (value - self._low) / (self._high - self._low)
        self._page.mouse.move(self._left + self._width * share, self._y, steps=steps)

    def press(self) -> None:
        """Press the mouse on the thumb."""
        self.go(self.value)
        self._page.mouse.down()


def drag(page: Page, slider: str, value: float) -> None:
    """Drag a slider to `value` and release it."""
    thumb = Thumb(page, slider)
    thumb.press()
    thumb.go(value, steps=3)
    page.mouse.up()


def notes(page: Page) -> dict[str, Any]:
    """Return the page's recording."""
    found: dict[str, Any] = page.evaluate("window.gdmNotes")
    return found


def move(page: Page, slider: str, value: float) -> Move:
    """Drag a slider and wait for the finished fit; timeouts count fully."""
    page.evaluate("selector => window.gdmWatch(selector)", FIGURE)
    before = notes(page)
    drag(page, slider, value)
    look = before["events"][-1]["look"]
    try:
        page.wait_for_function(FINISHED, arg=look, polling=50, timeout=1000 * PATIENCE_S)
    except PlaywrightTimeout:
        return Move(PATIENCE_S, PATIENCE_S, 0.0)
    seen = notes(page)
    later = [event for event in seen["events"] if event["at"] > seen["released"]]
    last = later[-1]["look"]
    changed = next(event["at"] for event in later if event["look"] != look)
    finished = next(event["at"] for event in later if event["state"] == "fresh" and event["look"] == last)
    kilobytes = (seen["bytes"] - before["bytes"]) / 1000
    return Move((changed - seen["released"]) / 1000, (finished - seen["released"]) / 1000, kilobytes)
