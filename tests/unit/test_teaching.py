"""A fit that is taught: words of a trial, the next clips, and how far to trust them.

To the bit only what the same calls give in the same process.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from datasets.marks import Mark, Marks
from gdm_core import GDM, SLDS, Trials
from gdm_core.analysis import teaching
from gdm_core.analysis.proposals import Clip, propose, unlike_taught
from gdm_core.analysis.teaching import calibration_error, held_out_agreement
from gdm_core.errors import ConfigError, DataError, FitError
from gdm_core.trials import painted
from tests.support.taught import NAMES, labelled, marks

pytestmark = pytest.mark.usefixtures("one_torch_thread")
DATA, NEW, LONG = labelled(2, 400), labelled(2, 300, seed=5), labelled()


@cache
def fit() -> bytes:
    return GDM(n_states=4, n_latent=2, posterior="linear", n_steps=30).fit(DATA).to_bytes()


def lesson(n: int = 4) -> tuple[tuple[teaching.Stretch, ...], tuple[str, ...]]:
    """The first `n` whole bouts of each trial, but for their edges."""
    given = Marks()
    for trial in DATA:
        known = np.asarray(trial.labels)
        edges = np.flatnonzero(np.diff(known)) + 1
        for start, stop in list(itertools.pairwise(edges))[:n]:
            given = given.add(Mark(trial.name, int(start) + 3, int(stop) - 3, NAMES[known[start]]))
    return given.stretches(DATA), given.words


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


# ---- clips that are proposed, recordings unlike those that were taught, and how far words can be trusted -----------------
@cache
def taught() -> GDM:
    return GDM(n_states=4, n_latent=2, posterior="linear", n_steps=30).fit(LONG, labels=marks(LONG))


def overlap(a: Clip, b: Clip) -> bool:
    return a.trial == b.trial and a.start < b.stop and b.start < a.stop


def test_no_moment_is_proposed_twice_and_none_that_is_marked():
    given, asked = marks(LONG), []
    for _ in range(3):
        found = propose(taught(), LONG, given, n=3, asked=asked)
        assert len(found) == 3
        for clip in found:
            assert (given[clip.trial][clip.start : clip.stop] < 0).all()
            assert not any(overlap(clip, before) for before in asked)
            asked.append(clip)
        assert all(clip.stop - clip.start == 60 for clip in found)


def test_proposals_end_when_the_recordings_are_used_up():
    found = propose(taught(), LONG, n=1000)
    assert len(found) == 20  # two recordings of 600 frames in clips of 60
    assert len({(clip.trial, clip.start) for clip in found}) == 20
    assert propose(taught(), LONG, n=5, asked=found) == ()


def test_the_clip_that_is_least_sure_comes_first():
    sure = [p.max(axis=1) for p in taught().predict_label_proba(LONG)]
    found = propose(taught(), LONG, n=20)
    doubts = [1 - sure[c.trial][c.start : c.stop].mean() for c in found]
    np.testing.assert_allclose(doubts, sorted(doubts, reverse=True))
    np.testing.assert_allclose([c.value for c in found], doubts, atol=1e-6)


def test_a_model_without_words_proposes_what_differs():
    plain = GDM(n_states=3, n_latent=2, posterior="linear", n_steps=20).fit(LONG)
    found = propose(plain, LONG, n=6)
    shown = {int(np.bincount(np.asarray(LONG[c.trial].labels)[c.start : c.stop]).argmax()) for c in found}
    assert shown == {0, 1, 2}


def test_impossible_questions_are_refused():
    with pytest.raises(ConfigError, match="at least one clip"):
        propose(taught(), LONG, n=0)
    with pytest.raises(DataError, match="one label a sample"):
        propose(taught(), LONG, [np.zeros(3)])


def test_a_recording_unlike_those_taught_is_flagged():
    alike = labelled(1, seed=5)[0]
    other = replace(alike, y=4 * np.asarray(alike.y)[:, ::-1] + 3, name="another lens")
    flags = unlike_taught(taught(), Trials((alike, other)))
    assert flags[0] is None
    assert flags[1].startswith("another lens looks unlike the recordings that were taught")


def test_the_calibration_error_is_the_distance_of_promises_from_what_was_kept():
    proba = np.array([[0.9, 0.1]] * 10 + [[0.4, 0.6]] * 10)
    truth = np.array([0] * 9 + [1] + [1] * 2 + [0] * 8)
    assert calibration_error(proba, truth) == pytest.approx((0.6 - 0.2) / 2)  # 0.9 of 0.9 is kept
    assert calibration_error(proba, np.where(np.arange(20) < 10, truth, -1)) == pytest.approx(0.0)
    with pytest.raises(DataError, match="reliability needs labels"):
        calibration_error(proba, np.full(20, -1))


@pytest.mark.bulk
def test_agreement_is_measured_on_clips_that_were_held_back():
    given = marks(LONG, n_clips=8)
    numbers = [np.full(len(part), -1) for part in given]
    for i, part in enumerate(given):
        begins = np.flatnonzero(np.diff(part, prepend=-1) > 0)
        for j, at in enumerate(begins):
            numbers[i][at:] = 100 * i + j
        numbers[i][part < 0] = -1
    found, majority = held_out_agreement(taught(), LONG, given, numbers)
    assert found > majority + 0.3
    wrong = [np.where(part >= 0, (np.arange(len(part)) // 20) % 3, -1) for part in given]  # words without meaning
    nonsense, _ = held_out_agreement(taught(), LONG, wrong, numbers)
    assert nonsense < 0.7


def test_too_few_marks_to_hold_any_back():
    given = marks(LONG, n_clips=2)
    numbers = [np.where(part >= 0, i, -1) for i, part in enumerate(given)]
    assert held_out_agreement(taught(), LONG, given, numbers) is None
