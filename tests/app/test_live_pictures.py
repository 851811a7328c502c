"""The pictures of a live fit: colours that stay with their states, drawings that are made once for each, and what is shown while a
slider is held: whatever needs no fit, and then at once the fit itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from datasets.nascar import train_test
from gdm_core import GDM
from gdm_core.analysis import looks, matching
from gdm_core.trials import Trials, as_trials
from gdm_studio.plot import palette
from pages.lab import held
from pages.lab.live import Live, Shown, Wanted, pictures, session
from pages.lab.live.pictures import is_plain
from tests.support.live_engine import ended
from tests.support.live_fit import CONFIG, OTHER, TEST, TRAIN, wanted


# ---- colours ------------------------------------------------------------------------------------------------------
def _soft(labels: np.ndarray, n_states: int) -> np.ndarray:
    return (0.9 * np.eye(n_states)[labels] + 0.1 / n_states).astype(np.float32)


def test_colours_follow_states_through_any_renumbering():
    rng = np.random.default_rng(0)
    states = _soft(rng.integers(0, 5, 400), 5)
    for _ in range(5):
        mixed = rng.permutation(5)
        order = matching.match(states[:, mixed], [(states, 1.0)])
        np.testing.assert_array_equal(states[:, mixed][:, list(order)], states)


def test_colours_stay_when_a_state_is_split_or_dropped():
    labels = np.repeat([0, 1, 2, 1, 0, 2], 50)
    old = _soft(labels, 3)
    split = labels.copy()
    split[250:] = 3  # the second visit to state 2 becomes a state of its own
    new = _soft(split, 4)[:, [3, 1, 0, 2]]
    order = matching.match(new, [(old, 1.0)])
    back = new[:, list(order)]
    np.testing.assert_array_equal(back[:250, :3].argmax(axis=1), labels[:250])
    merged = _soft(np.minimum(labels, 1), 2)[:, ::-1]
    np.testing.assert_array_equal(matching.match(merged, [(old, 1.0)]), [1, 0])


def test_without_a_reference_states_come_in_order_of_appearance():
    states = _soft(np.repeat([2, 0, 1], 20), 4)
    assert matching.match(states, []) == (2, 0, 1, 3)


def test_neighbouring_states_get_colours_that_are_told_apart():
    # As on a lap: seven states in a row, those of the palette's like colours (violet, blue, lilac) side by side at first.
    lap = np.repeat([0, 6, 7, 1, 2, 3, 4, 5], 25)
    states = _soft(np.tile(lap, 4), 8)
    differences = palette.DIFFERENCES
    order = matching.contrasting(states, differences)
    assert sorted(order) == list(range(8))
    colour = {state: place for place, state in enumerate(order)}

    def least(colours: dict[int, int]) -> float:
        around = np.append(lap[::25], lap[0])
        return min(float(differences[colours[a], colours[b]]) for a, b in pairwise(around))

    by_appearance = {int(state): place for place, state in enumerate(matching.match(states, []))}
    assert least(by_appearance) < 17, "or there is nothing to mend"
    assert least(colour) > 19
    assert matching.order_of((states,), None, None, differences) == order
    assert matching.order_of((states,), None, (states,), differences) == tuple(range(8)), "then they are kept"
    assert matching.contrasting(states[:, :1], differences) == (0,)


def test_refits_keep_the_colours_of_the_picture(engine, live):
    before = live.poll().train[0]
    live.want(wanted(temperature=0.85))
    engine.run_all()
    after = live.poll()
    shared = matching.overlap(before, after.train[0])
    assert (shared.argmax(axis=1) == np.arange(3)).all()
    assert after.state == "fresh"


def test_known_states_give_the_first_colours(engine):
    engine.auto = False
    truth = (TRAIN[0].states,)
    live = Live(engine, "s")
    live.want(Wanted("gdm", CONFIG | {"n_states": 4}, TRAIN, TEST, truth=truth))
    engine.run_all()
    shown = live.poll()
    assert is_plain(shown)
    assert matching.match(shown.train[0], [(truth[0], 1.0)]) == (0, 1, 2, 3)


def test_a_copied_link_brings_its_colours(engine):
    engine.auto = False
    first = matching.parse("3-1-2", 3)
    live = Live(engine, "s")
    live.want(wanted(), first_order=first)
    engine.run_all()
    shown = live.poll()
    assert shown.order == (2, 0, 1)
    assert matching.text_of(shown.order) == "3-1-2"


@pytest.mark.parametrize("text", [None, "", "1-2", "1-1-2", "0-1-2", "a-b-c", "1-2-3-4", "3--1"])
def test_colours_of_another_fit_in_the_address_are_ignored(text):
    assert matching.parse(text, 3) is None


# ---- drawings -----------------------------------------------------------------------------------------------------
def test_looking_again_at_what_stands_unpacks_and_compares_nothing(live, monkeypatch):
    shown = live.poll()
    monkeypatch.setattr(session, "unpack", lambda *_: pytest.fail("unpacked again"))
    monkeypatch.setattr(pictures.np, "array_equal", lambda *_: pytest.fail("compared again"))
    assert all(live.poll() is shown for _ in range(50))


def test_a_drawing_is_made_anew_for_other_states_and_only_the_last_is_kept():
    """States that are gone may leave their address to new ones, so an address names nothing."""
    shown = Shown("fresh")
    made = []
    for value in range(50):
        states = np.full(3, value)
        drawn = shown.once("track", lambda: made.append(1) or states.copy(), of=(states,))  # noqa: B023
        assert shown.once("track", lambda: pytest.fail("made twice"), of=(states,)) is drawn
        assert drawn[0] == value
    assert len(made) == 50
    assert len(shown._kept) == 1


def test_a_picture_is_made_again_for_other_data_and_other_settings_only():
    shown = Shown("fresh")
    quick, exact = (np.zeros((5, 2)),), (np.zeros((5, 2)),)
    first = shown.once("states", list, of=(quick,), settings=("all", 3))
    assert shown.once("states", lambda: pytest.fail("made twice"), of=(quick,), settings=("all", 3)) is first
    assert shown.once("states", list, of=(exact,), settings=("all", 3)) is not first, "equal is not the same"
    other = shown.once("states", list, of=(exact,), settings=("all", 4))
    assert shown.once("states", lambda: pytest.fail("made twice"), of=(exact,), settings=("all", 4)) is other
    with pytest.raises(TypeError, match="unhashable"):
        shown.once("states", list, settings=("all", quick))


def test_each_look_at_a_fit_has_an_origin_of_its_own_that_lasts_while_it_stands(engine, live):
    before = live.poll()
    live.want(wanted(n_states=4))
    assert live.poll().state == "stale"
    assert live.poll().origin is before.origin, "the earlier states still stand"
    engine.run_all()
    after = live.poll()
    assert after.origin is not before.origin
    live.want(wanted())
    again = live.poll()
    assert again.result.key == before.result.key
    assert again.origin is not before.origin, "its colours may be in another order now"


# ---- a held slider -------------------------------------------------------------------------------------------------
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
    assert live.prefetch.known(five) is None
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
