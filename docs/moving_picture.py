"""The README's moving picture: a hand holds softness, then the number of states, and the states of a track follow.

`make figures ONLY=held`. Every frame is a screenshot of the real page, taken once the browser has drawn what belongs to the
value under the thumb, and stands as long as it takes a visitor's browser to draw one (docs/performance.md), no less.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

from benchmarks.browser import NEAR_S
from benchmarks.recorder import FIGURE, Thumb, wait_for_rest

ADDRESS = "/nascar"
WINDOW = {"width": 1200, "height": 830}
LARGEST = 2_000_000  # bytes
SOFTNESS, STATES = "Softness (τ)", "States (K)"
DRAWN_MS = {SOFTNESS: 80, STATES: 280}  # 20 and 5 pictures a second were measured
REST_MS = 900
PATIENCE_MS = 300_000
# The mouse of a headless browser cannot be seen: an arrow goes where it is, and a disc says that its button is held.
POINTER = """
() => {
  const arrow = Object.assign(document.createElement("div"), { id: "gdm-pointer" });
  arrow.innerHTML = '<svg width="34" height="34" viewBox="-10 -10 34 34"><circle r="9" fill="#0f5f80" opacity="0"/>'
    + '<path d="M0 0 0 16 4 12.5 6.8 19 9.6 17.8 6.9 11.4 12 11Z" fill="#111" stroke="#fff" stroke-width="1.4"/></svg>';
  arrow.style.cssText = "position:fixed;left:-99px;top:0;margin:-10px;pointer-events:none;z-index:99999999";
  document.body.appendChild(arrow);
  const disc = arrow.querySelector("circle");
  const held = (shown) => () => disc.setAttribute("opacity", shown);
  addEventListener("mousemove", ({ clientX: x, clientY: y }) => { arrow.style.left = `${x}px`; arrow.style.top = `${y}px`; }, true);
  addEventListener("mousedown", held(0.35), true);
  addEventListener("mouseup", held(0), true);
}
"""
# Pictures that the page has drawn of the inferred track, by Plotly or on the canvas over it.
DRAWN = "selector => document.querySelector(selector).dataset.updates"
Frame = tuple[Image.Image, int]  # and the milliseconds that it stands


def frames(page: Page, url: str) -> Iterator[Frame]:
    """The scene: softness there and back, then K there and back."""
    page.set_default_timeout(PATIENCE_MS)
    page.set_viewport_size(WINDOW)
    page.goto(url + ADDRESS)
    wait_for_rest(page)
    page.evaluate(POINTER)
    yield _shot(page, REST_MS)
    there_and_back = [0.99, *(0.05 + 0.94 * abs(step / 12 - 1) for step in range(1, 24)), 0.99]
    there_and_back += [*(0.99 + 1.2 * (1 - abs(step / 6 - 1)) for step in range(1, 12)), 0.99]
    yield from _held(page, SOFTNESS, there_and_back)
    yield from _held(page, STATES, [4, 3, 2, 3, 4, 5, 6, 7, 8, 6, 4])


def _held(page: Page, slider: str, values: Sequence[float]) -> Iterator[Frame]:
    """A hand comes near, takes the thumb, moves it through the values, and lets go where the last one is."""
    page.get_by_role("slider", name=slider).hover()
    page.wait_for_timeout(1000 * NEAR_S)  # the states of other values come; not to be watched
    thumb = Thumb(page, slider)
    thumb.go(thumb.value)
    yield _shot(page, 500)
    page.mouse.down()
    yield _shot(page, 300)
    drawn = page.evaluate(DRAWN, FIGURE)
    for value in values[1:]:
        thumb.go(value)
        page.wait_for_function(f"([selector, drawn]) => ({DRAWN})(selector) !== drawn", arg=[FIGURE, drawn])
        page.wait_for_timeout(DRAWN_MS[slider])
        drawn = page.evaluate(DRAWN, FIGURE)
        yield _shot(page, DRAWN_MS[slider])
    page.mouse.up()
    wait_for_rest(page)
    yield _shot(page, REST_MS)


def _shot(page: Page, stands_ms: int) -> Frame:
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB"), stands_ms


def save(taken: Sequence[Frame], path: Path) -> None:
    """The frames as one WebP that plays for ever, which forges and browsers show as they show a picture."""
    first, *others = [picture for picture, _ in taken]
    first.save(
        path,
        save_all=True,
        append_images=others,
        duration=[stands for _, stands in taken],
        loop=0,
        quality=80,
        method=6,
    )
    if path.stat().st_size > LARGEST:
        raise SystemExit(f"{path} has {path.stat().st_size} bytes; {LARGEST} are the most. Take fewer frames.")
