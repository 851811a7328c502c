"""The controls of the simulated data: every parameter of the simulators, in the address of the page."""

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
    "soft": "Soft and sticky",
    "variable_speed": "Variable speed",
    "standard_appendix": "Standard (appendix)",
    "soft_appendix": "Soft and sticky (appendix)",
    "variable_speed_appendix": "Variable speed (appendix)",
}
# Kinds of `datasets.regimes`, and the dimensions that a model of each begins with.
REGIMES = {"levels": 3, "rotations": 2, "variances": 2, "drift": 3}
SCENARIOS = SETTINGS | {kind: regimes.KINDS[kind].title for kind in REGIMES}
LENGTHS = (200, 5000, 100)
SEEDS = (0, 9999)
MAX_CHANNELS = 30
# Field of the simulator, or part of one: (label, least, most, step, help). What is slid is followed while it is held.
FIELDS: dict[str, tuple[str, float, float, float, str]] = {
    "tau": ("Softness (τ)", 0.001, 5.0, 0.01, "Low: one state at a time. High: states blend."),
    "gamma": ("Stickiness (γ)", 0.0, 0.95, 0.05, "How much of the last state flows into the next one."),
    "transition_scale": ("Pull of the place (c)", 0.001, 10.0, 0.01, "How much the place decides against chance."),
    "transition_weight": (
        "Steepness of borders", 0.1, 1000.0, 10.0,
        "How sharply one region of the plane ends and the next begins: 100 in the notebooks, 10 in the appendix.",
    ),
    "s_min": ("Slowest speed (s)", 0.05, 1.0, 0.05, "Speeds are drawn between this and 1."),
    "turn": ("Turn a step (degrees)", 0.5, 60.0, 0.5, "On the rounded track's two ends."),
    "upper": ("Upper step", 0.01, 1.0, 0.05, "Length of a move to the right."),
    "lower": ("Lower step", 0.01, 1.0, 0.05, "Length of a move to the left."),
    "step": ("Step", 0.005, 0.5, 0.01, "Length of a move on the square track."),
    "n_channels": ("Channels (N)", 2, MAX_CHANNELS, 1, "A random mixture each."),
    "noise": ("Noise (σ)", 0.0, 2.0, 0.01, "Standard deviation of the noise on every channel."),
    "x": ("Start x", -5.0, 5.0, 0.05, "Where the car stands before the first step."),
    "y": ("Start y", -5.0, 5.0, 0.05, ""),
}  # fmt: skip
SLID = ("gamma", "s_min", "n_channels", "noise")
PLACES = {0: "right end", 1: "left end", 2: "upper straight", 3: "lower straight"}


@dataclass(frozen=True)
class Track:
    """What the controls describe: a preset or a kind of regimes, what was changed in it, length and seed."""

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
        changed = f", {len(self.changes)} parameter{'s' * (len(self.changes) > 1)} changed" if self.changes else ""
        return f"{SETTINGS[self.setting].lower()} track{changed}, {self.length:,} steps"

    @property
    def call(self) -> str:
        """The line of Python that makes the same trials."""
        if self.is_regimes:
            return f"simulate({self.setting!r}, {self.length}, {self.seed}, held_out={self.length})"
        parts = [repr(self.setting), f"seed={self.seed}", f"T={self.length}"]
        parts += [f"{name}={value!r}" for name, value in self.changes]
        return f"train_test({', '.join(parts)})"


FIRST = Track("soft", (), 1000, 0)  # what a first visit finds: the case that soft states are for
# Results that ship with the app: what a first visit finds, which Home shows and leads to, and the other end. A test compares.
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
    """(train, test) of a track. The same object each time, so that its fingerprint is computed once."""
    if track.is_regimes:
        train, test = regimes.simulate(track.setting, track.length, track.seed, held_out=track.length)
    else:
        train, test = train_test(track.setting, track.seed, track.length, **dict(track.changes))
    return Trials((train,), name=train.name), Trials((test,), name=test.name)


def data_of(track: Track) -> Dataset:
    """Return the two trials of a track, ready to fit."""
    train, test = simulate(track)
    truth = train[0].states
    assert truth is not None
    module, function = ("regimes", "simulate") if track.is_regimes else ("nascar", "train_test")
    said = "the second continues the first" if track.is_regimes else "two laps, seen through the same channels"
    return Dataset(
        track.about,
        train,
        test,
        Recipe(
            [f"from gdm_studio.datasets.{module} import {function}"],
            [f"train, test = ([trial] for trial in {track.call})  # {said}"],
        ),
        truth=(np.asarray(truth, np.float32),),
        unit="step",
        facts=(("track", track.call),),
        licences=("Simulated data, no licence needed.",),
        source=track,
    )


def choose() -> Track:
    """Show the controls and return what they describe."""
    shell.section("Data")
    setting = one_of(
        "Scenario",
        SCENARIOS,
        FIRST.setting,
        key="scenario",
        help="Standard switches sharply. Soft and sticky blends states and holds on to them. Variable speed draws a new "
        "speed for each stretch. The appendix of the paper and its notebooks differ in how steep the borders are. The "
        "last four have three regimes that last 40 to 120 steps.",
    )
    if setting in REGIMES:
        shell.quiet(regimes.KINDS[setting].description)
    low, high, step = LENGTHS
    length = slide("Steps (T)", low, high, 1000, step, key="T", help="Length of each trial.")
    seed = number(
        "Simulation seed",
        *SEEDS,
        0,
        key="track",
        help="The new trial continues the training trial."
        if setting in REGIMES
        else "Draws another lap. The test trial is the track of 100 + this seed, seen through the same channels.",
    )
    if setting in REGIMES:
        return Track(setting, (), length, seed)
    chosen = _parameters(setting)
    preset = PRESETS[setting]
    changes = tuple((name, value) for name, value in chosen.items() if value != getattr(preset, name))
    parameters(setting, **dict(changes))  # refuses what contradicts itself, before anything is drawn
    return Track(setting, changes, length, seed)


def first_model(track: Track) -> dict[str, Any]:
    """Return the K and D that a model of this scenario begins with, and what those controls belong to."""
    if not track.is_regimes:
        return {}
    return {"n_states": regimes.N_REGIMES, "n_latent": REGIMES[track.setting], "of": track.setting}


def _parameters(setting: str) -> dict[str, Any]:
    """Return every field of the simulator. Widgets belong to their preset, so that another one brings its own values."""
    preset = PRESETS[setting]

    def field(name: str, start: float) -> Any:
        label, low, high, step, said = FIELDS[name]
        key = f"{setting}.{name}"
        if name in SLID:
            return slide(label, low, high, type(step)(start), step, key=key, help=said)
        said = f"{said} {low:g} to {high:g}.".strip()
        typed = number(label, low, high, float(start), key=key, step=step, format="%.3g", help=said)
        return start if math.isclose(typed, start, rel_tol=1e-9) else typed  # the field rounds what was not touched

    def pair(left: str, right: str, start: tuple[float, float]) -> tuple[float, float]:
        first, second = st.columns(2, gap="small")
        with first:
            one = field(left, start[0])
        with second:
            return one, field(right, start[1])

    def as_preset(*names: str) -> dict[str, Any]:
        return {name: field(name, getattr(preset, name)) for name in names}

    with st.expander("Every parameter", icon=":material/tune:"):
        shell.section("Switching")
        values = as_preset("tau", "gamma", "transition_scale", "transition_weight")
        shell.section("Driving")
        values["track"] = one_of(
            "Shape",
            {"rounded": "Rounded", "square": "Square"},
            preset.track,
            row=True,
            key=f"{setting}.track",
            help="Rounded: the ends turn. Square: every state is a straight move.",
        )
        values |= as_preset("s_min")
        if values["track"] == "square":
            values |= as_preset("step")
        else:
            turn = math.radians(field("turn", math.degrees(preset.turn)))
            values["turn"] = preset.turn if math.isclose(turn, preset.turn, rel_tol=1e-6) else turn
            values["straight_steps"] = pair("upper", "lower", preset.straight_steps)
        shell.section("Seen through")
        values |= as_preset("n_channels", "noise")
        shell.section("Start")
        places = {str(k): f"S{k + 1}, {place}" for k, place in PLACES.items()}
        values["start_state"] = int(
            one_of("First state", places, str(preset.start_state), key=f"{setting}.start_state")
        )
        values["start"] = pair("x", "y", preset.start)
    return values
