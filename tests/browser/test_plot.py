"""The plot component alone: updates in place, shared cursor, click messages and saved figures."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from gdm_studio.plot import figures
from pages.ui import component
from tests.browser.conftest import Visit
from tests.support import plot_probe
from tests.support.plot_probe import RANGE, RUN, zoom_in


def _scene(n: int, n_states: int, seed: int) -> tuple[figures.Figure, figures.Figure]:
    rng = np.random.default_rng(seed)
    turn = np.linspace(0, 12 * np.pi, n)
    path = np.column_stack([2 * np.cos(turn), np.sin(turn)]) + 0.02 * rng.normal(size=(n, 2))
    logits = np.stack([3 * np.cos(turn + seed - 2 * np.pi * k / n_states) for k in range(n_states)], axis=1)
    states = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return figures.track(path, states), figures.state_strips({"inferred": states})


@pytest.fixture
def draw(shared) -> Iterator[Callable[..., Visit]]:
    """Yield a function that draws sets of figures over the page."""
    opened = shared("/playground")
    page = opened.ready()

    def draw_sets(*sets: Sequence[figures.Figure]) -> Visit:
        plot_probe.draw(page, *sets)
        return opened

    yield draw_sets
    plot_probe.take_away(page)


def _scenes(n: int) -> list[tuple[figures.Figure, figures.Figure]]:
    """Return two pairs of a track and a strip."""
    return [_scene(n, 4, seed) for seed in range(2)]


def test_updates_keep_node_and_zoom(draw):
    opened = draw(*_scenes(1_000))
    page = opened.page
    zoomed = zoom_in(page)
    result = page.evaluate(RUN, 4)
    assert opened.errors == []
    assert page.evaluate(RANGE) == pytest.approx(zoomed)
    assert result["same"]


def test_figures_of_a_group_share_the_cursor(draw):
    opened = draw(*_scenes(400))
    page = opened.page
    shown = "window.gdmTest.places.map((place) => !place.querySelector('.gdm-cursor').hidden)"
    assert page.evaluate(shown) == [False, False]
    page.mouse.move(420, 470, steps=4)  # onto the strip
    page.wait_for_function(f"{shown}[0]")
    assert page.evaluate(shown) == [True, False], "the figure under the mouse has a hover label"
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


POINT = """
async ([from, share]) => {
  const { places } = window.gdmTest;
  const { left, width, top, height } = places[from].querySelector(".nsewdrag").getBoundingClientRect();
  const at = { clientX: left + share * width, clientY: top + height / 2, pointerType: "mouse", bubbles: true };
  const began = performance.now();
  places[from].querySelector(".nsewdrag").dispatchEvent(new PointerEvent("pointermove", at));
  await new Promise(requestAnimationFrame);
  const took = performance.now() - began;
  return { took, left: places.map((place) => parseFloat(place.querySelector(".gdm-cursor:not([hidden])")?.style.left) || null) };
}
"""
DUE_MS = 50


def test_moment_is_marked_in_other_figures_at_once(draw):
    steps = np.linspace(0, 2 * np.pi, 20_000)
    path = np.column_stack([np.cos(steps), np.sin(steps)])
    states = np.eye(4, dtype=np.float32)[np.arange(20_000) // 500 % 4]
    scene = (
        figures.track(path, states),
        figures.state_strips({"inferred": states}),
        figures.proportions(states),
        figures.entropy_strip(states),
    )
    page = draw(scene).page
    page.evaluate(POINT, [1, 0.3])  # the first one compiles
    found = page.evaluate(POINT, [1, 0.5])
    assert found["took"] < DUE_MS, found["took"]
    track, own, *others = found["left"]
    assert own is None
    assert others == [pytest.approx(others[0], abs=2)] * 2
    assert 200 < track < 400, "half of the path is at its leftmost point"
    assert page.evaluate(POINT, [0, 0.5])["left"] == [None] * 4, "the middle of the circle is no moment"


def test_click_message_holds_the_point(draw):
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


def test_figure_can_be_saved(shared):
    opened = shared("/playground")
    page = opened.ready()
    figure = page.locator(".gdm-figure").first
    figure.hover()
    with page.expect_download() as download:
        figure.locator("[data-title='Save as SVG']").click()
    assert download.value.suggested_filename == "gdm-triangle.svg"
    content = download.value.path().read_bytes()
    assert content.startswith(b"<svg")
    assert len(content) > 5_000
    assert opened.errors == []


def test_saved_panels_have_letters(shared):
    page = shared("/playground").page
    domains = [[0, 0.3], [0.7, 1], [0.35, 0.65]]
    axes = {f"yaxis{i or ''}": {"domain": domain} for i, domain in zip(("", 2, 3), domains, strict=True)}
    letters = page.evaluate(
        "async ([axes, modules]) => (await import(`${modules}/figure_files.js`)).panelLetters(axes)",
        [axes, component.route()],
    )
    assert [(each["text"], each["y"]) for each in letters] == [("<b>a</b>", 1), ("<b>b</b>", 0.65), ("<b>c</b>", 0.3)]
