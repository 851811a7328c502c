"""Bouts of soft states, names and colours of states, and colours of labels."""

import numpy as np
import pandas as pd
import pytest

from gdm_core.analysis.bouts import BoutRule, fit_bout_rule, median_bout, remove_short_bouts, smooth_states
from gdm_core.errors import ConfigError
from pages.lab import naming
from pages.lab.naming import OTHERS, LabelNames, arrange
from tests.support.drawn import words
from tests.support.page import opened


# ---- bouts --------------------------------------------------------------------------------------------------------
def test_smoothing_is_a_centred_moving_average():
    soft = np.random.default_rng(0).dirichlet(np.ones(3), 40).astype(np.float32)
    found = smooth_states(soft, 5)
    for t in (0, 1, 20, 38, 39):
        np.testing.assert_allclose(found[t], soft[max(0, t - 2) : t + 3].mean(axis=0), atol=1e-6)
    np.testing.assert_array_equal(smooth_states(soft, 1), soft)


def test_short_bouts_are_removed_and_long_ones_kept():
    z = np.repeat([0, 1, 0, 2, 1, 2], [20, 3, 15, 2, 4, 30])
    found = remove_short_bouts(z, 10)
    lengths = np.diff(np.flatnonzero(np.r_[True, np.diff(found) != 0, True]))
    assert lengths.min() >= 10
    assert (found[:18] == 0).all()
    assert (found[-30:] == 2).all()
    np.testing.assert_array_equal(remove_short_bouts(z, 1), z)
    assert (remove_short_bouts(np.tile([0, 1, 1], 5), 9) == 1).all()


def test_negative_smoothing_raises_config_error():
    with pytest.raises(ConfigError, match="smooth_s"):
        BoutRule(-1.0)


def test_median_bout_ignores_unlabelled_samples():
    assert median_bout([np.repeat([0, -1, 1], [4, 50, 8])]) == 6


def test_bout_rule_is_half_the_median_labelled_bout():
    labels = [np.repeat([0, -1, 1, 2], [60, 500, 90, 30]), np.repeat([1, 0], [120, 60])]
    assert fit_bout_rule(labels, 30.0) == BoutRule(1.0, 1.0)
    assert fit_bout_rule([np.repeat([0, 1], 20_000)], 30.0) == BoutRule(5.0, 5.0), "limited by the range of the control"
    assert fit_bout_rule([np.arange(50)], 30.0) == BoutRule(0.1, 0.1)
    assert fit_bout_rule([np.full(50, -1)], 30.0) is None
    assert fit_bout_rule([], 30.0) is None


# ---- names, merges, colours ---------------------------------------------------------------------------------------
def test_merged_states_add_up_and_others_keep_colours():
    soft = np.random.default_rng(0).dirichlet(np.ones(4), 30).astype(np.float32)
    made = arrange(["", "walk", "", ""], [0, 1, 1, 3])
    out = made.apply(soft)
    np.testing.assert_allclose(out[:, 1], soft[:, 1] + soft[:, 2], atol=1e-6)
    np.testing.assert_array_equal(out[:, [0, 3]], soft[:, [0, 3]])
    assert (out[:, 2] == 0).all()
    assert made.names == ("S1", "walk", "(in walk)", "S4")
    assert made.used == [0, 1, 3]


def test_chosen_colour_swaps_with_its_owner():
    made = arrange(["a", "b", "c"], [0, 1, 2], [11, None, 1])
    assert made.into == (11, 2, 1)
    assert made.used == [11, 2, 1], "in the order of states"
    assert [made.numbers[column] for column in made.used] == [1, 2, 3]
    assert (made.names[11], made.names[2], made.names[1], made.names[0]) == ("a", "b", "c", "")
    soft = np.random.default_rng(0).dirichlet(np.ones(3), 9).astype(np.float32)
    out = made.apply(soft)
    assert out.shape == (9, 12)
    np.testing.assert_array_equal(out[:, [11, 2, 1]], soft)


@pytest.mark.parametrize("merged", [[0, 1, 2], [0, 2, 2]])
def test_script_merges_states_regardless_of_colours(merged):
    made = arrange(["a", "b", "c"], merged, [11, None, 1])
    soft = np.random.default_rng(0).dirichlet(np.ones(3), 9).astype(np.float32)
    space = {"np": np, "states": [soft], "new_states": [soft[::-1]]}
    exec("\n".join(made.code()), space)
    assert space["names"] == [made.names[column] for column in made.used]
    np.testing.assert_allclose(space["named"][0], made.apply(soft)[:, made.used])
    np.testing.assert_allclose(space["new_named"][0], made.apply(soft)[::-1, made.used])


def test_label_colours_go_to_the_best_matching_states():
    weight = np.array([[1, 8, 0, 0], [9, 2, 0, 0], [0, 30, 0, 1], [0, 0, 5, 2]])
    assert naming.label_colours(weight) == (4, 0, 1, 2), (
        "of two states for one label, the one with the larger share gets its colour"
    )
    alone = naming.label_colours(np.eye(3)[[0, 0, 0]])
    assert alone[0] == 0
    assert not {1, 2} & set(alone), "colours of labels without a state stay unused"
    assert len(set(naming.label_colours(np.ones((12, 12))))) == 12, "colours stay distinct when labels run out"


@pytest.mark.parametrize("merged", [[1, 0, 2], [1, 2, 0], [1, 2, 2]])
def test_chained_and_circular_merges_lose_no_share(merged):
    soft = np.random.default_rng(1).dirichlet(np.ones(3), 20).astype(np.float32)
    out = arrange(["", "", ""], merged).apply(soft)
    np.testing.assert_allclose(out.sum(axis=1), 1, atol=1e-5)


def test_weights_are_times_of_labels_in_states():
    soft = np.eye(3, dtype=np.float32)[np.repeat([0, 1, 2], 10)]
    weight = naming.weights([soft], [np.repeat([1, 0, 1], 10)], 2)
    assert weight.tolist() == [[0, 10], [10, 0], [0, 10]]
    assert naming.weights([soft], [None], 2) is None


def table(labels: list[str]) -> bytes:
    """Two channels at 50 a second, with a label for each row."""
    turn = np.arange(len(labels)) / 9
    columns = {"time": np.arange(len(labels)) / 50, "a": np.cos(turn), "b": np.sin(turn), "label": labels}
    return pd.DataFrame(columns).to_csv(index=False).encode()


# ---- labels -------------------------------------------------------------------------------------------------------
def test_twelve_labels_have_a_colour_each():
    names = [f"L{k}" for k in range(12)]
    words = LabelNames.from_labels(names, [np.arange(12), None])
    assert words.names == tuple(names)
    assert words.remark == ""
    np.testing.assert_array_equal(words.grouped([3, -1, 11, 99]), [3, -1, 11, -1])


def test_rare_labels_share_one_colour():
    labels = np.repeat(np.arange(20), np.r_[np.full(9, 2), np.full(11, 9)])
    words = LabelNames.from_labels([f"L{k}" for k in range(20)], [labels])
    assert words.names == (*(f"L{k}" for k in range(9, 20)), OTHERS)
    assert words.grouped([0, 8, 9, 19, -1]).tolist() == [11, 11, 0, 10, -1]
    assert "other 9 share one" in words.remark
    hot = words.one_hot(labels)
    assert hot.shape == (len(labels), 12)
    np.testing.assert_allclose(hot[:, 11].sum(), 18)


def test_unnamed_labels_are_numbered():
    assert LabelNames.from_labels(["rest"], [np.array([0, 2])]).names == ("rest", "behaviour 2", "behaviour 3")
    assert LabelNames.from_labels(["rest"], [np.array([-1, -1]), None]) is None
    assert LabelNames.from_labels([], []) is None


def test_thirty_labels_are_drawn_in_every_tab(engine):
    app = opened("your_data", view="Bouts")
    labels = [f"L{k}" for _ in range(10) for k in range(30) for _ in range(1 + (k > 18))]
    app.file_uploader(key="upload").upload("walk.csv", table(labels)).run()
    app.button(key="fit").click().run()
    for tab in ("Bouts/Durations", "Bouts/Transitions", "Export/"):
        app.session_state["view"], _, app.session_state["bouts"] = tab.partition("/")
        text = words(app.run())
        assert f"{OTHERS}</span>" in text, tab
        assert "L29</span>" in text, tab
        assert "L3</span>" not in text, tab
