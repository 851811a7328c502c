"""What pages ask of a fit that is taught: words of a trial, the next clips, and how far to trust them.

To the bit only what the same calls give in the same process.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from datasets.marks import Mark, Marks
from gdm_core import GDM, SLDS
from gdm_core.analysis import teaching
from gdm_core.errors import FitError
from gdm_core.trials import painted
from tests.support.taught import NAMES, labelled

pytestmark = pytest.mark.usefixtures("one_torch_thread")
DATA, NEW = labelled(2, 400), labelled(2, 300, seed=5)


@cache
def fit() -> bytes:
    return GDM(n_states=4, n_latent=2, posterior="linear", n_steps=30).fit(DATA).to_bytes()


def lesson(n: int = 4) -> tuple[tuple[teaching.Stretch, ...], tuple[str, ...]]:
    """The first `n` whole bouts of each trial, but for their edges."""
    marks = Marks()
    for trial in DATA:
        known = np.asarray(trial.labels)
        edges = np.flatnonzero(np.diff(known)) + 1
        for start, stop in list(itertools.pairwise(edges))[:n]:
            marks = marks.add(Mark(trial.name, int(start) + 3, int(stop) - 3, NAMES[known[start]]))
    return marks.stretches(DATA), marks.words


def test_a_taught_fit_is_the_fit_of_the_library_with_the_same_labels():
    stretches, words = lesson()
    found = teaching.taught(fit(), DATA, stretches, words, NEW[0])
    model = teaching.model_from_bytes(fit()).warm_start().fit(DATA, labels=painted(DATA, stretches), class_names=words)
    np.testing.assert_array_equal(found.proba, model.predict_label_proba(NEW[0]))
    np.testing.assert_array_equal(found.states, model.predict_proba(NEW[0]))
    assert found.words == words
    assert found.state_words == model.state_words_
    np.testing.assert_allclose(found.proba.sum(axis=1), 1, atol=1e-5)


def test_the_words_agree_with_what_the_new_trial_shows():
    stretches, words = lesson()
    found = teaching.taught(fit(), DATA, stretches, words, NEW[0])
    said = np.array([NAMES.index(word) for word in words])[found.proba.argmax(axis=1)]
    assert np.mean(said == np.asarray(NEW[0].labels)) > 0.8


def test_before_there_are_two_words_clips_are_proposed_all_the_same():
    assert len(teaching.next_clips(fit(), DATA, (), (), (), 3, 1.0)) == 3
    one = ((0, 0, 30, 0),)
    found = teaching.next_clips(fit(), DATA, one, ("rest",), (), 3, 1.0)
    assert all(clip.trial == 1 or clip.start >= 30 for clip in found)


def test_trust_is_measured_on_marks_held_back_and_on_new_trials():
    stretches, words = lesson()
    known = tuple(NAMES.index(word) for word in words)
    found = teaching.trust(fit(), DATA, NEW, stretches, words, known)
    assert found.held_out > found.held_out_majority
    assert found.expert > found.expert_majority
    first = teaching.taught(fit(), DATA, stretches, words, NEW[0]).held_out
    assert first.macro_f1 > first.majority, "known with the lesson, of its classifier"
    assert first.n_words == len(words)
    seconds = sum(stop - start for _, start, stop, _ in stretches) / 30
    assert found.seconds == pytest.approx(seconds)
    foreign = teaching.trust(fit(), DATA, NEW, stretches, words, (-1,) * len(words))
    assert foreign.expert is None
    assert foreign.held_out == found.held_out


def test_of_two_marks_none_can_be_held_back():
    found = teaching.trust(fit(), DATA, NEW, ((0, 0, 20, 0), (0, 60, 80, 1)), ("a", "b"), (-1, -1))
    assert (found.held_out, found.expert) == (None, None)
    assert teaching.taught(fit(), DATA, ((0, 0, 20, 0), (0, 60, 80, 1)), ("a", "b"), NEW[0]).held_out is None


def test_another_model_says_that_it_cannot_be_taught():
    other = SLDS(n_states=2, n_latent=2).fit(DATA).to_bytes()
    with pytest.raises(FitError, match="SLDS cannot be taught words; fit a GDM"):
        teaching.taught(other, DATA, *lesson(), NEW[0])
