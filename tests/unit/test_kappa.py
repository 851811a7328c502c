"""Cohen's kappa of two annotators against other libraries and simulated agreement."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa

from gdm_core.analysis.kappa import measure_kappa
from gdm_core.errors import DataError


def annotate(rng, n_recordings=20, n_bouts=60, wrong=0.2):
    """Return labels of two annotators; the second gives a share of the bouts a random label."""
    first, second = [], []
    for _ in range(n_recordings):
        lengths, labels = rng.integers(5, 40, n_bouts), rng.integers(0, 3, n_bouts)
        other = np.where(rng.random(n_bouts) < wrong, rng.integers(0, 3, n_bouts), labels)
        first.append(np.repeat(labels, lengths))
        second.append(np.repeat(other, lengths))
    return first, second


def test_kappa_equals_scikit_learn_and_statsmodels():
    first, second = annotate(np.random.default_rng(0))
    first[0][:50] = -1
    second[1][:20] = -1
    found = measure_kappa(first, second)
    a, b = np.concatenate(first), np.concatenate(second)
    known = (a >= 0) & (b >= 0)
    assert found.kappa == pytest.approx(cohen_kappa_score(a[known], b[known]))
    table = np.bincount(a[known] * 3 + b[known], minlength=9).reshape(3, 3)
    assert found.kappa == pytest.approx(cohens_kappa(table).kappa)
    assert (found.n_frames, found.agreement) == (known.sum(), (a == b)[known].mean())
    plain = cohens_kappa(table)  # treats frames as independent
    assert found.high - found.low > 2 * (plain.kappa_upp - plain.kappa_low)


def test_one_recording_is_resampled_in_pieces():
    first, second = annotate(np.random.default_rng(1), n_recordings=1, n_bouts=400)
    found = measure_kappa(first, second)
    assert 0 < found.low < found.kappa < found.high < 1


def test_equal_labels_have_kappa_one():
    first, _ = annotate(np.random.default_rng(0))
    assert measure_kappa(first, first)[:4] == (1, 1, 1, 1)
    assert measure_kappa([np.zeros(9, int)], [np.zeros(9, int)]).kappa == 1


def test_different_frames_raise_data_error():
    with pytest.raises(DataError, match="same frames"):
        measure_kappa([np.zeros(4, int)], [np.zeros(5, int)])
    with pytest.raises(DataError, match="No frame has a label of both"):
        measure_kappa([np.array([0, -1])], [np.array([-1, 0])])


@pytest.mark.bulk
def test_interval_covers_the_true_kappa():
    """A share of .2 of random labels among three has kappa .8."""
    rng = np.random.default_rng(2)
    found = [measure_kappa(*annotate(rng, n_bouts=15)) for _ in range(400)]
    assert 0.91 < np.mean([one.low <= 0.8 <= one.high for one in found]) < 0.98
