"""A complete lab page for a new kind of data: two pendulums, one released now and then. See docs/architecture.md."""

from __future__ import annotations

import numpy as np
import streamlit as st

from gdm_core.trials import Trial, Trials
from gdm_studio.plot import figures
from pages import lab
from pages.lab import live, scores
from pages.ui import model_controls, shell
from pages.ui.card import Score
from pages.ui.exports import Recipe
from pages.ui.plot import Panel, Picture, by_key

CODE = """\
def swing(seed, n=400, every=80):
    noise, angle = np.random.default_rng(seed).normal(0, 0.01, (n, 2)), np.zeros((n, 2))
    angle[0], speed = (1.0, 0.0), np.zeros(2)
    for t in range(1, n):
        damping = 0.05 if (t // every) % 2 else 0.0  # the pendulum is braked in every other stretch
        speed += -0.04 * angle[t - 1] - damping * speed
        angle[t] = angle[t - 1] + speed + noise[t]
    return np.column_stack([angle[:, 0], np.gradient(angle[:, 0])])
"""
names: dict[str, object] = {"np": np}
exec(CODE, names)  # the page and its exported script run the very same lines


@st.cache_resource
def simulate(seed: int) -> tuple[Trials, Trials]:
    """Return a swing to fit and a swing to test on."""

    def trial(seed: int) -> Trials:
        y = names["swing"](seed)  # type: ignore[operator]
        return Trials((Trial(y, rate_hz=10.0, channels=("angle", "speed"), name=f"swing {seed}"),))

    return trial(seed), trial(seed + 1)


def rows_of(found: dict) -> list[Score]:
    """Return the rows of the card."""
    rows = [scores.forecast_row(found, "new swing"), scores.coverage_row(found, "new swing")]
    return scores.drop_missing([*rows, scores.bound_row(found, "new swing")])


frame = shell.frame("pendulum", title="Pendulum")
with frame.controls:
    seed = int(st.number_input("Swing (seed)", 0, 99, 0, key="swing", bind="query-params"))
    train, test = simulate(seed)
    data = lab.Dataset(
        f"a pendulum that a hand brakes, swing {seed}",
        train,
        test,
        Recipe([], [*CODE.splitlines(), f"train, test = swing({seed}), swing({seed + 1})"]),
        tested="new swing",
    )
    choice = model_controls.choose((train.n_samples, 2), n_states=2)

view = lab.begin(frame, data, choice)


def draw(now: live.FitState) -> dict[str, Panel]:
    """Draw the states over time."""
    reading = view.read(now)
    if isinstance(reading, lab.Undecoded):
        return by_key(Picture(None, "strips", title=reading.title, note=reading.note))
    made = now.memoize(
        "strips", lambda: figures.state_strips({"states": reading.states}, step=0.1, unit="s"), inputs=(reading.states,)
    )
    return by_key(Picture(made, "strips", reading.state))


lab.picture(view, draw)
lab.show_tabs(
    view,
    {
        "Shares": lab.show_shares,
        "Dwell times": lab.show_dwell_times,
        "Prediction": lab.show_prediction,
        "Export": lambda view, reading: lab.show_export(view, reading),
    },
)
lab.show_scorecard(view, rows_of)
lab.end(view)
