"""Playground: draws of the Gumbel-Softmax distribution of three states, live."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.analysis.tables import csv
from gdm_studio.plot import figures, palette
from gdm_studio.plot.figures.base import Figure
from pages.playground import gumbel, pictures
from pages.ui import exports, shell, wheel
from pages.ui.controls import slide, tabs
from pages.ui.plot import plot

SHOWN, STRIP, COMPARED, COUNTED, SAMPLED = 500, 50, 150, 20_000, 8_000
TEMPERATURES = np.array([0.1, 0.2, 0.5, 1.0, 2.0])
NAMES = ("S1", "S2", "S3")
CAPTION = (
    "Each dot is one possible soft state: corners are pure, the middle is mixed. Drag a dot to change the logits. "
    "Shaded: 90, 70, 50, 30 and 10% of draws."
)
IDENTICAL = "Both use the same random seed; they are identical up to rounding."
HOLLOW = " Hollow: second distribution (φ)."
DIVERGENCE = "KL divergence"
LOGITS = (-4.0, 4.0)


@dataclass(frozen=True)
class Settings:
    """Values of the controls."""

    logits: np.ndarray  # [3]
    temperature: float
    noise: float
    other: np.ndarray  # [3], logits of the second distribution
    seed: int

    @property
    def effective(self) -> tuple[np.ndarray, float]:
        """Logits and temperature of the same distribution with standard noise."""
        return self.logits / self.noise, self.temperature / self.noise


# Key: (label, lowest, highest, start, step, help).
Sliders = dict[str, tuple[str, float, float, float, float, str | None]]
SLIDERS: Sliders = {
    "tau": ("Temperature (τ)", 0.05, 3.0, 0.5, 0.05, "Low: nearly one state. High: states blend."),
    "logit1": ("Preference for S1 (logit π₁)", *LOGITS, 1.0, 0.05, "Only differences between logits matter."),
    "logit2": ("Preference for S2 (logit π₂)", *LOGITS, 0.0, 0.05, None),
    "logit3": ("Preference for S3 (logit π₃)", *LOGITS, -0.5, 0.05, None),
    "noise": ("Noise scale (β)", 0.25, 3.0, 1.0, 0.05, "Scale of the Gumbel noise; the model fixes it at 1."),
}
RARE: Sliders = {
    "seed": ("Random seed", 0, 20, 0, 1, None),
    "other1": ("Second distribution (φ₁)", *LOGITS, -0.5, 0.05, "Logits of the hollow dots."),
    "other2": ("Second distribution (φ₂)", *LOGITS, 0.5, 0.05, None),
    "other3": ("Second distribution (φ₃)", *LOGITS, 0.5, 0.05, None),
}


def choose(advanced: Any) -> Settings:
    """Show the sliders and return their values; rare ones go to `advanced`."""
    at: dict[str, Any] = {}
    shell.section("Distribution")
    for place, sliders in ((st.container(), SLIDERS), (advanced, RARE)):
        with place:
            for key, (label, low, high, start, step, text) in sliders.items():
                at[key] = slide(label, low, high, start, step, key=key, help=text, live=True)
    logits, other = (np.array([at[f"{name}{i}"] for i in (1, 2, 3)]) for name in ("logit", "other"))
    return Settings(logits, at["tau"], at["noise"], other, int(at["seed"]))


def draw(s: Settings) -> tuple[gumbel.Array, gumbel.Array]:
    """Return the draws on the triangle: of the distribution, and of the second one."""
    z = gumbel.draws(s.logits, s.temperature, gumbel.noise(SHOWN, 3, s.seed), s.noise)
    return z, gumbel.draws(s.other, s.temperature, gumbel.noise(COMPARED, 3, s.seed + 2), s.noise)


def draw_triangle(s: Settings, compared: bool) -> Figure:
    """Draw the distribution on the simplex over its density, with the second one if `compared`."""
    many = figures.clip_to_interior(
        gumbel.draws(s.logits, s.temperature, gumbel.noise(COUNTED, 3, s.seed + 1), s.noise)
    )
    levels = figures.density_levels(gumbel.log_density_on_simplex(many, *s.effective))
    x, y, grid = figures.simplex_grid(many)
    density = gumbel.log_density_on_simplex(grid, *s.effective)
    z, other = draw(s)
    second = {"other": other, "caption": CAPTION + HOLLOW} if compared else {"caption": CAPTION}
    return figures.simplex(z, log_density=(x, y, density), levels=levels, names=NAMES, height=440, **second)


def show_triangle(s: Settings, compared: bool) -> None:
    """Show the triangle, which the browser draws while a slider or a dot is dragged."""
    figure = draw_triangle(s, compared)
    figure["layout"]["dragmode"] = False  # dragging moves a dot
    follow = make_preview(s, COMPARED if compared else 0)
    plot(figure, key="triangle", module="simplex", still=True, more={"follow": follow})


def draw_strip(s: Settings) -> Figure:
    """Draw the first draws of the triangle as a strip, as a model's states over time look."""
    caption = f"The first {STRIP} draws, next to each other: what τ does to a strip of states."
    return figures.state_strips({"draws": draw(s)[0][:STRIP]}, unit="draw", height=84, caption=caption)


def make_preview(s: Settings, n_hollow: int) -> dict[str, Any]:
    """Return settings, noise and colours, from which the browser draws while a slider is dragged."""
    steps = 9  # the colour table is a grid of proportions
    table = [
        palette.hex_colours(
            palette.mix(np.array([[i, j, steps - i - j] for j in range(steps - i + 1)]) / np.float32(steps))[0]
        )
        for i in range(steps + 1)
    ]
    return {
        "settings": {"logit": s.logits.tolist(), "other": s.other.tolist(), "tau": s.temperature, "noise": s.noise},
        "range": LOGITS,
        "dots": figures.base.typed(gumbel.noise(SHOWN, 3, s.seed)),
        "hollow": figures.base.typed(gumbel.noise(n_hollow, 3, s.seed + 2)),
        "colours": {"steps": steps, "table": table},
    }


def draw_winners(s: Settings) -> Figure:
    """Draw how often each state has the largest proportion."""
    expected = gumbel.probabilities(s.logits, s.noise)
    counted = gumbel.winners(s.logits, gumbel.noise(COUNTED, 3, s.seed + 1), s.noise)
    return pictures.winners(NAMES, counted, expected, COUNTED)


def draw_divergence(s: Settings) -> Figure:
    """Draw the KL divergence from the second distribution, exact and sampled."""
    first, second = s.logits / s.noise, s.other / s.noise
    sampled, error = gumbel.sampled_kl(first, second, TEMPERATURES, SAMPLED, s.seed + 1)
    return pictures.divergence(TEMPERATURES, sampled, error, gumbel.exact_kl(first, second))


def show_divergence(s: Settings) -> None:
    with shell.panel("divergence"):
        plot(draw_divergence(s), key="divergence")


def show_equivalence(s: Settings) -> None:
    """Show that a noise scale equals a change of logits and temperature."""
    if s.noise == 1:
        shell.quiet("Move β to compare: changing β is the same as dividing logits and temperature by β.")
        return
    logits, temperature = s.effective
    g = gumbel.noise(SHOWN, 3, s.seed)
    scaled = gumbel.draws(s.logits, s.temperature, g, s.noise)
    standard = gumbel.draws(logits, temperature, g)
    left, right = st.columns(2, gap="small")
    with left, shell.panel("as-set", f"β = {s.noise:.2f}, τ = {s.temperature:.2f}"):
        plot(figures.simplex(scaled, names=NAMES, height=330, caption="The chosen logits."), key="as-set")
    with right, shell.panel("as-standard", f"β = 1, τ = {temperature:.2f}"):
        caption = "Logits and temperature divided by β."
        plot(figures.simplex(standard, names=NAMES, height=330, caption=caption), key="as-standard")
    shell.quiet(IDENTICAL if np.allclose(scaled, standard, atol=1e-9) else "Both use the same random seed.")


def show_export(s: Settings) -> None:
    """Offer all figures, the draws, and a script that repeats them."""
    code = pictures.script(s.logits, s.other, s.temperature, s.noise, s.seed, SHOWN, COMPARED, exports.link())
    exports.download_all("playground.zip", partial(make_files, s, code), key="playground-export")
    shell.quiet("Figures (SVG, PNG), draws (CSV), script and library.")


def make_files(s: Settings, code: str) -> tuple[dict[str, Figure], dict[str, bytes]]:
    """Return all figures, the draws and the script."""
    drawn = {
        "triangle": draw_triangle(s, compared=True),
        "strip": draw_strip(s),
        "strongest-state": draw_winners(s),
        "kl-divergence": draw_divergence(s),
    }
    draws = pd.concat(
        [pd.DataFrame(z, columns=list(NAMES)).assign(distribution=name) for name, z in zip("πφ", draw(s), strict=True)]
    )
    return drawn, {"draws.csv": csv(draws), "playground.py": code.encode(), wheel.FILE: wheel.build()}


page = shell.frame("playground")
with page.controls:
    chosen = choose(page.advanced)
page.header(
    "Gumbel-Softmax distribution of three states", [("τ", f"{chosen.temperature:.2f}"), ("β", f"{chosen.noise:.2f}")]
)
views: dict[str, Callable[[Settings], None]] = {
    "Noise-temperature equivalence": show_equivalence,
    DIVERGENCE: show_divergence,
    "Export": show_export,
}
with page.below:
    places = tabs(list(views), key="about")
with page.picture:
    show_triangle(chosen, dict(places)[DIVERGENCE].open)
    plot(draw_strip(chosen), key="draws", still=True)
with page.card:
    st.html('<p class="gdm-panel-title">Strongest state</p>')
    plot(draw_winners(chosen), key="winners")
with page.below:
    for name, place in places:
        if place.open:
            with place:
                views[name](chosen)
shell.footer()
