"""Uncertainty of scores: pieces of trials, margins, shifted bouts, and kappa of two annotators."""

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa

from gdm_core.analysis import score_uncertainty
from gdm_core.analysis.kappa import measure_kappa
from gdm_core.errors import DataError
from gdm_core.trials import Trial, Trials


def trials(*lengths: int, rate: float = 10.0) -> Trials:
    return Trials(tuple(Trial(np.zeros((n, 1), np.float32), rate, name=f"t{i}") for i, n in enumerate(lengths)))


def stays(n: int, length: int, kinds: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found: list[int] = []
    while len(found) < n:
        found += [int(rng.integers(kinds))] * int(rng.geometric(1 / length))
    return np.array(found[:n])


def test_few_trials_are_cut_into_blocks_of_bouts():
    assert score_uncertainty.split_pieces(trials(*[200] * 6)).words == "6 trials"
    cut = score_uncertainty.split_pieces(trials(1000, 500), bout=20)
    assert cut.parts[0] == (0, 0, 83)
    assert sum(stop - start for _, start, stop in cut.parts) == 1500
    assert min(stop - start for _, start, stop in cut.parts) >= score_uncertainty.BOUTS_A_BLOCK * 20
    assert "blocks of about 8 s" in cut.words
    assert score_uncertainty.split_pieces(trials(20_000, rate=1 / 60)).words == "23 blocks of about 13.9 h"
    assert len(score_uncertainty.split_pieces(trials(160)).parts) < score_uncertainty.MIN_PIECES
    assert len(score_uncertainty.split_pieces(trials(1952), bout=150).parts) < score_uncertainty.MIN_PIECES


def test_margin_of_a_mean_is_students_t():
    hits = np.array([30, 42, 25, 38, 33, 47, 29, 36])
    counts = np.stack(
        [np.array([[h, 50 - h], [0, 0]]) for h in hits]
    )  # 50 samples each: accuracy is a mean over pieces
    expected = student.ppf(0.975, 7) * (hits / 50).std(ddof=1) / np.sqrt(8)
    assert score_uncertainty.margin(counts, None, "accuracy") == pytest.approx(expected)
    assert score_uncertainty.margin(counts, counts, "accuracy") == 0
    assert score_uncertainty.margin(counts[:5], None, "accuracy") is None


def test_margin_of_r2_needs_enough_pieces():
    error, line, total = np.arange(1.0, 9), np.full(8, 9.0), np.full(8, 20.0)
    expected = student.ppf(0.975, 7) * ((line - error) / 20).std(ddof=1) / np.sqrt(8)
    assert score_uncertainty.r2_margin(error, line, total) == pytest.approx(expected)
    assert score_uncertainty.r2_margin(error[:5], line[:5], total[:5]) is None
    assert score_uncertainty.r2_margin(error, line, np.zeros(8)) is None


def test_shifted_bouts_control_false_alarms():
    truth = [stays(2000, 40, 3, seed) for seed in (1, 2)]
    close = [np.where(np.random.default_rng(9).random(2000) < 0.8, z, (z + 1) % 3) for z in truth]
    pieces = score_uncertainty.Pieces(((0, 0, 2000), (1, 0, 2000)), "")
    score = score_uncertainty.score(pieces.counts(close, truth), "macro_f1")
    assert score > score_uncertainty.chance_scores(close, truth, ["macro_f1"])["macro_f1"] + 0.2
    above = 0
    for seed in range(12):
        other = [stays(2000, 40, 3, 100 + 2 * seed + i) for i in range(2)]
        line = score_uncertainty.chance_scores(other, truth, ["macro_f1"], seed)["macro_f1"]
        above += score_uncertainty.score(pieces.counts(other, truth), "macro_f1") > line
    assert above <= 3  # 0.6 are expected; p(more than 3) = .002


# ---- Cohen's kappa -------------------------------------------------------------------------------------------------
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
