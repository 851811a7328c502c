"""Settings side by side: what can be told apart, and what cannot, in scores and moment by moment."""

from __future__ import annotations

import json

import numpy as np
import pytest

from datasets import nascar
from gdm_core.analysis import comparisons
from gdm_core.analysis.comparisons import (
    Cell,
    blocks_of,
    consensus,
    distance,
    fitted_cell,
    like,
    lines_to_beat,
    moments,
    verdict,
)  # fmt: skip
from gdm_core.errors import DataError
from gdm_core.trials import Trial, Trials


def table(mean, spread=0.1, seeds=3, blocks=12, seed=0, hard=None):
    """[seeds, blocks] around a mean; `hard` is what every setting finds hard alike."""
    noise = spread * np.random.default_rng(seed).normal(size=(seeds, blocks))
    return (mean + noise + (0 if hard is None else hard)).tolist()


def laps(length=300):
    lap, another = nascar.train_test("standard", 0, length)
    return Trials((lap,)), Trials((another,))


def test_a_clear_difference_is_told_and_a_small_one_is_not():
    found = verdict("ten", {"A": table(1.0, seed=1), "B": table(0.98, seed=2), "C": table(0.2, seed=3)})
    assert set(found.best) == {"A", "B"}
    assert [d.second for d in found.behind] == ["C"]
    assert "cannot be told apart" in found.sentence
    assert found.sentence.endswith(".")
    assert found.differences[0].first == "A"
    assert not found.differences[0].is_one
    assert found.basis.startswith("95 % intervals over 12 blocks of the new trials and 3 seeds")


def test_blocks_that_are_hard_for_everybody_do_not_hide_a_difference():
    hard = np.random.default_rng(0).normal(size=12) * 5
    found = verdict("ten", {"A": table(1.0, seed=1, hard=hard), "B": table(0.5, seed=2, hard=hard)})
    assert found.best == ("A",)
    assert found.behind[0].mean == pytest.approx(0.5, abs=0.15)


def test_what_seeds_change_counts():
    lucky = [[value] * 12 for value in (1.5, 0.1, 1.4)]
    assert len(verdict("ten", {"A": lucky, "B": table(0.5, 0.01)}).best) == 2


def test_intervals_hold_what_they_promise_for_all_pairs_at_once():
    wrong = 0
    for trial in range(300):
        names = {name: table(0.0, seed=1000 * trial + i) for i, name in enumerate("ABCD")}
        wrong += any(d.is_one for d in verdict("ten", names).differences)
    assert wrong <= 0.05 * 300 + 2 * np.sqrt(300 * 0.05 * 0.95)
    right = sum(
        verdict("ten", {"A": table(0.3, seed=2 * i), "B": table(0.0, seed=2 * i + 1)}).best == ("A",) for i in range(50)
    )
    assert right == 50, "and they are not so wide that nothing is ever told"


def test_unknown_blocks_are_left_out_for_all():
    a = np.array(table(1.0))
    a[:, 3] = np.nan
    found = verdict("ten", {"A": a.tolist(), "B": table(0.0, seed=5)})
    assert found.n_blocks == 11
    assert found.best == ("A",)


def test_one_setting_has_nothing_to_be_compared_with():
    assert verdict("ten", {"A": table(1.0)}).sentence == ""


def test_different_blocks_are_refused():
    with pytest.raises(DataError, match="same ones"):
        verdict("ten", {"A": table(1.0), "B": table(1.0, blocks=7)})


def test_small_differences_are_printed_with_digits_that_say_something():
    close = comparisons.Difference("A", "B", 0.00054, 0.00036)
    assert close.text("ten").replace("\u00a0", " ") == "0.00054 ± 0.00036"
    assert comparisons.Difference("A", "B", 0.25, 0.062).text("ten").replace("\u00a0", " ") == "0.250 ± 0.062"


def test_no_block_reaches_over_the_seam_of_two_trials():
    _, test = laps()
    two = Trials((test[0].slice(0, 90), test[0].slice(90, 300)))
    blocks = blocks_of(two)
    assert np.array_equal(np.concatenate(blocks), np.arange(300))
    assert not any(block[0] < 90 <= block[-1] for block in blocks)


def test_trials_that_are_too_short_are_refused_with_what_to_do():
    with pytest.raises(DataError, match="Take longer new trials"):
        blocks_of(Trials((Trial(np.zeros((50, 2))),)))


@pytest.mark.parametrize("family", ["gdm", "arhmm"])
def test_a_fit_is_measured_in_blocks_and_travels_through_a_store(family):
    train, test = laps()
    plain = fitted_cell(family, {"n_states": 4, "n_latent": 2, "seed": 0}, train, test)
    cell = Cell.from_dict(json.loads(json.dumps(plain)))
    assert set(cell.blocks) == {"states", "density", "ten", "next"}
    assert {len(values) for values in cell.blocks.values()} == {len(blocks_of(test))}
    assert cell.states.shape == (300, 4)
    assert np.allclose(cell.states.sum(axis=1), 1, atol=0.02)
    assert 0 <= cell.scores["coverage_90"] <= 1
    assert cell.mean("states") == pytest.approx(cell.scores["matched_accuracy"], abs=0.02)
    assert cell.parameters > 0


def test_lines_to_beat_are_measured_in_the_same_blocks():
    train, test = laps()
    lines = {name: Cell.from_dict(cell) for name, cell in lines_to_beat(train, test, 4).items()}
    assert len(lines["linear AR(1)"].blocks["density"]) == len(blocks_of(test))
    assert "density" not in lines["stands still"].blocks, "a guess without a spread has no density"
    assert lines["linear AR(1)"].mean("ten") > lines["stands still"].mean("ten")
    assert "matched_accuracy" in lines["k-means on steps"].scores


def test_unlabelled_trials_have_no_true_states():
    train, test = (Trials((Trial(side[0].y, 1.0),)) for side in laps())
    cell = Cell.from_dict(fitted_cell("arhmm", {"n_states": 3, "n_latent": 2, "seed": 0}, train, test))
    assert "states" not in cell.blocks
    assert set(lines_to_beat(train, test, 3)) == {"stands still", "linear AR(1)"}


# ---- fits beside each other, moment by moment -----------------------------------------------------------------------
def soft(length=200, n_states=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(n_states, 0.2), length).astype(np.float32)


def test_fits_that_differ_by_numbering_alone_agree_wholly():
    one = soft()
    fits = [one, one[:, [2, 0, 1]], one[:, [1, 2, 0]]]
    found = consensus(fits)
    assert found.share == pytest.approx(1, abs=1e-6)
    assert any(np.allclose(found.states, fit) for fit in fits)


def test_more_states_come_after_those_with_a_like():
    one = soft(n_states=2)
    more = np.column_stack([one[:, 1], np.zeros(len(one)), one[:, 0]]).astype(np.float32)
    moved = like(more, one)
    assert moved.shape == (200, 3)
    assert np.allclose(moved[:, :2], one)
    fewer = like(one, more)
    assert fewer.shape == (200, 3)


def test_the_distance_is_the_weight_that_differs():
    one = np.eye(2, dtype=np.float32)[np.r_[np.zeros(50, int), np.ones(50, int)]]
    other = one.copy()
    other[40:50] = [0, 1]
    apart = distance(one, other)
    assert apart.mean() == pytest.approx(0.1)
    assert moments(apart) == [(40, 50)]


def test_moments_come_weightiest_first_and_blips_are_left_out():
    apart = np.zeros(100, np.float32)
    apart[10:12], apart[20:25], apart[60:80] = 1, 1, 0.9
    assert moments(apart) == [(60, 80), (20, 25)]


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(DataError, match="same trial"):
        distance(soft(100), soft(200))
    with pytest.raises(DataError, match="same number of states"):
        consensus([soft(n_states=2), soft(n_states=3)])
    with pytest.raises(DataError, match="no fit"):
        consensus([])
