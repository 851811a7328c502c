"""What a live fit shows while a slider is held: whatever needs no fit, and then at once the fit itself."""

from __future__ import annotations

import numpy as np
import pytest

from datasets.nascar import train_test
from gdm_core import GDM
from gdm_core.analysis import looks
from gdm_core.trials import Trials, as_trials
from pages.lab import held
from pages.lab.live import session
from tests.support.live_engine import ended
from tests.support.live_fit import OTHER, wanted


def test_a_held_slider_shows_what_it_can_at_once_and_fits_nothing(engine, live):
    before, jobs = live.poll().train[0], len(engine.jobs)
    pictures = []
    for softness in (0.5, 0.3, 0.1):
        live.want(wanted(temperature=softness), moving=True)
        shown = live.poll()
        assert shown.state == "preview"
        assert not shown.fitting
        assert not live.running
        pictures.append(shown.train[0])
    assert len(engine.jobs) == jobs
    assert all(np.abs(a - b).max() > 0.02 for a, b in zip([before, *pictures], pictures, strict=False))


def test_letting_go_starts_the_fit_at_once_and_the_picture_stays_until_then(engine, live):
    for change in ({"temperature": 0.3}, {"n_states": 5}):
        live.want(wanted(**change), moving=True)
        held = live.poll().train[0]
        live.want(wanted(**change))
        (main,) = engine.waiting()
        assert main.slot == "main"
        assert live.poll().state in {"preview", "running"}
        np.testing.assert_array_equal(live.poll().train[0], held)
        engine.run_all()
        assert live.poll().state == "fresh"
        assert live.poll().result.key == wanted(**change).key


def test_a_held_slider_ends_the_fit_under_way(engine, live):
    live.want(wanted(n_states=5))
    (job,) = engine.waiting()
    live.want(wanted(n_states=6), moving=True)
    assert ended(job)
    assert live.poll().state == "preview"


def test_another_number_of_states_is_split_from_the_nearest_fit_while_it_is_held(engine, live):
    for n_states in (2, 5, 4):
        live.want(wanted(n_states=n_states), moving=True)
        shown = live.poll()
        assert shown.state == "preview"
        assert shown.train[0].shape == (240, n_states)
        np.testing.assert_allclose(shown.train[0].sum(axis=1), 1, atol=1e-4)


def test_a_setting_seen_before_is_itself_while_it_is_held(engine, live):
    first = live.poll().train[0]
    live.want(wanted(n_states=5))
    engine.run_all()
    live.want(wanted(n_states=4), moving=True)
    live.want(wanted(), moving=True)
    np.testing.assert_allclose(live.poll().train[0], first)
    live.want(wanted())
    engine.run_all()
    assert live.poll().result.from_cache or live.poll().state == "fresh"


def test_other_data_are_read_by_the_fit_that_stands_while_a_slider_of_theirs_is_held(engine, live):
    live.want(wanted(train=OTHER), moving=True)
    shown = live.poll()
    assert shown.state == "preview"
    assert shown.wanted.train is OTHER
    assert shown.train[0].shape == (240, 3)
    fewer = Trials((train_test("standard", 0, 240, n_channels=4)[0],))
    live.want(wanted(train=fewer), moving=True)  # which no fit can read: what stood stays, and says so
    assert live.poll().state == "stale"


def test_colours_follow_what_stood_before_the_movement(engine, live):
    anchor = live.poll().train[0]
    for n_states in (6, 2, 5):
        live.want(wanted(n_states=n_states), moving=True)
        live.poll()
    assert live._colours._anchor is not None
    assert live._colours._anchor[1][0] is anchor
    live.want(wanted(n_states=5))
    assert live._colours._anchor[1][0] is anchor


@pytest.mark.parametrize("how", ["fails", "is not kept"])
def test_a_fit_begun_ahead_that_comes_to_nothing_is_not_begun_again(engine, live, how):
    five = wanted(n_states=5)
    assert live.look_ahead([five])
    (job,) = engine.waiting()
    if how == "fails":
        job.fail(ValueError("no"))
    else:
        engine.run_all()
        engine.cache.results.clear()
    assert not live.look_ahead([five])
    assert not engine.waiting()
    assert live.other_fits.known(five) is None
    live.want(five)
    assert [job.slot for job in engine.waiting()] == ["main"], "who asks for it gets it"


def test_what_is_too_large_for_the_server_is_looked_at_by_a_worker(engine, live, monkeypatch):
    monkeypatch.setattr(session, "PREVIEW_HERE", 0)
    monkeypatch.setattr(session, "GLIMPSE_WAIT_S", 0.0)
    live.want(wanted(temperature=0.3), moving=True)
    (job,) = engine.waiting()
    assert job.slot == "preview"
    live.want(wanted(temperature=0.2), moving=True)
    assert ended(job), "the latest wins"
    engine.run_all()
    assert live.poll().state == "preview"


@pytest.mark.parametrize("name", held.VALUES)
def test_between_the_values_of_a_sweep_straight_lines_are_as_near_as_is_said(name):
    train, _ = train_test("standard", 3, 300)
    trials = as_trials(train)
    model = GDM(4, 2, stickiness=0.3, n_steps=150).fit(trials).to_bytes()
    values = held.VALUES[name][1]
    states = np.stack([soft for (soft,) in looks.sweep(model, trials, trials, [0], name, values)]) / 255.0
    for i in (0, len(values) // 3, len(values) // 2, len(values) - 2):
        exact = looks.first_look(model, trials, {name: values[i]})[0]
        np.testing.assert_allclose(states[i], exact, atol=0.5 / 255 + 1e-6)
    off = [
        np.abs((low + high) / 2 - looks.first_look(model, trials, {name: (v + w) / 2})[0]).mean()
        for low, high, v, w in zip(states, states[1:], values, values[1:], strict=False)
    ]
    assert max(off) < held.OFF[name]
    assert np.mean(off) < held.OFF["temperature"], "jumps are few"
