"""Draw figures with the plot component of a page, and zoom into them."""

from collections.abc import Sequence

from playwright.sync_api import Page

from gdm_studio.plot.figures import Figure
from pages.ui import component, theme

# Draws figures with the module of the component, without a script run.
PREPARE = """
async ({ figures, tokens, modules }) => {
  const { default: draw } = await import(`${modules}/plot.js`);
  const places = figures[0].map((figure, i) => {
    const place = document.createElement("div");
    place.style.cssText = `position:fixed;top:${i * 450}px;left:0;width:800px;background:white;z-index:9999999`;
    place.style.setProperty("--st-background-color", "#ffffff");
    document.body.appendChild(place);
    return place;
  });
  const common = { state: "fresh", badge: "", revision: "same", group: "g", clicks: true, filename: "f" };
  const sent = [];
  const show = async (set) => {
    const began = performance.now();
    for (const [i, place] of places.entries()) {
      const data = { figure: structuredClone(set[i]), options: { ...common, height: set[i].height }, tokens };
      draw({ data, parentElement: place, setTriggerValue: (name, value) => sent.push([name, value]) });
    }
    await Promise.all(places.map((place) => place.gdmView.job));
    return performance.now() - began;
  };
  await show(figures[0]);
  const plot = places[0].querySelector(".gdm-plot");
  window.gdmTest = { show, figures, plot, node: plot.querySelector(".main-svg"), sent, places };
}
"""
RANGE = "[...window.gdmTest.plot.layout.xaxis.range]"
RUN = """
async (rounds) => {
  const { show, figures, plot, node } = window.gdmTest;
  const times = [];
  for (let round = 0; round < rounds; round++) times.push(await show(figures[(round + 1) % 2]));
  return { times, same: node === plot.querySelector(".main-svg") };
}
"""


def draw(page: Page, *sets: Sequence[Figure]) -> None:
    """Draw the first set of figures over the page; `window.gdmTest.show` draws another set."""
    given = {"figures": sets, "tokens": theme.TOKENS, "modules": component.route()}
    page.evaluate(PREPARE, given)


def take_away(page: Page) -> None:
    """Remove the figures."""
    page.evaluate("window.gdmTest.places.forEach((place) => place.remove())")
    page.mouse.move(0, 0)


def zoom_in(page: Page) -> list[float]:
    """Zoom into the track and return its range."""
    whole = page.evaluate(RANGE)
    page.mouse.move(300, 150)
    page.mouse.down()
    page.mouse.move(480, 300, steps=4)
    page.mouse.up()
    page.wait_for_function(f"{RANGE}[1] < {whole[1]}")
    zoomed: list[float] = page.evaluate(RANGE)
    return zoomed
