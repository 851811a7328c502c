"""The lab while a thumb is held: what the browser draws by itself, beside what the server draws."""

from __future__ import annotations

import io
from itertools import product

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page

from pages.ui import figures, palette, theme
from pages.ui.figures.base import typed
from pages.ui.server import plotly_address
from tests.browser.test_nascar import INFERRED, moved, rested

pytestmark = pytest.mark.browser

# A figure of the page's own plot component, drawn without a script run in between.
SHOW = """
async ({ figure, tokens, plotly }) => {
  const { default: draw } = await import("/_stcore/bidi-components/gdm.plot/plot.js");
  let place = document.getElementById("held-test");
  if (!place) {
    place = Object.assign(document.createElement("div"), { id: "held-test" });
    place.style.cssText = "position:fixed;top:0;left:0;width:800px;background:white;z-index:9999999";
    place.style.setProperty("--st-background-color", "#ffffff");
    document.body.appendChild(place);
  }
  const common = { state: "fresh", badge: "", revision: "same", group: "g", events: [], filename: "f", plotly };
  draw({ data: { figure, options: { ...common, height: figure.height }, tokens }, parentElement: place, setTriggerValue() {} });
  await place.gdmView.job;
}
"""
OVER = """
async ({ sweep, value, row }) => {
  const { statesAt } = await import("/_stcore/bidi-components/gdm.plot/colours.js");
  const { decode, overlay } = await import("/_stcore/bidi-components/gdm.plot/overlay.js");
  const states = statesAt({ ...sweep, states: decode(sweep.states) }, value);
  const drawn = overlay(document.getElementById("held-test").gdmView, states, sweep.mixing, row, 1);
  return { drawn, states: [...states] };
}
"""
# The colours that states of K are drawn in, as the browser writes them.
COLOURS = """
async ([known, states, k]) => {
  const view = eval(known);
  const { quantise, statesAt } = await import("/_stcore/bidi-components/gdm.plot/colours.js");
  const { mixing } = view.data;
  return quantise(eval(states), { ...mixing, lab: mixing.lab.slice(0, k) }, 40).css.map((css) => {
    const probe = document.createElement("p");
    probe.style.stroke = css;
    return probe.style.stroke;
  });
}
"""
# What stands at the moment at which our drawing goes.
NOTE_END = """
(selector) => {
  const figure = document.querySelector(selector);
  const over = figure.querySelector(".gdm-overlay");
  new MutationObserver((_, observer) => {
    if (over.isConnected) return;
    observer.disconnect();
    const { given, figure: drawn } = figure.parentElement.gdmView;
    const hidden = [...figure.querySelectorAll(".shape-group")].filter(({ style }) => style.display === "none").length;
    window.heldEnd = { newest: drawn === given.data.figure, hidden };
  }).observe(figure, { childList: true, subtree: true });
}
"""
KNOWN = """[...document.querySelectorAll('.st-key-held-states *')].find((node) => node.gdmHeld)?.gdmHeld"""


def _soft(n: int, k: int, tau: float) -> np.ndarray:
    phase = np.linspace(0, 9, n)[:, None] + 2 * np.pi * np.arange(k) / k
    weight = np.exp(np.cos(phase) / tau)
    return (weight / weight.sum(axis=1, keepdims=True)).astype(np.float32)


def _picture(page: Page) -> np.ndarray:
    shot = page.locator("#held-test").screenshot(animations="disabled")
    return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")).astype(int)


WHATS = ("track", "strips", "part of the strips")


def test_what_the_browser_draws_over_a_figure_looks_as_if_the_server_had_drawn_it(visit):
    page = visit("/playground").ready()
    n, values = 400, [0.1, 0.2, 0.4, 0.8]
    angle = np.linspace(0, 6, n)
    where = np.column_stack([2 * np.cos(angle), np.sin(angle)]).astype(np.float32)
    for what, n_states in product(WHATS, (2, 5)):
        even = np.full((n, n_states), 1 / n_states, np.float32)

        def figure(states: np.ndarray, what: str = what, even: np.ndarray = even) -> figures.Figure:
            if what == "track":
                return figures.track(where, states, dots=where + 0.05, labels=[(0.0, 0.0, "T1")])
            # As a strip in question is drawn, without the word.
            rows, marks = {"above": even, "inferred": states, "below": even}, {"inferred": ("", 0.86)}
            made = figures.state_strips(rows, columns=50, marks=marks)
            if what == "part of the strips":
                made["layout"]["xaxis"]["range"] = [30.5, 190]
            return made

        def show(states: np.ndarray) -> np.ndarray:
            page.evaluate(SHOW, {"figure": figure(states), "tokens": theme.TOKENS, "plotly": plotly_address()})
            assert page.locator("#held-test .gdm-overlay").count() == 0
            return _picture(page)

        sweep = np.rint(255 * np.stack([_soft(n, n_states, tau) for tau in values])).astype(np.uint8)
        given = {
            "row": "" if what == "track" else "inferred",
            "sweep": {
                "values": values,
                "shape": list(sweep.shape),
                "states": {"dtype": "u1", "bdata": typed(sweep.ravel(), "u1")["bdata"]},
                "mixing": palette.mixing(n_states),
            },
        }
        for value, exact in ((0.2, sweep[1] / 255), (0.3, (sweep[1] / 255 + sweep[2] / 255) / 2)):
            before = show(_soft(n, n_states, 0.1))
            over = page.evaluate(OVER, given | {"value": value})
            assert over["drawn"]
            np.testing.assert_allclose(np.array(over["states"]).reshape(n, n_states), exact, atol=1e-4)
            ours = _picture(page)
            servers = show(exact)
            assert np.abs(before - servers).max() > 50
            off = np.abs(ours - servers).max(axis=2)
            assert off.max() <= (1 if what == "track" else 40), (what, n_states, value)
            # The server finds the colours of all strips together, and Plotly smears the edges of a cell over two pixels.
            assert (off > 8).mean() < 0.01, (what, n_states, value)
        page.evaluate("document.getElementById('held-test').remove()")


def test_a_track_follows_a_held_thumb_in_the_browser_and_is_the_servers_again_once_it_is_let_go(visit):
    opened = visit("/nascar?T=200")
    page = rested(opened.page)
    box = page.get_by_role("slider", name="Softness (τ)").bounding_box()
    y = box["y"] + box["height"] / 2

    def go(share: float) -> None:
        page.mouse.move(box["x"] + share * box["width"], y)

    go(0.33)
    page.wait_for_function(f"{KNOWN}?.offers.tau && {KNOWN}.asked.tau === {KNOWN}.offers.tau")  # said as the hand came
    page.mouse.down()
    go(0.4)
    page.wait_for_function(f"{KNOWN}?.data.slider === 'tau'")  # an answer while it is held brings the states
    for share in (0.15, 0.5, 0.9):
        go(share)
        page.wait_for_function(f"{KNOWN}.held && !{KNOWN}.frame && {KNOWN}.value === Number({_input('tau')}.value)")
        assert _colours(page) == page.evaluate(COLOURS, [KNOWN, "statesAt(view.data, view.value)", 4])
        assert page.locator(".st-key-strips .gdm-overlay > path").count() > 1
        assert page.locator(f"{INFERRED} .shape-group:visible").count() == 0
    page.evaluate(NOTE_END, INFERRED)
    page.mouse.up()
    page.wait_for_function("window.heldEnd")
    assert page.evaluate("window.heldEnd") == {"newest": True, "hidden": 0}, (
        "until the server's picture is there, ours stays"
    )
    rested(page)
    assert page.locator(".gdm-overlay").count() == 0
    servers = """() => {
      const { given } = document.querySelector('.st-key-inferred-track .gdm-figure').parentElement.gdmView;
      const { shapes } = given.data.figure.layout;
      return shapes.filter(({ line }) => line.color).map(({ line, path }) => [line.color, path]);
    }"""
    assert _strokes(page) == page.evaluate(servers)

    # Other numbers of states: from fits that are there.
    moved(page, "States (K)", "ArrowRight")
    moved(page, "States (K)", "ArrowLeft")
    box = page.get_by_role("slider", name="States (K)").bounding_box()
    y = box["y"] + box["height"] / 2
    go(0.2)
    page.mouse.down()
    go(0.3)
    page.wait_for_function(f"{KNOWN}?.data.known?.[5] && {KNOWN}.value === 5 && !{KNOWN}.frame")
    assert page.locator(f"{INFERRED} .shape-group:visible").count() == 0
    assert _colours(page) == page.evaluate(COLOURS, [KNOWN, "view.data.known[5].map((level) => level / 255)", 5])
    page.mouse.up()
    page.wait_for_function("document.querySelectorAll('.gdm-overlay').length === 0")
    rested(page)
    page.wait_for_url("**K=5**")
    assert opened.errors == []


def _input(key: str) -> str:
    return f"document.querySelector('.st-key-slider-{key} input')"


def _strokes(page: Page) -> list:
    return page.evaluate(
        f"""document.querySelector('{INFERRED} .gdm-plot').layout.shapes
          .filter(({{ line }}) => line.color).map(({{ line, path }}) => [line.color, path])"""
    )


def _colours(page: Page) -> list[str]:
    return page.evaluate(
        f"[...document.querySelectorAll('{INFERRED} .gdm-overlay > path')].map((path) => path.style.stroke)"
    )
