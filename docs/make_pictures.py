"""Take the pictures of README and the user guide from the running dashboard: `make figures [ONLY=name]`. Needs a Chromium.

`held` is the moving one (docs/moving_picture.py); `gallery` makes the cards of the site's gallery,
from what `make docs` has built.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from docs import moving_picture
from docs.site import gallery
from docs.site.make import SITE
from tests.support.browser_server import FLAGS, find_chromium, running_server

PICTURES = Path(__file__).parent / "pictures"
# name -> (address, what must be on the page before it is taken, height)
VIEWS = {
    "home": ("/", "text=Formula 1", 900),
    "nascar": ("/nascar", ".js-plotly-plot", 1000),
    "formula1": ("/formula1", ".js-plotly-plot", 1000),
    "behaviour": ("/behaviour", ".js-plotly-plot", 1000),
    "your-data": ("/your-data", "text=Your data", 900),
    "compare": ("/compare?view=Differences", ".gdm-verdicts dd", 1000),
    "paper": ("/paper", "role=table", 700),
    "playground": ("/playground", ".js-plotly-plot", 900),
    "export": ("/nascar?view=Export+%26+reproduce", "text=Python script", 1300),
}
MOVING, CARDS = "held", "gallery"
WIDTH = 1440
CARD = (300, 190)  # of the gallery, twice as fine
SETTLE_MS = 15_000  # a fit and its scores


def cards(browser: Browser) -> None:
    """Of each example the first figure that its page on the site shows, or its last words where it draws nothing."""
    folder = PICTURES / CARDS
    folder.mkdir(exist_ok=True)
    page = browser.new_page(viewport={"width": 640, "height": 900}, color_scheme="light")
    for name in gallery.ORDER:
        page.goto((SITE / "gallery" / f"{name}.html").as_uri())
        draws = page.locator(".gdm-figure").count() > 0
        shown = page.locator(".gdm-figure").first if draws else page.locator(".gdm-said").last
        (shown.locator(".main-svg").first if draws else shown).wait_for()
        page.wait_for_timeout(500)
        taken = shown.screenshot()
        picture = Image.open(io.BytesIO(taken)).convert("RGB")
        card = Image.new("RGB", (CARD[0] * 2, CARD[1] * 2), "white")
        picture.thumbnail(card.size)
        card.paste(picture, ((card.width - picture.width) // 2, (card.height - picture.height) // 2))
        card.save(folder / f"{name}.webp", quality=82, method=6)
    page.close()
    print(folder)


def main() -> int:
    chromium = find_chromium()
    if chromium is None:
        print("No Chromium was found; install one to take pictures.", file=sys.stderr)
        return 2
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as server, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
        for name in sys.argv[1:] or [*VIEWS, MOVING, CARDS]:
            if name == CARDS:
                cards(browser)
                continue
            if name == MOVING:
                page = browser.new_page()
                moving_picture.save(list(moving_picture.frames(page, server.url)), PICTURES / f"{name}.webp")
                page.close()
                print(PICTURES / f"{name}.webp")
                continue
            address, awaited, height = VIEWS[name]
            page = browser.new_page(viewport={"width": WIDTH, "height": height})
            page.goto(server.url + address)
            page.wait_for_selector(awaited, timeout=120_000)
            page.wait_for_timeout(SETTLE_MS)
            page.screenshot(path=PICTURES / f"{name}.png")
            page.close()
            print(PICTURES / f"{name}.png")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
