"""Facts about one state, against what can be counted by hand, and the map of next states."""

import numpy as np
import pytest

from datasets import nascar
from gdm_core import GDM
from gdm_core.analysis.envelopes import plane_map
from gdm_core.analysis.explain import effect_sizes, explain_state
from tests.support.quick_model import quick_model

BOUTS = np.repeat([0, 1, 2, 1, 0, 1], [4, 2, 3, 2, 4, 20])
SOFT = np.eye(3, dtype=np.float32)[BOUTS]


def test_facts_count_bouts_neighbours_and_shares():
    values = np.column_stack([BOUTS == 1, np.arange(len(BOUTS)) % 2, np.zeros(len(BOUTS))]).astype(np.float32)
    facts = explain_state(SOFT, BOUTS, 1, values, ("here", "odd", "constant"))
    assert facts.share == pytest.approx(24 / 35)
    assert facts.lengths.tolist() == [2, 2, 20]
    assert facts.before == ((0, pytest.approx(2 / 3)), (2, pytest.approx(1 / 3)))
    assert facts.after == ((0, 0.5), (2, 0.5))
    ((name, sds),) = facts.differences
    assert name == "here"
    assert sds == pytest.approx((1 - 24 / 35) / np.std(BOUTS == 1))
    assert facts.typical.tolist() == [[4, 6], [9, 11], [15, 35]]


def test_bouts_of_usual_length_and_high_share_are_typical():
    bouts = np.tile(np.repeat([0, 1], 5), 8)
    soft = np.eye(2, dtype=np.float32)[bouts]
    soft[:50, 0] *= 0.6
    facts = explain_state(soft, bouts, 0, np.zeros((80, 1), np.float32), ("x",))
    assert len(facts.typical) == 5
    assert {50, 60, 70} <= set(facts.typical[:, 0].tolist())
    assert facts.differences == ()


def test_state_without_a_bout_has_no_typical_moment():
    facts = explain_state(np.full((9, 2), 0.5, np.float32), np.zeros(9, np.int64), 1, np.ones((9, 1)), ("x",))
    assert (len(facts.lengths), len(facts.typical), facts.before, facts.after) == (0, 0, (), ())
    assert facts.share == 0.5


def test_missing_values_do_not_count():
    values = np.array([[1.0, np.nan], [3.0, np.nan], [np.nan, np.nan], [5.0, np.nan]])
    weight = np.array([0.0, 0.0, 1.0, 1.0])
    assert effect_sizes(values, weight) == pytest.approx([2 / np.std([1, 3, 5]), 0.0])


@pytest.mark.parametrize(("model", "source"), [(GDM(4, 2, n_steps=10), "transition"), (quick_model(), "nearby")])
def test_plane_map_is_a_distribution_at_each_point(model, source):
    trial = nascar.simulate("soft", 300, seed=1)
    found = plane_map(model.fit(trial, calibrate=False).to_bytes(), trial)
    assert found.source == source
    assert found.probabilities.shape == (len(found.ys), len(found.xs), 4)
    np.testing.assert_allclose(found.probabilities.sum(axis=2), 1, rtol=1e-5)
