"""The lab while a thumb is held: what the browser draws by itself, beside what the server draws."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import Page

from pages.ui import figures, palette
from pages.ui.figures.base import typed, untyped
from tests.browser.test_nascar import INFERRED, rested

pytestmark = pytest.mark.browser

DRAWN = """
async ({ sweep, value, track, strips, row }) => {
  const held = await import("/_stcore/bidi-components/gdm.held/held.js");
  const bytes = Uint8Array.from(atob(sweep.states.bdata), (c) => c.charCodeAt(0));
  const states = held.statesAt({ ...sweep, states: bytes }, value);
  const plain = (value) => JSON.parse(JSON.stringify(value, (_, v) => (ArrayBuffer.isView(v) ? [...v] : v)));
  return plain({
    states,
    shapes: held.track(track, states, sweep.mixing).layout.shapes,
    strips: held.strips(strips, states, sweep.mixing, row, 1).data,
  });
}
"""
KNOWN = """[...document.querySelectorAll('.st-key-held-states *')].find((node) => node.gdmHeld)?.gdmHeld"""


def _soft(n: int, k: int, tau: float) -> np.ndarray:
    phase = np.linspace(0, 9, n)[:, None] + 2 * np.pi * np.arange(k) / k
    weight = np.exp(np.cos(phase) / tau)
    return (weight / weight.sum(axis=1, keepdims=True)).astype(np.float32)


def _rgba(css: str) -> np.ndarray:
    return np.array([int(css[i : i + 2], 16) for i in (1, 3, 5, 7)])


@pytest.mark.parametrize("n_states", [2, 5])
def test_the_browser_draws_tracks_and_strips_as_the_server_does(visit, n_states):
    n, values = 400, [0.1, 0.2, 0.4, 0.8]
    sweep = np.rint(255 * np.stack([_soft(n, n_states, tau) for tau in values])).astype(np.uint8)
    angle = np.linspace(0, 6, n)
    where = np.column_stack([2 * np.cos(angle), np.sin(angle)]).astype(np.float32)
    truth = np.eye(n_states, dtype=np.float32)[np.arange(n) // 40 % n_states]
    start = _soft(n, n_states, 0.1)
    dots = where + 0.05
    given = {
        "sweep": {
            "values": values,
            "shape": list(sweep.shape),
            "states": {"bdata": typed(sweep.ravel(), "u1")["bdata"]},
            "mixing": palette.mixing(n_states),
        },
        "track": figures.track(where, start, dots=dots),
        "strips": figures.state_strips({"true": truth, "inferred": start}, columns=150),
        "row": "inferred",
    }
    page = visit("/playground").ready()
    for value, exact in ((0.2, sweep[1] / 255), (0.3, (sweep[1] / 255 + sweep[2] / 255) / 2)):
        made = page.evaluate(DRAWN, given | {"value": value})
        soft = np.array(made["states"]).reshape(n, n_states)
        np.testing.assert_allclose(soft, exact, atol=1e-4)
        theirs = figures.track(where, exact, dots=dots)["layout"]["shapes"]
        ours = made["shapes"]
        assert [shape["path"] for shape in ours] == [shape["path"] for shape in theirs]
        for one, other in zip(ours, theirs, strict=True):
            if one["line"].get("color"):
                assert np.abs(_rgba(one["line"]["color"]) - _rgba(other["line"]["color"])).max() <= 1
        wanted = figures.state_strips({"inferred": exact}, columns=150)["data"][0]
        *others, moved = made["strips"]
        (true,) = others
        clear = round(true["zmax"] - 0.5)
        assert set(true["z"][1]) == {clear}, "the row that moves is drawn once"
        assert clear not in true["z"][0]
        scale = [colour for _, colour in moved["colorscale"][::2]]
        theirs_scale = [colour for _, colour in wanted["colorscale"][::2]]
        for cell, other in zip(moved["z"][1], untyped(wanted["z"])[0], strict=True):
            assert np.abs(_rgba(scale[cell]) - _rgba(theirs_scale[other])).max() <= 1
        assert {scale[cell] for cell in moved["z"][0]} == {"$clear"}


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
        page.wait_for_function(f"{KNOWN}.held && !{KNOWN}.busy && {KNOWN}.value === Number({_input('tau')}.value)")
        assert _strokes(page) == page.evaluate(
            """async (known) => {
              const view = eval(known);
              const { statesAt, track } = await import("/_stcore/bidi-components/gdm.held/held.js");
              const { given } = document.querySelector('.st-key-inferred-track .gdm-figure').parentElement.gdmView;
              const { shapes } = track(given.data.figure, statesAt(view.data, view.value), view.data.mixing).layout;
              return shapes.filter(({ line }) => line.color).map(({ line, path }) => [line.color, path]);
            }""",
            KNOWN,
        )
    page.mouse.up()
    page.wait_for_function(f"!{KNOWN}?.data.slider")
    rested(page)
    servers = """() => {
      const { given } = document.querySelector('.st-key-inferred-track .gdm-figure').parentElement.gdmView;
      const { shapes } = given.data.figure.layout;
      return shapes.filter(({ line }) => line.color).map(({ line, path }) => [line.color, path]);
    }"""
    assert _strokes(page) == page.evaluate(servers)
    assert opened.errors == []


def _input(key: str) -> str:
    return f"document.querySelector('.st-key-slider-{key} input')"


def _strokes(page: Page) -> list:
    return page.evaluate(
        f"""document.querySelector('{INFERRED} .gdm-plot').layout.shapes
          .filter(({{ line }}) => line.color).map(({{ line, path }}) => [line.color, path])"""
    )
