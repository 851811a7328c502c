"""The Playground in a browser, which draws its triangle itself while a slider or a dot is held."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import untyped
from pages.playground import gumbel
from pages.ui import component
from tests.browser.conftest import drag

pytestmark = pytest.mark.browser

DOTS = """
() => {
  const { shown, parent, now } = document.querySelector(".st-key-triangle .gdm-figure").parentElement.gdmSimplex;
  const plot = parent.querySelector(".gdm-plot");
  const { xaxis, yaxis } = plot._fullLayout, box = plot.getBoundingClientRect();
  const [left, top] = [box.left + xaxis._offset, box.top + yaxis._offset];
  const at = ([a, b, c]) => [left + xaxis.l2p(b + c / 2), top + yaxis.l2p(c * Math.sqrt(3) / 2)];
  const of = (z) => Array.from({ length: z.length / 3 }, (_, i) => at(z.slice(3 * i, 3 * i + 3)));
  return { dots: of(shown[0]), hollow: of(shown[1]), middle: at([1 / 3, 1 / 3, 1 / 3]), now };
}
"""
UPDATES = "Number(document.querySelector('.st-key-triangle figure').dataset.updates)"


def _settings(page: Page) -> dict:
    return page.evaluate(DOTS)["now"]


def _alone(dots: list, others: list) -> list[float]:
    """Return the dot that is farthest from all dots of the other kind."""
    return max(dots, key=lambda dot: min(np.hypot(dot[0] - x, dot[1] - y) for x, y in others))


def test_triangle_follows_a_held_slider(visit):
    opened = visit("/playground")
    page = opened.ready(".st-key-triangle figure[data-updates]")
    before, drawn = page.url, page.evaluate(UPDATES)
    drag(page, "Softness (τ)", 0.06, *np.linspace(0.1, 0.9, 3))
    page.wait_for_function(f"{UPDATES} > {drawn}")
    page.wait_for_function("document.querySelector('.st-key-triangle figure').parentElement.gdmSimplex.frame === 0")
    held = _settings(page)["softness"]
    assert held > 2.5
    assert page.url == before, "the address changes on release"
    page.mouse.up()
    page.wait_for_url(f"**/playground?softness={held:g}")
    page.wait_for_timeout(500)
    assert _settings(page)["softness"] == held
    page.go_back()
    page.wait_for_function("document.querySelector('.st-key-slider-softness input').value === '0.2'")
    page.wait_for_function(
        "document.querySelector('.st-key-triangle figure').parentElement.gdmSimplex.now.softness === 0.2",
    )


def test_dragging_a_dot_changes_the_logits(visit):
    page = visit("/playground?softness=0.5").ready(".st-key-triangle figure[data-updates]")
    for kind, name in (("dots", "logit"), ("hollow", "other")):
        before = page.evaluate(DOTS)
        search = page.evaluate("location.search")
        x, y = _alone(before[kind], before["hollow" if kind == "dots" else "dots"])
        goal = (x + before["middle"][0]) / 2, (y + before["middle"][1]) / 2  # within the range of the logits
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(*goal, steps=5)
        page.wait_for_function("document.querySelector('.st-key-triangle figure').parentElement.gdmSimplex.frame === 0")
        held = page.evaluate(DOTS)
        nearest = min(np.hypot(a - goal[0], b - goal[1]) for a, b in held[kind])
        assert nearest < 1, "a dot lies under the pointer"
        assert np.mean(held["now"][name]) == pytest.approx(np.mean(before["now"][name])), "the mean is kept"
        page.mouse.up()
        page.wait_for_function("search => location.search !== search", arg=search)
        stands = [float(page.locator(f".st-key-slider-{name}{k} input").input_value()) for k in (1, 2, 3)]
        assert page.evaluate(DOTS)["now"][name] == stands
        np.testing.assert_allclose(stands, held["now"][name], atol=0.026)
        for k, value in enumerate(stands, 1):
            moved = value != before["now"][name][k - 1]  # defaults are left out
            assert (f"{name}{k}={value:g}" in page.url) == moved
    drawn = page.evaluate("document.querySelector('.st-key-triangle .gdm-plot').layout.dragmode")
    assert drawn is False
    page.go_back()  # three sliders changed in one step
    page.wait_for_function("!location.search.includes('other')")


@pytest.mark.bulk
def test_arrow_keys_move_a_dot(visit):
    opened = visit("/playground?softness=0.5")
    page = opened.ready(".st-key-triangle figure[data-updates]")
    triangle = page.get_by_role("application", name="Draws on a triangle")
    says = page.locator(".st-key-triangle").get_by_role("status")
    page.keyboard.press("Tab")  # shows the focus from here on
    triangle.focus()
    expect(says).to_contain_text("Dot 1: S1")
    page.keyboard.press("Enter")
    expect(says).to_contain_text("Dot 2: S1")
    before = page.evaluate(DOTS)
    goal = np.array(before["middle"]) - before["dots"][1]
    key = ("ArrowRight" if goal[0] > 0 else "ArrowLeft") if abs(goal[0]) > abs(goal[1]) else None
    key = key or ("ArrowDown" if goal[1] > 0 else "ArrowUp")
    page.keyboard.press(key)
    page.keyboard.press(key)
    page.wait_for_function("location.search.includes('logit')")
    after = page.evaluate(DOTS)
    moved = np.array(after["dots"][1]) - before["dots"][1]
    side, along = (0, goal[0]) if key in ("ArrowRight", "ArrowLeft") else (1, goal[1])
    assert moved[side] * along > 0
    assert abs(moved[side]) > 2 * abs(moved[1 - side])
    assert np.mean(after["now"]["logit"]) == pytest.approx(np.mean(before["now"]["logit"]), abs=0.05)
    expect(says).to_contain_text(", ".join(f"{value:.2f}" for value in after["now"]["logit"]))
    # A frozen clock must not keep the earlier theme.
    page.evaluate("performance.now = () => 0")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.querySelector('.st-key-triangle .gdm-plot').layout.font.color === '#e8e9ee'")


def test_browser_draws_the_same_figure_as_the_server(shared):
    logits, other, softness, noise = [0.7, -0.3, 0.2], [-1.0, 0.5, 0.4], 0.6, 0.8
    z = gumbel.draws(np.array(logits), softness, gumbel.noise(60, 3, 0), noise)
    hollow = gumbel.draws(np.array(other), softness, gumbel.noise(30, 3, 2), noise)
    many = gumbel.noise(2_000, 3, 1)
    spread = figures.inside(gumbel.draws(np.array(logits), softness, many, noise))
    effective = np.array(logits) / noise, softness / noise
    x, y, grid = figures.simplex_grid(spread)
    density = gumbel.log_density_on_simplex(grid, *effective)
    levels = figures.holding(gumbel.log_density_on_simplex(spread, *effective))
    figure = figures.simplex(z, log_density=(x, y, density), levels=levels, other=hollow)
    page = shared("/playground").ready()
    made = page.evaluate(
        """async ({ figure, now, sources, modules }) => {
          const { picture } = await import(`${modules}/gumbel.js`);
          return JSON.parse(JSON.stringify(picture(figure, sources, now).data, (_, v) => ArrayBuffer.isView(v) ? [...v] : v));
        }""",
        {
            "modules": component.route(),
            "figure": figure,
            "now": {"logit": logits, "other": other, "softness": softness, "noise": noise},
            "sources": {
                "dots": gumbel.noise(60, 3, 0).ravel().tolist(),
                "hollow": gumbel.noise(30, 3, 2).ravel().tolist(),
                "many": many.ravel().tolist(),
                "colours": {"steps": 1, "table": [["#000003", "#000002"], ["#000001"]]},
            },
        },
    )
    contour = next(trace for trace in made if trace["type"] == "contour")
    known = next(trace for trace in figure["data"] if trace["type"] == "contour")
    for name in ("x", "y"):
        np.testing.assert_allclose(contour[name], untyped(known[name]), atol=1e-5)
    np.testing.assert_allclose(contour["z"], untyped(known["z"]), atol=2e-3)

    def where(traces: list, symbol: str | None) -> list[tuple[float, float]]:
        found = [t for t in traces if t.get("mode") == "markers" and t["marker"].get("symbol") == symbol]
        points = [np.column_stack([t[n] if isinstance(t[n], list) else untyped(t[n]) for n in "xy"]) for t in found]
        return np.array(sorted(np.concatenate(points).round(4).tolist()))

    for symbol in (None, "circle-open"):
        np.testing.assert_allclose(where(made, symbol), where(figure["data"], symbol), atol=2e-4)
