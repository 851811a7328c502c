"""Figures for notebooks: the pages' own, in colours of one theme, as Plotly's objects; what cannot be drawn is refused in words."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gdm_core import GDM
from gdm_core.errors import ConfigError, DataError
from gdm_core.trials import Trial
from gdm_studio import plot
from gdm_studio.plot import figures
from gdm_studio.plot.palette import TOKENS

STATES = np.random.default_rng(0).dirichlet(np.ones(3), size=60).astype(np.float32)
PATH = np.cumsum(np.random.default_rng(1).normal(size=(60, 2)), axis=0).astype(np.float32)
LAP = Trial(PATH, position=PATH)


@pytest.fixture(scope="module")
def forecast():
    model = GDM(n_states=2, n_latent=2, n_steps=5, seed=0).fit(LAP)
    return model.forecast(LAP, horizon=4, n_paths=20, origins=[20, 40])


@pytest.mark.parametrize("theme", TOKENS)
def test_every_figure_is_drawn_in_its_theme(theme, forecast):
    made = (
        plot.track(LAP, STATES, theme=theme),
        plot.strip(STATES, rate_hz=10, theme=theme),
        plot.usage(STATES, reference=[0.2, 0.3, 0.5], theme=theme),
        plot.ethogram({"expert": STATES.argmax(axis=1), "model": STATES}, rate_hz=10, theme=theme),
        plot.envelope(forecast, LAP.y, origin=40, theme=theme),
    )
    for figure in made:
        text = figure.to_json()
        assert '"$' not in text, "a colour of the theme is missing"
        assert TOKENS[theme]["ink"] in text
        assert figure.layout.meta["alt"]
        assert figure.layout.height > 50


def test_a_notebook_and_a_page_have_the_same_drawing():
    page = figures.proportions(STATES, step=0.1, unit="s", height=190)
    notebook = json.loads(plot.strip(STATES, rate_hz=10).to_json())
    assert [trace["y"]["bdata"] for trace in notebook["data"]] == [trace["y"]["bdata"] for trace in page["data"]]


def test_the_envelope_begins_after_its_origin(forecast):
    figure = plot.envelope(forecast, LAP.y, origin=40, before=5, rate_hz=10)
    words = {note.text for note in figure.layout.annotations}
    assert {"now", "predicted"} <= words
    assert figure.layout.shapes[0].x0 == pytest.approx(4.0)


def test_what_cannot_be_drawn_is_refused(forecast):
    with pytest.raises(DataError, match="has no position"):
        plot.track(Trial(PATH), STATES)
    with pytest.raises(ConfigError, match="choose one of light, dark"):
        plot.strip(STATES, theme="sepia")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="rate_hz is 0"):
        plot.strip(STATES, rate_hz=0)
    with pytest.raises(DataError, match="origins go from 20 to 40"):
        plot.envelope(forecast, LAP.y, origin=21)
