"""What is refused of labels, and in which words."""

from __future__ import annotations

import numpy as np
import pytest

from gdm_core import GDM
from gdm_core.errors import ConfigError, DataError, FitError
from gdm_core.models.gdm.word_model import check_labels
from tests.support.taught import NAMES, labelled, marks

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
    from gdm_core.trials import as_trials

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
