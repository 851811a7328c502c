"""Colours of states: they stay with their states from fit to fit and in links."""

from itertools import pairwise

import numpy as np
import pytest

from gdm_core.analysis import matching
from gdm_studio.plot import palette
from pages.lab.live import FitSession
from pages.lab.live.state import has_default_order
from tests.support.live_fit import TRAIN, spec_of


def _soft(labels: np.ndarray, n_states: int) -> np.ndarray:
    return (0.9 * np.eye(n_states)[labels] + 0.1 / n_states).astype(np.float32)


def test_colours_follow_renumbered_states():
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
    split[250:] = 3  # the second visit to state 2 becomes a new state
    new = _soft(split, 4)[:, [3, 1, 0, 2]]
    order = matching.match(new, [(old, 1.0)])
    back = new[:, list(order)]
    np.testing.assert_array_equal(back[:250, :3].argmax(axis=1), labels[:250])
    merged = _soft(np.minimum(labels, 1), 2)[:, ::-1]
    np.testing.assert_array_equal(matching.match(merged, [(old, 1.0)]), [1, 0])


def test_colours_return_after_a_fit_with_fewer_states():
    labels = np.repeat([0, 1, 2, 3, 1, 0, 3, 2], 50)
    four = _soft(labels, 4)
    three = _soft(np.where(labels == 1, 0, np.maximum(labels - 1, 0)), 3)[:, [2, 0, 1]]
    order = matching.find_order((three,), None, (four,))
    narrow = three[:, list(order)]
    again = four[:, [2, 0, 3, 1]]
    order = matching.find_order((again,), None, (narrow,), widest=(four,))
    np.testing.assert_array_equal(again[:, list(order)], four)


def test_states_without_reference_are_in_order_of_appearance():
    states = _soft(np.repeat([2, 0, 1], 20), 4)
    assert matching.match(states, []) == (2, 0, 1, 3)


def test_neighbouring_states_get_distinct_colours():
    # Seven states in a row, as on a lap; the similar violet, blue and lilac are neighbours at first.
    lap = np.repeat([0, 6, 7, 1, 2, 3, 4, 5], 25)
    states = _soft(np.tile(lap, 4), 8)
    differences = palette.DIFFERENCES
    order = matching.contrasting_order(states, differences)
    assert sorted(order) == list(range(8))
    colour = {state: place for place, state in enumerate(order)}

    def least(colours: dict[int, int]) -> float:
        around = np.append(lap[::25], lap[0])
        return min(float(differences[colours[a], colours[b]]) for a, b in pairwise(around))

    by_appearance = {int(state): place for place, state in enumerate(matching.match(states, []))}
    assert least(by_appearance) < 17, "otherwise there is nothing to improve"
    assert least(colour) > 19
    assert matching.find_order((states,), None, None, differences) == order
    assert matching.find_order((states,), None, (states,), differences) == tuple(range(8)), "earlier colours are kept"
    assert matching.contrasting_order(states[:, :1], differences) == (0,)


def blocks_of(*order: int, n: int = 300, rest: int = 0) -> np.ndarray:
    """Return hard states [n, K] that follow `order` in blocks of 20; the last 100 samples are in state `rest`."""
    which = np.array(order)[np.arange(n) // 20 % len(order)]
    which[-100:] = rest
    return np.eye(max(order) + 1, dtype=np.float32)[which]


def test_matching_states_share_a_column():
    truth = blocks_of(0, 1, 2, 3)
    same, permuted = matching.share_columns([truth, truth[:, [2, 0, 3, 1]]], 12)
    assert same.tolist() == [0, 1, 2, 3]
    assert permuted.tolist() == [2, 0, 3, 1]


def test_states_without_a_match_get_a_new_column():
    truth = blocks_of(0, 1)
    other = np.eye(3, dtype=np.float32)[np.arange(300) // 7 % 3]  # unrelated to the truth
    half = np.stack([truth[:, 1], truth[:, 0] * (np.arange(300) < 200), truth[:, 0] * (np.arange(300) >= 200)], axis=1)
    _, apart, split, again = matching.share_columns([truth, other, half, other[:, [1, 2, 0]]], 12)
    assert apart.tolist() == [2, 3, 4]
    assert split[0] == 1
    assert 0 in split.tolist()
    assert max(split) == 5, "the other half has a column of its own"
    assert again.tolist() == [3, 4, 2], "later models match columns of earlier ones"


def test_columns_never_exceed_the_palette():
    rng = np.random.default_rng(0)
    found = matching.share_columns([np.eye(8, dtype=np.float32)[rng.integers(0, 8, 400)] for _ in range(4)], 12)
    assert max(int(columns.max()) for columns in found) == 11
    assert all(len(set(columns.tolist())) == 8 for columns in found)


def test_refit_keeps_colours(engine, live):
    before = live.poll().states[0]
    live.request(spec_of(temperature=0.85))
    engine.run_all()
    after = live.poll()
    shared = matching.overlap(before, after.states[0])
    assert (shared.argmax(axis=1) == np.arange(3)).all()
    assert after.status == "fresh"


@pytest.mark.parametrize("n_states", [2, 4])
def test_colours_return_with_the_number_of_states(engine, live, n_states):
    before = live.poll().states[0]
    for spec in (spec_of(n_states=n_states), spec_of(temperature=0.85)):
        live.request(spec)
        engine.run_all()
        live.poll()
    shared = matching.overlap(before, live.poll().states[0])
    assert (shared.argmax(axis=1) == np.arange(3)).all()


def test_first_colours_follow_known_states(engine):
    engine.auto = False
    truth = (TRAIN[0].states,)
    live = FitSession(engine, "s")
    live.request(spec_of(n_states=4, truth=truth))
    engine.run_all()
    shown = live.poll()
    assert has_default_order(shown)
    assert matching.match(shown.states[0], [(truth[0], 1.0)]) == (0, 1, 2, 3)


def test_copied_link_restores_colours(engine):
    engine.auto = False
    first = matching.parse_order("3-1-2", 3)
    live = FitSession(engine, "s")
    live.request(spec_of(), link_order=first)
    engine.run_all()
    shown = live.poll()
    assert shown.order == (2, 0, 1)
    assert matching.format_order(shown.order) == "3-1-2"


def test_address_restored_by_back_has_its_own_colours(engine, live):
    live.request(spec_of(temperature=0.85), link_order=(2, 0, 1))
    engine.run_all()
    assert live.poll().order != (2, 0, 1), "a moved slider keeps colours"
    live.request(spec_of(), link_order=(2, 0, 1), address=1)
    engine.run_all()
    assert live.poll().order == (2, 0, 1)
    live.request(spec_of(temperature=0.85), address=2)
    engine.run_all()
    assert has_default_order(live.poll())


@pytest.mark.parametrize("text", [None, "", "1-2", "1-1-2", "0-1-2", "a-b-c", "1-2-3-4", "3--1"])
def test_invalid_colours_in_link_are_ignored(text):
    assert matching.parse_order(text, 3) is None
