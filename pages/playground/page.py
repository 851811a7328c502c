"""Playground: the soft switch of three states under the finger."""

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
from gdm_studio.plot.figures import Figure
from pages.playground import gumbel, pictures
from pages.ui import exports, shell
from pages.ui.controls import slide, tabs
from pages.ui.downloads import download
from pages.ui.plot import plot

PICTURE_WIDTH = 640  # a triangle is as high as it is wide
SHOWN, COMPARED, COUNTED, SAMPLED = 500, 150, 20_000, 8_000
SOFTNESSES = np.array([0.1, 0.2, 0.5, 1.0, 2.0])
NAMES = ("S1", "S2", "S3")
EVIDENCE = (-4.0, 4.0)


@dataclass(frozen=True)
class Settings:
    """What the controls say, within their ranges whatever an address may hold."""

    logits: np.ndarray  # [3]
    softness: float
    noise: float
    other: np.ndarray  # [3]
    stay: float
    seed: int

    @property
    def effective(self) -> tuple[np.ndarray, float]:
        """Logits and softness of the same distribution with standard noise."""
        return self.logits / self.noise, self.softness / self.noise


# Key: (label, least, most, start, step, help), below their headings.
SLIDERS: dict[str, dict[str, tuple[str, float, float, float, float, str | None]]] = {
    "Evidence": {
        "logit1": (
            "For state 1 (π₁)", *EVIDENCE, 0.4, 0.05,
            "Before any noise. Only differences count: adding the same amount to all three changes nothing.",
        ),
        "logit2": ("For state 2 (π₂)", *EVIDENCE, 0.0, 0.05, None),
        "logit3": ("For state 3 (π₃)", *EVIDENCE, -0.2, 0.05, None),
    },
    "Draw": {
        "softness": ("Softness (τ)", 0.05, 3.0, 0.2, 0.05, "Low: nearly one state alone. High: all states blend."),
        "noise": ("Noise (β)", 0.25, 3.0, 0.3, 0.05, "How much chance decides. The model fixes it at 1, see the second tab."),
        "dice": ("Dice (seed)", 0, 20, 0, 1, "Another seed throws other dice; the picture's shape stays."),
    },
    "Staying": {
        "stay": ("How long to stay (γ)", 0.0, 1.0, 0.8, 0.1, "How much of the state before flows into the next one."),
    },
    "Compare with (hollow dots)": {
        "other1": ("State 1 (φ₁)", *EVIDENCE, -0.2, 0.05, None),
        "other2": ("State 2 (φ₂)", *EVIDENCE, 0.2, 0.05, None),
        "other3": ("State 3 (φ₃)", *EVIDENCE, 0.2, 0.05, None),
    },
}  # fmt: skip


def controls() -> Settings:
    """The sliders, in a user's words with the symbol in brackets."""
    at: dict[str, Any] = {}
    for heading, sliders in SLIDERS.items():
        shell.section(heading)
        for key, (label, low, high, start, step, said) in sliders.items():
            at[key] = slide(label, low, high, start, step, key=key, help=said, live=True)
    logits, other = (np.array([at[f"{name}{i}"] for i in (1, 2, 3)]) for name in ("logit", "other"))
    return Settings(logits, at["softness"], at["noise"], other, at["stay"], int(at["dice"]))


def dots(s: Settings) -> tuple[gumbel.Array, gumbel.Array]:
    """The draws that are shown, and those that they are compared with."""
    z = gumbel.draws(s.logits, s.softness, gumbel.noise(SHOWN, 3, s.seed), s.noise)
    return z, gumbel.draws(s.other, s.softness, gumbel.noise(COMPARED, 3, s.seed + 2), s.noise)


def triangle(s: Settings) -> Figure:
    """The draws on the simplex over their density, and some of the distribution they are compared with."""
    logits, softness = s.effective
    many = figures.clip_to_interior(gumbel.draws(s.logits, s.softness, gumbel.noise(COUNTED, 3, s.seed + 1), s.noise))
    levels = figures.density_levels(gumbel.log_density_on_simplex(many, logits, softness))
    x, y, grid = figures.simplex_grid(many)
    density = gumbel.log_density_on_simplex(grid, logits, softness)
    z, other = dots(s)
    figure = figures.simplex(z, log_density=(x, y, density), levels=levels, other=other, names=NAMES, height=520)
    figure["caption"] += (
        " Hollow dots: the second distribution (φ), at the same softness and noise. Drag a dot and the evidence follows."
    )
    figure["layout"]["dragmode"] = False  # a drag takes hold of a dot
    plot(figure, key="triangle", module="simplex", still=True, more={"follow": followed(s)})
    return figure


def followed(s: Settings) -> dict[str, Any]:
    """What the browser draws the triangle from while a slider moves: the settings, the noise of the dots, and colours."""
    steps = 9  # of a grid of shares that has a colour for each
    table = [
        palette.hex_colours(
            palette.mix(np.array([[i, j, steps - i - j] for j in range(steps - i + 1)]) / np.float32(steps))[0]
        )
        for i in range(steps + 1)
    ]
    return {
        "settings": {
            "logit": s.logits.tolist(),
            "other": s.other.tolist(),
            "softness": s.softness,
            "noise": s.noise,
        },
        "range": EVIDENCE,
        "dots": figures.base.typed(gumbel.noise(SHOWN, 3, s.seed)),
        "hollow": figures.base.typed(gumbel.noise(COMPARED, 3, s.seed + 2)),
        "colours": {"steps": steps, "table": table},
    }


def marginal(s: Settings) -> None:
    """Who wins, which softness cannot change."""
    expected = gumbel.probabilities(s.logits, s.noise)
    counted = gumbel.winners(s.logits, gumbel.noise(COUNTED, 3, s.seed + 1), s.noise)
    st.html('<p class="gdm-panel-title">Which state wins</p>')
    plot(pictures.winners(NAMES, counted, expected, COUNTED), key="winners")


def divergence(s: Settings) -> tuple[Figure, pd.DataFrame]:
    """The divergence from the second distribution, exactly and by chance."""
    first, second = s.logits / s.noise, s.other / s.noise
    exact = gumbel.exact_kl(first, second)
    sampled, error = gumbel.sampled_kl(first, second, SOFTNESSES, SAMPLED, s.seed + 1)
    st.html('<p class="gdm-panel-title">How far from the hollow dots</p>')
    figure = pictures.kl_against_softness(SOFTNESSES, sampled, error, exact)
    plot(figure, key="divergence")
    columns = {"softness": SOFTNESSES, "sampled": sampled, "standard_error": error, "exact": exact}
    return figure, pd.DataFrame(columns)


def staying(s: Settings) -> None:
    """What stickiness does to the length of stays."""
    gammas = np.round(np.linspace(0, 1, 11), 2)
    chosen = int(np.abs(gammas - s.stay).argmin())
    stays = gumbel.simulate_stays(s.logits, s.softness, s.noise, gammas, s.seed)
    longest = int(np.clip(4 * np.nanmax(stays.mean()[[0, chosen]]), 10, 150))
    left, right = st.columns(2, gap="small")
    with left, shell.panel("survival"):
        plot(pictures.survival(stays, chosen, longest), key="survival")
    with right, shell.panel("mean-stay"):
        plot(pictures.mean_stay(stays, chosen), key="mean-stay")
    with shell.panel("chain"):
        rows = {"γ 0": stays.example[0, :200], f"γ {gammas[chosen]:.1f}": stays.example[chosen, :200]}
        plot(
            figures.state_strips(
                rows,
                caption="Two chains with the same noise: the upper one forgets, the lower one remembers its state.",
            ),
            key="chain",
        )
    shell.quiet(
        "At each step the evidence is dealt to the states anew, so that without stickiness nothing lasts. The next state is "
        "drawn from (1 − γ) × evidence + γ × the state before. That pull is at most one unit of evidence: under standard "
        "noise (β = 1) even γ = 1 leaves often; with less noise it holds for long."
    )


def same_noise(s: Settings) -> None:
    """A noise scale is nothing new."""
    logits, softness = s.effective
    g = gumbel.noise(SHOWN, 3, s.seed)
    as_set = gumbel.draws(s.logits, s.softness, g, s.noise)
    as_standard = gumbel.draws(logits, softness, g)
    left, right = st.columns(2, gap="small")
    with left, shell.panel("as-set", f"Noise β = {s.noise:.2f}, softness τ = {s.softness:.2f}"):
        plot(
            figures.simplex(as_set, names=NAMES, height=330, caption="Drawn with the settings as they are."),
            key="as-set",
        )
    with right, shell.panel("as-standard", f"Noise β = 1, softness τ = {softness:.2f}"):
        caption = "Drawn with the evidence and the softness both divided by β."
        plot(figures.simplex(as_standard, names=NAMES, height=330, caption=caption), key="as-standard")
    shell.quiet(
        ("Move Noise (β) away from 1 to see it at work. " if s.noise == 1 else "")
        + f"Same dice, same draws: the largest difference between the two is {np.abs(as_set - as_standard).max():.1e}. "
        "So a noise scale needs no place of its own in the model: it is evidence and softness under other names."
    )


page = shell.frame("playground")
with page.controls:
    settings = controls()
page.header(
    "One soft state, drawn again and again",
    [
        ("softness τ", f"{settings.softness:.2f}"),
        ("noise β", f"{settings.noise:.2f}"),
        ("stay γ", f"{settings.stay:.1f}"),
    ],
)
with page.picture:
    triangle_figure = triangle(settings)
with page.card:
    marginal(settings)
    divergence_figure, divergences = divergence(settings)


def file(label: str, make: Callable[[], bytes], name: str) -> None:
    download(label, make, name, key=f"download-{name}")


def take_along(s: Settings) -> None:
    """Files of what the page shows."""
    code = pictures.script(
        s.logits, s.other, s.softness, s.noise, s.seed, SHOWN, COMPARED, exports.link(), exports.install()
    )
    figures_here = (
        ("Draws on the triangle", "triangle", triangle_figure),
        ("How far from the hollow dots", "divergence", divergence_figure),
    )
    left, right = st.columns([0.5, 0.5], gap="small")
    with left, shell.panel("playground-figures", "Figures"):
        for name, key, figure in figures_here:
            st.markdown(name)
            stem = f"playground-{key}"
            first, second = st.columns(2, gap="small")
            with first:
                file("HTML", partial(exports.figure_html, figure, name), f"{stem}.html")
            with second:
                exports.save_picture(key, stem, figure, least=PICTURE_WIDTH)
        shell.quiet("SVG and PNG are saved as the figures stand here, theme included.")
    with right, shell.panel("playground-numbers", "Numbers"):
        for name, table in (("Draws", pictures.draws_table(*dots(s))), ("Divergence", divergences)):
            file(f"{name} (CSV)", partial(csv, table), f"playground-{name.lower()}.csv")
        file("Python script", code.encode, "playground.py")
        shell.quiet("The script throws the same dice: its draws are the dots of the page.")
    with st.expander("The script", icon=":material/code:"):
        st.code(code, language="python")


with page.below:
    named = {
        "How long to stay (γ)": staying,
        "Noise is softness (β)": same_noise,
        "Export & reproduce": take_along,
    }
    for name, place in tabs(list(named), key="about"):
        if place.open:
            with place:
                named[name](settings)
shell.footer(["Everything here is computed while you watch; no data are used."])
