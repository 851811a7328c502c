"""What every GDM promises that was taught words with partial labels.

To the bit only what the same calls give in the same process.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from gdm_core import GDM, Trials, load_model
from gdm_core.errors import ConfigError, DataError, FitError
from gdm_core.models.gdm.word_classifier import WordClassifier, window_features
from gdm_core.models.gdm.word_model import check_labels
from gdm_core.trials import as_trials
from tests.contract.test_contract import relabelled
from tests.support.taught import NAMES, labelled, marks

pytestmark = pytest.mark.usefixtures("one_torch_thread")

CONFIGS = {
    "moves": {"n_steps": 60},
    "linear moves": {"posterior": "window_linear", "lags": 2},
    "places": {"posterior": "linear", "n_steps": 60},
    "sticky": {"posterior": "sticky", "n_steps": 15},
    "full noise": {"covariance": "full", "n_steps": 15},
    "auto": {"posterior": "auto", "n_steps": 15},
    "as published": {"preset": "paper", "n_steps": 15, "n_samples": 3},
    "memory": {"transition": "gru", "n_steps": 10},
    "attention": {"posterior": "transformer", "n_steps": 10},
}
every_kind = pytest.mark.parametrize(
    "name",
    [name if name in ("moves", "places") else pytest.param(name, marks=pytest.mark.bulk) for name in CONFIGS],
)


def new(name: str, **changes) -> GDM:
    return GDM(**({"n_states": 5, "n_latent": 2, "n_steps": 30, "n_hidden": 8} | CONFIGS[name] | changes))


@cache
def data() -> Trials:
    return labelled()


@cache
def taught(name: str) -> GDM:
    return new(name).fit(data(), labels=marks(data()))


@every_kind
def test_words_have_probabilities_and_every_verb_still_answers(name):
    model = taught(name)
    proba = model.predict_label_proba(data())
    assert [p.shape for p in proba] == [(600, 3)] * 2
    for p, z in zip(proba, model.predict_labels(data()), strict=True):
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
        assert (p >= 0).all()
        np.testing.assert_array_equal(z, p.argmax(axis=1))
    assert model.class_names_ == NAMES
    assert np.isfinite(model.score(data()))
    assert model.predict_proba(data())[0].shape == (600, 5)
    right = np.mean([np.mean(z == t.labels) for z, t in zip(model.predict_labels(data()), data(), strict=True)])
    assert right > 0.8


@every_kind
def test_nothing_marked_is_the_fit_without_labels_to_the_bit(name):
    plain = new(name).fit(data())
    silent = new(name).fit(data(), labels=[np.full(trial.n_samples, -1) for trial in data()])
    assert plain.params_.keys() == silent.params_.keys()
    for key, value in plain.params_.items():
        np.testing.assert_array_equal(value, silent.params_[key], err_msg=key)
    assert plain.elbo_ == silent.elbo_


@every_kind
def test_renaming_words_permutes_them_and_nothing_else(name):
    order = np.array([2, 0, 1])  # word i is now called order[i]
    other = [np.where(part >= 0, order[part], -1) for part in marks(data())]
    renamed = new(name).fit(data(), labels=other, class_names=[NAMES[i] for i in np.argsort(order)])
    for ours, theirs in zip(taught(name).predict_label_proba(data()), renamed.predict_label_proba(data()), strict=True):
        np.testing.assert_array_equal(ours, theirs[:, order])
    assert renamed.state_words_ == taught(name).state_words_


@every_kind
def test_files_hold_the_words_to_the_bit(name, tmp_path):
    taught(name).save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert isinstance(again, GDM)
    assert again.class_names_ == NAMES
    assert again.state_words_ == taught(name).state_words_
    for ours, theirs in zip(taught(name).predict_label_proba(data()), again.predict_label_proba(data()), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert again.label_doubt_ == taught(name).label_doubt_


@pytest.mark.parametrize("name", ["moves", "places", "full noise"])
def test_renaming_states_leaves_words_alone(name):
    order = [3, 1, 4, 0, 2]
    renamed = relabelled(taught(name), order)
    renamed.word_model_ = taught(name).word_model_
    assert renamed.state_words_ == tuple(taught(name).state_words_[i] for i in order)
    np.testing.assert_allclose(
        renamed.predict_label_proba(data())[0], taught(name).predict_label_proba(data())[0], atol=1e-4
    )


@every_kind
def test_same_seed_same_words(name):
    again = new(name).fit(data(), labels=marks(data()))
    np.testing.assert_array_equal(again.predict_label_proba(data())[0], taught(name).predict_label_proba(data())[0])


def test_a_new_mark_changes_words_from_a_warm_start():
    first = marks(data(), n_clips=4)
    before = new("places").fit(data(), labels=first)
    after = before.warm_start().fit(data(), labels=marks(data(), n_clips=9, seed=4))
    truth = np.concatenate([np.asarray(trial.labels) for trial in data()])
    right = [np.mean(np.concatenate(model.predict_labels(data())) == truth) for model in (before, after)]
    assert right[1] > 0.9
    assert after.warm_start(n_states=6).fit(data(), labels=first).predict_proba(data())[0].shape == (600, 6)


def test_a_warm_start_from_a_fit_without_words_and_from_other_words():
    plain = new("moves").fit(data())
    named = plain.warm_start().fit(data(), labels=marks(data()))
    assert set(named.state_words_) >= set(NAMES)
    two = [np.where(part == 2, -1, part) for part in marks(data(), n_clips=8)]
    fewer = named.warm_start().fit(data(), labels=two)
    assert fewer.predict_label_proba(data())[0][:, 2].max() == 0  # a word that was never marked
    assert named.warm_start().fit(data()).word_model_ is None


def test_words_own_states_and_spare_states_are_reported_free():
    model = taught("places")
    assert set(model.state_words_) - {None} == set(NAMES)
    np.testing.assert_allclose(model.word_map_.sum(axis=1), 1, atol=1e-5)
    for word, row in zip(model.state_words_, model.word_map_, strict=True):
        assert (word is None) == (row.max() <= 0.5)


def test_one_array_does_for_one_recording():
    trial, given = data()[0], marks(Trials((data()[0],)))[0]
    model = new("places").fit(trial, labels=given, class_names=NAMES)
    assert model.predict_labels(trial).shape == (600,)


def test_probabilities_are_about_as_often_right_as_they_say():
    from gdm_core.analysis.teaching import calibration_error

    test = labelled(4, seed=9)
    proba = np.concatenate(taught("moves").predict_label_proba(test))
    assert calibration_error(proba, np.concatenate([np.asarray(t.labels) for t in test])) < 0.1


def test_what_probabilities_are_calibrated_on_is_said():
    assert taught("places").label_doubt_ is None  # both recordings are marked
    one = [np.where(np.arange(600) < 300, data()[0].labels, -1), np.full(600, -1)]
    model = new("places").fit(data(), labels=one)
    assert model.label_doubt_.startswith("Marks lie in one recording alone, so nothing says how sure")


def test_marks_that_tell_nothing_leave_bouts_as_long_as_they_were():
    """Held-back words at random are likeliest where nothing counts; a chain that hears so little would never change."""
    rng, random = np.random.default_rng(0), [np.full(600, -1) for _ in range(3)]
    for part in random:
        for start in rng.permutation(10)[:6] * 60:
            part[start : start + 25] = rng.integers(3)
    model = new("places").fit(labelled(3), labels=random).word_model_
    assert model.strength * 30 == pytest.approx(3)  # moments a second


def test_files_of_before_keep_their_words():
    """They held several classifiers, of which the last one names, and nothing about time."""
    model = taught("places").word_model_
    kept = model.arrays()
    kept["numbers"] = np.array([3, model.stay, 4.0, 2])
    kept |= {name.replace("member0", "member1"): value for name, value in kept.items() if name.startswith("member0")}
    del kept["time"]
    again = type(model).from_arrays(kept, NAMES)
    assert (again.strength, again.longest_gap, again.temperature, again.held_out) == (1.0, 0, 4.0, "parts")
    np.testing.assert_array_equal(again.classifier.share, model.classifier.share)


def test_short_gaps_are_bridged_and_long_ones_are_the_mean():
    y = np.stack([np.arange(40.0), np.arange(40.0)], axis=1) / 10
    y[5:9, 0] = y[10:30, 1] = np.nan
    y[:3, 0] = np.nan  # before the first value there is nothing to bridge from
    seen = window_features(y, (3,), longest=6)
    np.testing.assert_allclose(seen[5:9, 0], np.arange(5, 9) / 10, rtol=1e-6)
    assert (seen[10:30, 1] == 0).all()
    assert (seen[:3, 0] == 0).all()
    assert (window_features(y, (3,), longest=0)[5:9, 0] == 0).all()


def test_trees_answer_like_those_they_were_taken_from():
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6)).astype(np.float32)
    words = (x[:, 0] + 0.3 * rng.normal(size=300) > 0).astype(np.int64) + (x[:, 1] > 1)
    weight = WordClassifier.balanced(words, 3)
    ours = WordClassifier.fit(x, words, weight, 3, 12, seed=4)
    theirs = RandomForestClassifier(12, min_samples_leaf=3, max_samples=180, random_state=4)
    theirs.fit(x, words, sample_weight=weight * 300)
    np.testing.assert_allclose(ours._votes(x), theirs.predict_proba(x), atol=1e-5)


# ---- what is refused of labels, and in which words ------------------------------------------------------------------
TRIALS = labelled(1, 200)


def one(**words: slice) -> np.ndarray:
    given = np.full(200, -1)
    for name, part in words.items():
        given[part] = NAMES.index(name)
    return given


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (one(rest=slice(0, 20)), DataError, "Every mark says 'rest'.*something else"),
        (
            one(rest=slice(0, 20), walk=slice(50, 51)),
            DataError,
            "'walk' is marked for a single frame .frame 50 of 'recording 1'",
        ),
        (
            np.append(one(rest=slice(0, 9), walk=slice(50, 60)), [1, 1, -1]),
            DataError,
            "3 labels lie outside of the recording",
        ),
        (one(rest=slice(0, 9))[:150], DataError, "200 samples but 150 labels"),
        (one(rest=slice(0, 9)).astype(float), DataError, "expected one whole number a sample"),
        (np.where(np.arange(200) == 7, -3, one(rest=slice(0, 5))), DataError, "sample 7 has the label -3"),
        (one(rest=slice(0, 9)) + 3, DataError, "A label is 3 but there are 3 class_names"),
    ],
)
def test_labels_that_teach_nothing_are_refused(labels, error, message):
    with pytest.raises(error, match=message):
        GDM(n_states=4).fit(TRIALS, labels=labels)


def test_more_words_than_states():
    with pytest.raises(ConfigError, match=r"3 words are marked but n_states .K. is 2"):
        GDM(n_states=2).fit(TRIALS, labels=one(rest=slice(0, 9), walk=slice(20, 40), turn=slice(50, 70)))


def test_names_must_differ_and_labels_match_recordings():
    given = one(rest=slice(0, 9), walk=slice(20, 40))
    with pytest.raises(ConfigError, match="holds 'a' twice"):
        GDM(n_states=3).fit(TRIALS, labels=given, class_names=("a", "a"))
    with pytest.raises(DataError, match="labels for 1 recordings, but 2"):
        GDM(n_states=3).fit(labelled(2, 200), labels=[given])


def test_words_without_names_get_numbers_and_nothing_said_is_nothing():
    plain = [np.asarray(TRIALS[0].y)]
    found = check_labels([one(rest=slice(0, 9), turn=slice(20, 40))], as_trials(plain), False, None, 4)
    assert found.names == ("word 0", "word 1", "word 2")
    assert check_labels([np.full(200, -1)], as_trials(plain), False, None, 4) is None


def test_words_count_in_the_order_of_their_first_moments():
    found = check_labels([one(turn=slice(5, 9), rest=slice(20, 40))], TRIALS, False, None, 4)
    assert found.used.tolist() == [2, 0]


def test_a_model_without_words_says_so():
    model = GDM(n_states=3, n_steps=10).fit(TRIALS)
    with pytest.raises(FitError, match="was taught no words"):
        model.predict_labels(TRIALS)
    assert marks(TRIALS)[0].max() >= 0
