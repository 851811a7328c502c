"""States drawn in the browser while a slider is held or training is replayed, next to what the server draws."""

import io
import time

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from gdm_studio.plot import figures, palette
from gdm_studio.plot.figures.base import typed
from pages.formula1 import circuit_map
from pages.formula1.circuit import Circuit
from pages.lab import preview_figures
from pages.ui import component
from tests.browser.test_nascar import INFERRED, moved, rested
from tests.support import plot_probe
from tests.support.formula1_page import one_lap

OVER = """
async ({ part, values, mixing, colours, value, how, stride }) => {
  const { decode, statesAt } = await import("MODULES/colours.js");
  const { drawStates } = await import("MODULES/states_canvas.js");
  const states = statesAt({ ...part, states: decode(part.states) }, values, value);
  const drawn = drawStates(window.gdmTest.places[0].gdmView, how, () => ({ states, mixing, stride }), colours);
  return { drawn, states: [...states] };
}
"""
# Numbers of sampled points of the path: with the mixed colour of the states at the slider's value, and in total. Colours
# overlap at crossings of the path.
ALIKE = """
async ([known, selector, k]) => {
  const { data, value } = eval(known);
  const { decode, mixed, statesAt } = await import("MODULES/colours.js");
  const { axesOf } = await import("MODULES/axes.js");
  const { values, parts } = data.tables.find(({ values }) => values.length > 1 || values[0] === value);
  const { rgb, strength } = mixed(statesAt(parts.states, values, value), { ...data.mixing, lab: data.mixing.lab.slice(0, k) });
  const figure = document.querySelector(selector);
  const { plot, figure: drawn } = figure.parentElement.gdmView;
  const { x, y } = axesOf(plot);
  const path = ["x", "y"].map((name) => decode(drawn.data[0][name]));
  const pen = figure.querySelector("canvas.gdm-states").getContext("2d");
  let alike = 0, n = 0;
  const middle = (v, i) => (v[i] + v[i + 1]) / 2;
  for (let i = 1; i + 1 < strength.length; i += 3) {
    const [at, there] = [x.at(middle(path[0], i)), y.at(middle(path[1], i))].map((v) => Math.floor(v * devicePixelRatio));
    const [r, g, b, alpha] = pen.getImageData(at, there, 1, 1).data;
    n += 1;
    alike += Math.max(Math.abs(alpha - strength[i]), ...[r, g, b].map((v, c) => Math.abs(v - rgb[3 * i + c]))) < 24;
  }
  return [alike, n];
}
"""
# Records the figure at the removal of the canvas.
NOTE_END = """
(selector) => {
  const figure = document.querySelector(selector);
  const over = figure.querySelector(".gdm-states");
  new MutationObserver((_, observer) => {
    if (over.isConnected) return;
    observer.disconnect();
    const { given, figure: drawn } = figure.parentElement.gdmView;
    const hidden = [...figure.querySelectorAll(".shape-group")].filter(({ style }) => style.display === "none").length;
    window.previewEnd = { newest: drawn === given.data.figure, hidden };
  }).observe(figure, { childList: true, subtree: true });
}
"""
KNOWN = (
    """[...document.querySelectorAll('.st-key-slider-preview-place *')].find((node) => node.gdmPreview)?.gdmPreview"""
)


def _soft(n: int, k: int, tau: float) -> np.ndarray:
    phase = np.linspace(0, 9, n)[:, None] + 2 * np.pi * np.arange(k) / k
    weight = np.exp(np.cos(phase) / tau)
    return (weight / weight.sum(axis=1, keepdims=True)).astype(np.float32)


def _picture(page: Page) -> np.ndarray:
    shot = page.evaluate_handle("window.gdmTest.places[0]").as_element().screenshot(animations="disabled")
    return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")).astype(int)


OFF = {"strips": 40}  # largest difference of a pixel, of 255
# Share of pixels that differ by more than 8 of 255, since Plotly and the canvas smooth edges differently.
MANY = {"every sample": 0.03, "shares": 0.025}
KINDS = [
    "track",
    "long track",
    "strips",
    *(pytest.param(kind, marks=pytest.mark.bulk) for kind in ("shares", "every sample")),
]
N_STATES = 5


@pytest.mark.parametrize("what", KINDS)
def test_canvas_looks_like_the_figure_of_the_server(shared, what):
    page = shared("/playground").ready()
    values = [0.1, 0.2, 0.4, 0.8]
    n, stride = {"every sample": (2_600, 1), "long track": (6_000, 2)}.get(what, (400, 1))
    angle = np.linspace(0, 6, n)
    where = np.column_stack([2 * np.cos(angle), np.sin(angle)]).astype(np.float32)
    even = np.full((n, N_STATES), 1 / N_STATES, np.float32)
    ring = Circuit("Ring", where, 10.0, (), ())
    how = {
        "track": preview_figures.track("it"),
        "long track": preview_figures.track("it"),
        "shares": preview_figures.areas("it"),
        "every sample": preview_figures.places("it", where, dot=circuit_map.DOT),
    }.get(what, preview_figures.strips({"inferred": "it"}, 1.0))

    def figure(states: np.ndarray) -> figures.Figure:
        if "track" in what:
            return figures.track(where, states, dots=where + 0.05)
        if what == "shares":
            shares = figures.proportions(states)
            shares["layout"]["annotations"] = []  # these fade
            return shares
        if what == "every sample":
            return circuit_map.circuit_map(ring, one_lap(where, np.zeros(len(states))), states)
        return figures.state_strips({"above": even, "inferred": states, "below": even}, columns=50)

    def show(states: np.ndarray) -> np.ndarray:
        page.evaluate("figure => window.gdmTest.show([figure])", figure(states))
        assert page.evaluate("window.gdmTest.places[0].querySelectorAll('.gdm-states').length") == 0
        return _picture(page)

    sweep = np.rint(255 * np.stack([_soft(n, N_STATES, tau) for tau in values])).astype(np.uint8)
    shown = sweep[:, ::stride]
    levels = {"dtype": "u1", "bdata": typed(shown.ravel(), "u1")["bdata"]}
    given = {
        "how": how,
        "values": values,
        "stride": stride,
        "part": {"shape": list(shown.shape), "states": levels},
        "mixing": palette.mixing_constants(N_STATES),
        "colours": palette.colours(N_STATES),
    }
    plot_probe.draw(page, [figure(_soft(n, N_STATES, 0.1))])
    for value, exact in ((0.2, sweep[1] / 255), (0.3, (sweep[1] / 255 + sweep[2] / 255) / 2)):
        before = show(_soft(n, N_STATES, 0.1))
        over = page.evaluate(OVER.replace("MODULES", component.route()), given | {"value": value})
        assert over["drawn"]
        np.testing.assert_allclose(np.array(over["states"]).reshape(-1, N_STATES), exact[::stride], atol=1e-4)
        ours = _picture(page)
        servers = show(exact)
        assert np.abs(before - servers).max() > 50
        off = np.abs(ours - servers).max(axis=2)
        assert off.max() <= OFF.get(what, 255), value
        assert (off > 8).mean() < MANY.get(what, 0.01), value
    plot_probe.take_away(page)


def test_dragging_draws_states_and_releases_to_the_fit(revisit):
    opened = revisit("/nascar?T=200")
    page = rested(opened.page)
    box = page.get_by_role("slider", name="Temperature (τ)").bounding_box()
    y = box["y"] + box["height"] / 2

    def go(share: float) -> None:
        page.mouse.move(box["x"] + share * box["width"], y)

    go(0.33)
    page.wait_for_function(f"{KNOWN}?.offers.tau && {KNOWN}.asked.tau?.startsWith({KNOWN}.offers.tau)")
    page.mouse.down()
    go(0.4)
    page.wait_for_function(f"{KNOWN}?.data.slider === 'tau'")
    opened.ready()  # a run that was asked for before
    runs = page.evaluate("window.gdmChannel.runs")
    for share in (0.15, 0.5, 0.9):
        go(share)
        page.wait_for_function(f"{KNOWN}.held && !{KNOWN}.frame && {KNOWN}.value === Number({_input('tau')}.value)")
        _has_mixed_colours(page, 4)
        assert page.locator(".st-key-strips .gdm-states").count() == 1
        assert page.locator(f"{INFERRED} .shape-group:visible").count() == 0
    assert page.evaluate("window.gdmChannel.runs") == runs, "no script runs while the slider is held"
    page.evaluate(NOTE_END, INFERRED)
    page.mouse.up()
    page.wait_for_function("window.previewEnd")
    assert page.evaluate("window.previewEnd") == {"newest": True, "hidden": 0}, "no gap before the fit is drawn"
    rested(page)
    assert page.locator(".gdm-states").count() == 0
    servers = """() => {
      const { given } = document.querySelector('.st-key-inferred-track .gdm-figure').parentElement.gdmView;
      const { shapes } = given.data.figure.layout;
      return shapes.filter(({ line }) => line.color).map(({ line, path }) => [line.color, path]);
    }"""
    assert _strokes(page) == page.evaluate(servers)

    # For K, states come from fits of adjacent K.
    moved(page, "States (K)", "ArrowRight")
    moved(page, "States (K)", "ArrowLeft")
    box = page.get_by_role("slider", name="States (K)").bounding_box()
    y = box["y"] + box["height"] / 2
    go(0.2)
    page.mouse.down()
    go(0.3)
    five = "({ values }) => values.length === 1 && values[0] === 5"
    page.wait_for_function(f"{KNOWN}?.data.tables.some({five}) && {KNOWN}.value === 5 && !{KNOWN}.frame")
    assert page.locator(f"{INFERRED} .shape-group:visible").count() == 0
    _has_mixed_colours(page, 5)
    page.mouse.up()
    page.wait_for_function("document.querySelectorAll('.gdm-states').length === 0")
    rested(page)
    page.wait_for_url("**K=5**")


def _input(key: str) -> str:
    return f"document.querySelector('.gdm-slider[data-name={key}] input')"


def _strokes(page: Page) -> list:
    return page.evaluate(
        f"""document.querySelector('{INFERRED} .gdm-plot').layout.shapes
          .filter(({{ line }}) => line.color).map(({{ line, path }}) => [line.color, path])"""
    )


def _has_mixed_colours(page: Page, n_states: int) -> None:
    alike, places = page.evaluate(ALIKE.replace("MODULES", component.route()), [KNOWN, INFERRED, n_states])
    assert places > 50
    assert alike > 0.7 * places, (alike, places)


ANNOUNCE = """
(held) => {
  const detail = { key: "K", value: 4, held, settled: !held };
  window.dispatchEvent(new CustomEvent("gdm:slider", { detail }));
}
"""
COVERED = """
(selector) => {
  const boxOf = (each) => document.querySelector(each).getBoundingClientRect();
  const [picture, sheet] = [selector, "[data-testid=stSidebar]"].map(boxOf);
  return picture.top < 0 || picture.bottom > sheet.top;
}
"""


def test_phone_scrolls_to_the_picture_of_a_held_slider(visit):
    page = visit("/nascar", size="phone").ready(INFERRED)
    page.get_by_test_id("stExpandSidebarButton").tap()
    page.wait_for_selector("[data-testid=stSidebar][data-collapsed=false]")
    assert page.evaluate(COVERED, INFERRED)
    page.evaluate(ANNOUNCE, True)
    page.wait_for_function(f"!({COVERED})('{INFERRED}')")
    page.evaluate(ANNOUNCE, False)


# ---- training replay -----------------------------------------------------------------------------------------------

CANVAS = f"document.querySelector('{INFERRED} canvas.gdm-states')?.toDataURL()"
STEP = "document.querySelector('.gdm-scrubber input').value"
PLAY_S = 5.0


def _runs(page: Page) -> int:
    return int(page.evaluate("window.gdmChannel.runs"))


def _drag(page: Page, share: float) -> str:
    """Drag the thumb, which is held, and return the new picture."""
    before = page.evaluate(CANVAS)
    thumb = page.get_by_role("slider", name="Training step")
    thumb.scroll_into_view_if_needed()
    box = thumb.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
    if before is None:
        page.mouse.down()
    page.wait_for_function(f"before => {{ const now = {CANVAS}; return now && now !== before; }}", arg=before)
    return str(page.evaluate(CANVAS))


def test_scrubber_shows_states_at_a_training_step(revisit):
    page = rested(revisit("/nascar?T=200").page)
    runs = _runs(page)
    pictures = {_drag(page, share) for share in (0.5, 0.05, 0.2)}
    assert len(pictures) == 3
    page.mouse.up()
    expect(page.locator(f"{INFERRED} .gdm-badge")).to_have_text(f"training step {page.evaluate(STEP)}")
    expect(page.locator(".st-key-elbo .gdm-cursor")).to_be_visible()
    page.keyboard.press("End")
    expect(page.locator(".gdm-states")).to_have_count(0)
    assert page.locator(f"{INFERRED} .gdm-badge:visible").count() == 0
    assert _runs(page) == runs, "no script runs during the replay"

    # Moving a control ends the replay.
    _drag(page, 0.3)
    page.mouse.up()
    page.get_by_role("slider", name="Temperature (τ)").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("(({ value, max }) => value === max)(document.querySelector('.gdm-scrubber input'))")
    rested(page)
    expect(page.locator(".gdm-states")).to_have_count(0)


def test_play_replays_training_in_five_seconds(revisit):
    page = rested(revisit("/nascar?T=200").page)
    runs, began = _runs(page), time.monotonic()
    page.get_by_role("button", name="Replay training").click()
    page.wait_for_function(CANVAS)
    expect(page.get_by_role("button", name="Pause the replay")).to_be_visible()
    expect(page.get_by_role("button", name="Replay training")).to_be_visible(timeout=4000 * PLAY_S)
    assert time.monotonic() - began > 0.9 * PLAY_S
    expect(page.locator(".gdm-states")).to_have_count(0)
    assert _runs(page) == runs, "no script runs during the replay"


def test_replay_steps_by_keys_and_calms_down(revisit):
    page = rested(revisit("/nascar?T=200").page)
    page.emulate_media(reduced_motion="reduce")
    page.evaluate(
        """() => {
          window.seen = [];
          const note = ({ detail }) => detail.key === "replay" && window.seen.push(detail.value);
          window.addEventListener("gdm:slider", note);
        }"""
    )
    page.get_by_role("button", name="Replay training").click()
    expect(page.get_by_role("button", name="Pause the replay")).to_be_visible()
    expect(page.get_by_role("button", name="Replay training")).to_be_visible(timeout=4000 * PLAY_S)
    assert len(set(page.evaluate("window.seen"))) == 11, "ten pictures and the end"
    page.get_by_role("slider", name="Training step").press("Home")
    page.get_by_role("slider", name="Training step").press("ArrowRight")
    most = int(page.evaluate(STEP.replace("value", "max")))
    assert int(page.evaluate(STEP)) == max(1, round(most / 50))
    page.emulate_media(reduced_motion="no-preference")
