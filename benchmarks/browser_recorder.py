"""Notes inside the page when a control was released and when each picture changed, on the browser's own clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

PATIENCE_S = 60.0  # for one fit
FIGURE = ".st-key-inferred-track .gdm-figure"
THUMB = 11.25  # pixels wide: its middle stays half of that away from both ends of the slider

# What is drawn is told apart by the colours and points of its strokes, Plotly's or the canvas over them while a thumb is
# held: the same picture drawn again is no change.
SCRIPT = """
(() => {
  const notes = { released: 0, sent: 0, received: 0, bytes: 0, events: [] };
  window.gdmNotes = notes;
  const stamp = () => { notes.released = performance.now(); notes.sent = 0; };
  window.addEventListener("pointerup", stamp, true);
  window.addEventListener("mouseup", stamp, true);
  const Plain = window.WebSocket;
  window.WebSocket = class extends Plain {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({ data }) => {
        notes.received += 1;
        notes.bytes += data.byteLength ?? data.size ?? data.length;
      });
    }
    send(data) {
      if (!notes.sent) notes.sent = performance.now();
      return super.send(data);
    }
  };
  const look = (figure) => {
    const over = figure.querySelector(".gdm-states")?.toDataURL();
    const shapes = figure.querySelector(".gdm-plot")?.layout?.shapes ?? [];
    let hash = 7;
    for (const parts of over ? [[over]] : shapes.map(({ line, path }) => [line.color, path])) {
      for (const part of parts) {
        for (let i = 0; i < part.length; i++) hash = (Math.imul(hash, 31) + part.charCodeAt(i)) | 0;
      }
    }
    return hash;
  };
  const start = () => new MutationObserver((changes) => {
    for (const { target } of changes) {
      if (!target.matches?.("FIGURE")) continue;
      notes.events.push({
        at: performance.now(), state: target.dataset.state, look: look(target), ms: Number(target.dataset.updateMs),
      });
    }
  }).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-updates"] });
  start();
})();
""".replace("FIGURE", FIGURE)

# The finished fit has been drawn, and looks different from what was there when the slider was taken.
STANDS = """
(look) => {
  const { events, released } = window.gdmNotes;
  const later = events.filter((event) => event.at > released);
  return later.some((event) => event.look !== look) && later.at(-1).state === "fresh";
}
"""


@dataclass(frozen=True)
class Moved:
    """One release of a slider; milliseconds since then.

    sent       the browser has told the server
    changed    the picture is another one
    stands     the picture is that of the finished fit
    finished   whether that came to pass; else `stands` is how long it was waited for, and `changed` too where nothing moved
    draws      what the browser took for each drawing in between
    bytes      what came from the server until the finished fit stood
    """

    sent: float
    changed: float
    stands: float
    draws: tuple[float, ...]
    bytes: int
    finished: bool


def wait_for_rest(page: Page, selector: str = f"{FIGURE}[data-state=fresh][data-updates]") -> None:
    """Until the picture is that of a finished fit and the page's script has come to an end for a while."""
    page.wait_for_selector(selector, state="attached")
    quiet = time.monotonic()
    while time.monotonic() - quiet < 1.0:
        if page.evaluate("document.querySelector('[data-testid=stApp]')?.dataset.testScriptState") == "running":
            quiet = time.monotonic()
        page.wait_for_timeout(50)


class Thumb:
    """The thumb of a slider on the screen, and where it is at each value."""

    def __init__(self, page: Page, slider: str) -> None:
        self._page = page
        found = page.get_by_role("slider", name=slider)
        self._low, self._high, self.value = (float(v) for v in found.evaluate("e => [e.min, e.max, e.value]"))
        box = found.bounding_box()
        if box is None:
            raise RuntimeError(f"The slider {slider!r} is not on the screen.")
        self._left, self._width, self._y = box["x"] + THUMB / 2, box["width"] - THUMB, box["y"] + box["height"] / 2

    def go(self, value: float, steps: int = 1) -> None:
        """Move the mouse to where the thumb is at `value`."""
        share = (value - self._low) / (self._high - self._low)
        self._page.mouse.move(self._left + self._width * share, self._y, steps=steps)

    def take(self) -> None:
        self.go(self.value)
        self._page.mouse.down()


def drag(page: Page, slider: str, value: float) -> None:
    """Take the slider's thumb to `value` and let it go there."""
    thumb = Thumb(page, slider)
    thumb.take()
    thumb.go(value, steps=3)
    page.mouse.up()


def notes(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate("window.gdmNotes")
    return found


def move(page: Page, slider: str, value: float) -> Moved:
    """Drag a slider on a page at rest, wait until the finished fit stands, and say when what happened."""
    before = page.evaluate(
        "(() => { const n = window.gdmNotes; const e = n.events.at(-1); n.events = []; return e; })()"
    )
    weighed = notes(page)["bytes"]
    drag(page, slider, value)
    try:
        page.wait_for_function(STANDS, arg=before["look"], polling=50, timeout=1000 * PATIENCE_S)
        finished = True
    except PlaywrightTimeout:
        finished = False
    seen = notes(page)
    released = seen["released"]
    later = [event for event in seen["events"] if event["at"] > released]
    never = 1000 * PATIENCE_S
    changed = next((event["at"] - released for event in later if event["look"] != before["look"]), never)
    stands = never
    if finished:
        last = later[-1]["look"]
        stands = next(event["at"] - released for event in later if event["state"] == "fresh" and event["look"] == last)
    draws = tuple(event["ms"] for event in later)
    return Moved(seen["sent"] - released, changed, stands, draws, int(seen["bytes"] - weighed), finished)
