"""The Playground in a browser, which draws its triangle itself while a slider or a dot is held."""

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from pages.playground import gumbel
from pages.ui import component
from tests.browser.conftest import drag

DOTS = """
async (modules) => {
  const [{ draws }, { axesOf }] = await Promise.all([import(`${modules}/simplex.js`), import(`${modules}/axes.js`)]);
  const { parent, now, noise } = document.querySelector(".st-key-triangle .gdm-figure").parentElement.gdmSimplex;
  const plot = parent.querySelector(".gdm-plot");
  const { x, y } = axesOf(plot), box = plot.getBoundingClientRect();
  const at = ([a, b, c]) => [box.left + x.at(b + c / 2), box.top + y.at(c * Math.sqrt(3) / 2)];
  const of = (name, side) => {
    const z = draws(now[name], now.tau, now.noise, noise[side]);
    return Array.from({ length: z.length / 3 }, (_, i) => at(z.slice(3 * i, 3 * i + 3)));
  };
  return { dots: of("logit", 0), hollow: of("other", 1), middle: at([1 / 3, 1 / 3, 1 / 3]), now };
}
"""
UPDATES = "Number(document.querySelector('.st-key-triangle figure').dataset.updates)"


def _read_triangle(page: Page) -> dict:
    return page.evaluate(DOTS, component.route())


def _settings(page: Page) -> dict:
    return _read_triangle(page)["now"]


def _most_isolated(dots: list, others: list) -> list[float]:
    """Return the dot that is farthest from all dots of the other kind."""
    return max(dots, key=lambda dot: min(np.hypot(dot[0] - x, dot[1] - y) for x, y in others))


def test_triangle_follows_a_held_slider(revisit):
    opened = revisit("/playground")
    page = opened.ready(".st-key-triangle figure[data-updates]")
    before, drawn = page.url, page.evaluate(UPDATES)
    drag(page, "Temperature (τ)", 0.06, *np.linspace(0.1, 0.9, 3))
    page.wait_for_function(f"{UPDATES} > {drawn}")
    page.wait_for_function("document.querySelector('.st-key-triangle figure').parentElement.gdmSimplex.frame === 0")
    held = _settings(page)["tau"]
    assert held > 2.5
    assert page.locator(".st-key-triangle .gdm-dots").count() == 1, "dots are on the canvas while the slider is held"
    assert page.url == before, "the address changes on release"
    page.mouse.up()
    page.wait_for_url(f"**/playground?tau={held:g}")
    page.wait_for_function("!document.querySelector('.st-key-triangle .gdm-dots')")
    assert _settings(page)["tau"] == held
    page.go_back()
    expect(page.get_by_role("slider", name="Temperature (τ)").first).to_have_value("0.5")
    page.wait_for_function("document.querySelector('.st-key-triangle figure').parentElement.gdmSimplex.now.tau === 0.5")


def test_dragging_a_dot_changes_the_logits(visit):
    page = visit("/playground?about=KL+divergence&tau=0.6").ready(".st-key-triangle figure[data-updates]")
    for kind, name in (("dots", "logit"), ("hollow", "other")):
        before = _read_triangle(page)
        search = page.evaluate("location.search")
        x, y = _most_isolated(before[kind], before["hollow" if kind == "dots" else "dots"])
        goal = (x + before["middle"][0]) / 2, (y + before["middle"][1]) / 2  # within the range of the logits
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(*goal, steps=5)
        page.wait_for_function("document.querySelector('.st-key-triangle figure').parentElement.gdmSimplex.frame === 0")
        held = _read_triangle(page)
        nearest = min(np.hypot(a - goal[0], b - goal[1]) for a, b in held[kind])
        assert nearest < 1, "a dot lies under the pointer"
        assert np.mean(held["now"][name]) == pytest.approx(np.mean(before["now"][name])), "the mean is kept"
        page.mouse.up()
        page.wait_for_function("search => location.search !== search", arg=search)
        stands = [float(page.locator(f".st-key-slider-{name}{k} input").input_value()) for k in (1, 2, 3)]
        assert _read_triangle(page)["now"][name] == stands
        np.testing.assert_allclose(stands, held["now"][name], atol=0.026)
        for k, value in enumerate(stands, 1):
            moved = value != before["now"][name][k - 1]  # defaults are left out
            assert (f"{name}{k}={value:g}" in page.url) == moved
    drawn = page.evaluate("document.querySelector('.st-key-triangle .gdm-plot').layout.dragmode")
    assert drawn is False
    # A frozen clock must not keep the earlier theme.
    page.evaluate("performance.now = () => 0")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.querySelector('.st-key-triangle .gdm-plot').layout.font.color === '#e8e9ee'")
    page.go_back()  # three sliders changed in one step
    page.wait_for_function("!location.search.includes('other')")


def test_browser_draws_the_same_dots_as_the_server(shared):
    logits, softness, scale, noise = [0.7, -0.3, 0.2], 0.6, 0.8, gumbel.noise(60, 3, 0)
    page = shared("/playground").ready()
    made = page.evaluate(
        """async ({ logits, softness, scale, noise, modules }) => {
          const { draws } = await import(`${modules}/simplex.js`);
          return [...draws(logits, softness, scale, noise)];
        }""",
        {
            "modules": component.route(),
            "logits": logits,
            "softness": softness,
            "scale": scale,
            "noise": noise.ravel().tolist(),
        },
    )
    np.testing.assert_allclose(made, gumbel.draws(np.array(logits), softness, noise, scale).ravel(), atol=1e-6)
