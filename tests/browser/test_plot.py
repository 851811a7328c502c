"""The plot component by itself: it keeps its node and its zoom, and what it draws is light."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from gdm_studio.plot import figures
from pages.ui import theme
from pages.ui.server import plotly_address
from tests.browser.conftest import Visit
from tests.support.plot_probe import PREPARE, RANGE, RUN, zoom_in

pytestmark = pytest.mark.browser


def _scene(n: int, n_states: int, seed: int) -> tuple[figures.Figure, figures.Figure]:
    rng = np.random.default_rng(seed)
    turn = np.linspace(0, 12 * np.pi, n)
    path = np.column_stack([2 * np.cos(turn), np.sin(turn)]) + 0.02 * rng.normal(size=(n, 2))
    logits = np.stack([3 * np.cos(turn + seed - 2 * np.pi * k / n_states) for k in range(n_states)], axis=1)
    states = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return figures.track(path, states), figures.state_strips({"inferred": states})


@pytest.fixture
def draw(shared) -> Iterator[Callable[[int], Visit]]:
    """A page on which a track and a strip of the same run lie over all else."""
    opened = shared("/playground")
    page = opened.ready()

    def drawn(n: int) -> Visit:
        scenes = [_scene(n, 4, seed) for seed in range(2)]
        page.evaluate(PREPARE, {"figures": scenes, "tokens": theme.TOKENS, "plotly": plotly_address()})
        return opened

    yield drawn
    page.evaluate("window.gdmTest.places.forEach((place) => place.remove())")
    page.mouse.move(0, 0)


@pytest.mark.parametrize("n", [1_000, pytest.param(23_000, marks=pytest.mark.bulk)])
def test_updates_keep_node_and_zoom(draw, n):
    opened = draw(n)
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


def test_what_is_remembered_of_the_schema_is_what_plotly_finds(draw):
    page = draw(400).page
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
    opened = draw(400)
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
    page = draw(400).page
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
