"""Controls of the simulated tracks and regimes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from datasets import regimes
from datasets.nascar import PRESETS, parameters, train_test
from gdm_core.trials import Trials
from pages.lab.dataset import Dataset
from pages.ui import shell
from pages.ui.controls import number, one_of, slide
from pages.ui.exports import Recipe

SETTINGS = {
    "standard": "Standard",
    "soft": "Soft-sticky",
    "variable_speed": "Variable speed",
    "standard_appendix": "Standard (appendix)",
    "soft_appendix": "Soft-sticky (appendix)",
    "variable_speed_appendix": "Variable speed (appendix)",
}
# Kind of `datasets.regimes`: initial latent dimensions.
REGIMES = {"levels": 3, "rotations": 2, "variances": 2, "drift": 3}
SCENARIOS = SETTINGS | {kind: regimes.KINDS[kind].title for kind in REGIMES}
MAX_CHANNELS = 30
# Field of the simulator, or part of one: (label, lowest, highest, step, help).
FIELDS: dict[str, tuple[str, float, float, float, str]] = {
    "tau": ("Temperature (τ)", 0.001, 5.0, 0.01, "Low: one state at a time. High: states blend."),
    "gamma": ("Stickiness (γ)", 0.0, 0.95, 0.05, "How strongly the previous state persists."),
    "transition_scale": ("Location influence (c)", 0.001, 10.0, 0.01, "Scale of the logits relative to the noise."),
    "transition_weight": (
        "Boundary sharpness", 0.1, 1000.0, 10.0,
        "Sharpness of the borders between regions: 100 in the paper's notebooks, 10 in its appendix.",
    ),
    "s_min": ("Minimum speed (s)", 0.05, 1.0, 0.05, "Speeds are uniform between this and 1."),
    "turn": ("Turn per step (degrees)", 0.5, 60.0, 0.5, "At both ends of the rounded track."),
    "upper": ("Upper step", 0.01, 1.0, 0.05, "Distance per step to the right."),
    "lower": ("Lower step", 0.01, 1.0, 0.05, "Distance per step to the left."),
    "step": ("Step", 0.005, 0.5, 0.01, "Distance per step on the square track."),
    "n_channels": ("Channels (N)", 2, MAX_CHANNELS, 1, "Random projections of the position."),
    "noise": ("Noise (σ)", 0.0, 2.0, 0.01, "Standard deviation of the noise in each channel."),
    "x": ("Start x", -5.0, 5.0, 0.05, "Initial position."),
    "y": ("Start y", -5.0, 5.0, 0.05, ""),
}  # fmt: skip
SLID = ("gamma", "s_min", "n_channels", "noise")
PLACES = {0: "right end", 1: "left end", 2: "upper straight", 3: "lower straight"}


@dataclass(frozen=True)
class Track:
    """Simulated data: a preset or a kind of regimes, changed parameters, length and seed."""

    setting: str
    changes: tuple[tuple[str, Any], ...]
    length: int
    seed: int

    @property
    def is_regimes(self) -> bool:
        return self.setting in REGIMES

    @property
    def about(self) -> str:
        if self.is_regimes:
            return f"{SCENARIOS[self.setting].lower()}, {self.length:,} steps"
        changed = ", changed" if self.changes else ""
        return f"{SETTINGS[self.setting].lower()} track{changed}, {self.length:,} steps"

    @property
    def call(self) -> str:
        """Return the Python call that simulates the same trials."""
        if self.is_regimes:
            return f"simulate({self.setting!r}, {self.length}, {self.seed}, held_out={self.length})"
        parts = [repr(self.setting), f"seed={self.seed}", f"T={self.length}"]
        parts += [f"{name}={value!r}" for name, value in self.changes]
        return f"train_test({', '.join(parts)})"


FIRST = Track("soft", (), 1000, 0)  # of a first visit
# Precomputed results; Home shows the first.
BUNDLED = {"nascar-soft": FIRST, "nascar": Track("standard", (), 1000, 0)}
FIRST_CONFIG: dict[str, Any] = {
    "n_states": 4,
    "temperature": 0.99,
    "stickiness": "learn",
    "posterior": "window",
    "n_latent": 2,
    "seed": 0,
}


@st.cache_resource(max_entries=24, show_spinner=False)
def simulate(track: Track) -> tuple[Trials, Trials]:
    """Return (train, test), cached to compute fingerprints once."""
    if track.is_regimes:
        train, test = regimes.simulate(track.setting, track.length, track.seed, held_out=track.length)
    else:
        train, test = train_test(track.setting, track.seed, track.length, **dict(track.changes))
    return Trials((train,), name=train.name), Trials((test,), name=test.name)


def data_of(track: Track) -> Dataset:
    """Return the two trials of a track, ready to fit."""
    train, test = simulate(track)
    module, function = ("regimes", "simulate") if track.is_regimes else ("nascar", "train_test")
    relation = "the second continues the first" if track.is_regimes else "two laps in the same channels"
    recipe = Recipe(
        [f"from gdm_studio.datasets.{module} import {function}"],
        [f"train, test = ([trial] for trial in {track.call})  # {relation}"],
    )
    truth = (np.asarray(train[0].states, np.float32),)
    return Dataset(track.about, train, test, recipe, truth, "step", licences=("Simulated data.",), source=track)


def choose(advanced: Any) -> Track:
    """Show the controls and return the chosen data; rare controls go to `advanced`."""
    shell.section("Data")
    setting = one_of(
        "Scenario",
        SCENARIOS,
        FIRST.setting,
        key="scenario",
        help="Standard switches abruptly; soft-sticky blends states that persist; variable speed also varies the speed. "
        "The last four have three regimes that last 40 to 120 time steps.",
    )
    if setting in REGIMES:
        shell.quiet(regimes.KINDS[setting].description)
    with advanced:
        shell.section("Data")
        length = slide("Time steps (T)", 200, 5000, 1000, 100, key="T", help="Length of each trial.")
        about = None if setting in REGIMES else "The held-out trial is simulated with 100 + this seed."
        seed = number("Simulation seed", 0, 9999, 0, key="track", help=about)
    if setting in REGIMES:
        return Track(setting, (), length, seed)
    with advanced:
        chosen = _parameters(setting)
    preset = PRESETS[setting]
    changes = tuple((name, value) for name, value in chosen.items() if value != getattr(preset, name))
    parameters(setting, **dict(changes))  # raises ConfigError for contradictions
    return Track(setting, changes, length, seed)


def first_model(track: Track) -> dict[str, Any]:
    """Return the initial K and D of a model for this scenario, and their scope."""
    if not track.is_regimes:
        return {}
    return {"n_states": regimes.N_REGIMES, "n_latent": REGIMES[track.setting], "scope": track.setting}


def _parameters(setting: str) -> dict[str, Any]:
    """Show the parameters of the simulator and return them; each preset has its own widgets."""
    preset = PRESETS[setting]
    (upper, lower), (x, y) = preset.straight_steps, preset.start
    starts = vars(preset) | {"turn": math.degrees(preset.turn), "upper": upper, "lower": lower, "x": x, "y": y}

    def ask(heading: str, *names: str) -> dict[str, Any]:
        if heading:
            shell.section(heading)
        values = {}
        for name in names:
            (label, low, high, step, text), start, key = FIELDS[name], starts[name], f"{setting}.{name}"
            if name in SLID:
                values[name] = slide(label, low, high, type(step)(start), step, key=key, help=text)
                continue
            text = f"{text} {low:g} to {high:g}.".strip()
            typed = number(label, low, high, float(start), key=key, step=step, format="%.3g", help=text)
            values[name] = start if math.isclose(typed, start, rel_tol=1e-6) else typed  # the field rounds
        return values

    values = ask("Transitions", "tau", "gamma", "transition_scale", "transition_weight")
    shell.section("Dynamics")
    shapes, about = {"rounded": "Rounded", "square": "Square"}, "Rounded: turns at both ends. Square: four straights."
    values["track"] = one_of("Shape", shapes, preset.track, row=True, key=f"{setting}.track", help=about)
    values |= ask("", "s_min")
    if values["track"] == "square":
        values |= ask("", "step")
    else:
        bend = ask("", "turn", "upper", "lower")
        values["turn"] = preset.turn if bend["turn"] == starts["turn"] else math.radians(bend["turn"])
        values["straight_steps"] = bend["upper"], bend["lower"]
    values |= ask("Observations", "n_channels", "noise")
    start = ask("Start", "x", "y")
    places = {str(k): f"S{k + 1}, {place}" for k, place in PLACES.items()}
    values["start_state"] = int(one_of("First state", places, str(preset.start_state), key=f"{setting}.start_state"))
    return values | {"start": (start["x"], start["y"])}
