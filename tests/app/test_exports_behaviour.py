"""What Behaviour and Your data let go of: on the recording's own clock, with the names and the rule of the page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from datasets import mice
from gdm_core.trials import Trials
from pages.behaviour import lab, player, takeaway
from pages.behaviour.bouts import BoutRule
from pages.behaviour.data import Data, from_recordings, split_recording
from pages.behaviour.naming import Naming
from pages.behaviour.view import View
from pages.behaviour.wish import Wish
from pages.ui import live
from pages.ui.exports import Recipe
from pages.ui.live import screen
from tests.support.live_engine import QuickEngine

CONFIG = {"n_states": 3, "seed": 0}
FIT_S = 180 / 30  # the fitted part of 300 frames


@pytest.fixture(scope="module")
def data() -> Data:
    """One recording, its first 60 % fitted."""
    train, test = split_recording(mice.simulate_recordings(1, 300, seed=3)[0])
    return from_recordings("one", "one recording", train, test, "egocentric", Recipe([], []))


@pytest.fixture(scope="module")
def view(data) -> View:
    """A look at the held-out part, with the exact states at hand."""
    fit = live.Live(QuickEngine(), "s")
    fit.want(Wish("gdm", CONFIG, data.train, data.test))
    shown = fit.poll()
    screen.states_of(fit, shown)
    look, _ = screen.states_of(fit, shown)
    return View(fit, shown, look, data, 1, Naming.plain(3), BoutRule(0.2, 0.2))


# ---- the clock ----------------------------------------------------------------------------------------------------
def test_files_of_the_held_out_part_go_on_where_the_fitted_part_ends(view, data):
    here = view.at(view.shown)
    times = FIT_S + np.arange(120) / 30
    np.testing.assert_allclose(takeaway.named_states(here)["time"], times)
    np.testing.assert_allclose(takeaway.features_of(here.trial)["time"], times)
    bouts = takeaway.bouts_of(here)
    assert bouts["Start (s)"].iloc[0] == pytest.approx(FIT_S)
    assert bouts["Stop (s)"].iloc[-1] == pytest.approx(300 / 30)


def test_strips_and_player_point_at_the_same_moment(view, data, monkeypatch):
    drawn = {}
    monkeypatch.setattr(lab, "plot", lambda figure, key, **_: drawn.update({key: figure}))
    monkeypatch.setattr(player, "_player", lambda key, data: drawn.update({key: data}))
    lab.strips(view, view.shown)
    lab._poses(view)
    assert drawn["strips"]["data"][0]["x0"] == pytest.approx(FIT_S)
    assert drawn["player"]["start"] == pytest.approx(FIT_S)


def test_the_same_samples_read_again_on_another_clock_stay_on_the_page(view, data):
    again = tuple(Trials(tuple(replace(t, start_seconds=50.0) for t in side), side.name, side.label_names)
                  for side in (data.train, data.test))  # fmt: skip
    remade = replace(view, data=replace(data, train=again[0], test=again[1]))
    assert remade.at(view.shown).state == "fresh"
    assert remade.at(view.shown).start == 50.0
