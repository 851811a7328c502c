"""The plot component by itself: it keeps its node and its zoom, and what it draws is light."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from gdm_studio.plot import figures
from tests.browser.conftest import Visit
from tests.support import plot_probe
from tests.support.plot_probe import RANGE, RUN, zoom_in

pytestmark = pytest.mark.browser


def _scene(n: int, n_states: int, seed: int) -> tuple[figures.Figure, figures.Figure]:
    rng = np.random.default_rng(seed)
    turn = np.linspace(0, 12 * np.pi, n)
    path = np.column_stack([2 * np.cos(turn), np.sin(turn)]) + 0.02 * rng.normal(size=(n, 2))
    logits = np.stack([3 * np.cos(turn + seed - 2 * np.pi * k / n_states) for k in range(n_states)], axis=1)
    states = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return figures.track(path, states), figures.state_strips({"inferred": states})


@pytest.fixture
def draw(shared) -> Iterator[Callable[..., Visit]]:
    """A page on which figures lie over all else, the first of some sets that take turns."""
    opened = shared("/playground")
    page = opened.ready()

    def drawn(*sets: Sequence[figures.Figure]) -> Visit:
        plot_probe.draw(page, *sets)
        return opened

    yield drawn
    plot_probe.take_away(page)


def _scenes(n: int) -> list[tuple[figures.Figure, figures.Figure]]:
    """A track and a strip of the same run, twice."""
    return [_scene(n, 4, seed) for seed in range(2)]


@pytest.mark.parametrize("n", [1_000, pytest.param(23_000, marks=pytest.mark.bulk)])
def test_updates_keep_node_and_zoom(draw, n):
    opened = draw(*_scenes(n))
    page = opened.page
    zoomed = zoom_in(page)
    result = page.evaluate(RUN, 4)
    assert opened.errors == []
    assert page.evaluate(RANGE) == pytest.approx(zoomed)
    assert result["same"]


def test_a_whole_race_is_few_traces_of_little_weight():
    """How long it takes to draw is measured by `make bench-app`."""
    track, strip = _scene(23_000, 8, 0)
    assert len(json.dumps(track)) < 700_000
    assert len(json.dumps(strip)) < 700_000
    assert len(track["data"]) <= 41


# Of how many parts each of some drawings in turn is.
PARTS = """
async (rounds) => {
  const { show, figures, places } = window.gdmTest;
  const parts = [];
  for (let round = 0; round < rounds; round++) {
    await show(figures[round % 2]);
    parts.push(places[0].querySelectorAll("*").length);
  }
  return parts;
}
"""


def test_strips_of_24000_frames_are_few_parts_however_often_they_are_redrawn(draw):
    """How long a redraw takes is measured by `make bench-app`; that depends on how much there is to draw."""
    pair = []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        soft = np.repeat(rng.dirichlet(np.full(5, 0.4), 400), 60, axis=0).astype(np.float32)  # [24000, 5]
        hard = figures.one_hot(soft.argmax(axis=1), 5)
        pair.append([figures.state_strips({"expert": hard, "bouts": hard, "states": soft}, step=1 / 30, unit="s")])
    parts = draw(*pair).page.evaluate(PARTS, 4)
    assert 10 < parts[0] < 400
    assert parts[2:] == parts[:2], "nothing of an earlier drawing is left over"


def test_what_is_remembered_of_the_schema_is_what_plotly_finds(draw):
    page = draw(*_scenes(400)).page
    traces = page.evaluate(
        """() => [...document.querySelectorAll(".gdm-plot")].flatMap((plot) => plot._fullData ?? []).map((trace) => {
          const { findArrayAttributes } = window.Plotly.PlotSchema;
          return [trace.type, findArrayAttributes(trace), findArrayAttributes.walk(trace)];
        })"""
    )
    assert {"scatter", "heatmap", "contour"} <= {kind for kind, *_ in traces}
    for kind, remembered, found in traces:
        assert sorted(remembered) == sorted(found), kind


def test_figures_of_a_group_point_at_the_same_moment(draw):
    opened = draw(*_scenes(400))
    page = opened.page
    shown = "window.gdmTest.places.map((place) => !place.querySelector('.gdm-cursor').hidden)"
    assert page.evaluate(shown) == [False, False]
    page.mouse.move(420, 470, steps=4)  # onto the strip
    page.wait_for_function(f"{shown}[0]")
    assert page.evaluate(shown) == [True, False], "the figure under the mouse has its own label"
    cursor = page.locator(".gdm-cursor-path")
    first = cursor.bounding_box()
    page.mouse.move(560, 470, steps=4)
    page.wait_for_function(
        "([x, y]) => { const b = document.querySelector('.gdm-cursor-path').getBoundingClientRect();"
        " return Math.hypot(b.x - x, b.y - y) > 3; }",
        arg=[first["x"], first["y"]],
    )
    page.mouse.move(1200, 800)
    page.wait_for_function(f"!{shown}[0]")
    assert opened.errors == []


def test_a_click_is_sent_with_what_was_hit(draw):
    page = draw(*_scenes(400)).page
    page.mouse.move(420, 470, steps=3)
    page.locator(".hoverlayer .hovertext").first.wait_for(state="attached")
    page.mouse.click(420, 470)
    page.wait_for_function("window.gdmTest.sent.length > 0")
    name, hit = page.evaluate("window.gdmTest.sent[0]")
    assert name == "click"
    assert hit["y"] == "inferred"
    assert 0 <= hit["x"] < 400
    assert len(hit["customdata"]) == 4


@pytest.mark.parametrize(
    ("button", "suffix", "start"), [("Save as PNG", ".png", b"\x89PNG"), ("Save as SVG", ".svg", b"<svg")]
)
def test_a_figure_can_be_saved(shared, button, suffix, start):
    opened = shared("/playground")
    page = opened.ready()
    figure = page.locator(".gdm-figure").first
    figure.hover()
    with page.expect_download() as download:
        figure.locator(f"[data-title='{button}']").click()
    assert download.value.suggested_filename == f"gdm-triangle{suffix}"
    content = download.value.path().read_bytes()
    assert content.startswith(start)
    assert len(content) > 5_000
    assert opened.errors == []
