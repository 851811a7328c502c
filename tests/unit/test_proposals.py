"""Clips that are proposed, and recordings that look unlike those that were taught."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gdm_core import GDM, Trials
from gdm_core.analysis.proposals import Clip, propose, unlike_taught
from gdm_core.analysis.teaching import calibration_error, held_out_agreement
from gdm_core.errors import ConfigError, DataError
from tests.support.taught import labelled, marks

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@cache
def data() -> Trials:
    return labelled()


@cache
def taught() -> GDM:
    return GDM(n_states=4, n_latent=2, posterior="linear", n_steps=30).fit(data(), labels=marks(data()))


def overlap(a: Clip, b: Clip) -> bool:
    return a.trial == b.trial and a.start < b.stop and b.start < a.stop


def test_no_moment_is_proposed_twice_and_none_that_is_marked():
    given, asked = marks(data()), []
    for _ in range(3):
        found = propose(taught(), data(), given, n=3, asked=asked)
        assert len(found) == 3
        for clip in found:
            assert (given[clip.trial][clip.start : clip.stop] < 0).all()
            assert not any(overlap(clip, before) for before in asked)
            asked.append(clip)
        assert all(clip.stop - clip.start == 60 for clip in found)


def test_proposals_end_when_the_recordings_are_used_up():
    found = propose(taught(), data(), n=1000)
    assert len(found) == 20  # two recordings of 600 frames in clips of 60
    assert len({(clip.trial, clip.start) for clip in found}) == 20
    assert propose(taught(), data(), n=5, asked=found) == ()


def test_the_clip_that_is_least_sure_comes_first():
    sure = [p.max(axis=1) for p in taught().predict_label_proba(data())]
    found = propose(taught(), data(), n=20)
    doubts = [1 - sure[c.trial][c.start : c.stop].mean() for c in found]
    np.testing.assert_allclose(doubts, sorted(doubts, reverse=True))
    np.testing.assert_allclose([c.value for c in found], doubts, atol=1e-6)


def test_a_model_without_words_proposes_what_differs():
    plain = GDM(n_states=3, n_latent=2, posterior="linear", n_steps=20).fit(data())
    found = propose(plain, data(), n=6)
    shown = {int(np.bincount(np.asarray(data()[c.trial].labels)[c.start : c.stop]).argmax()) for c in found}
    assert shown == {0, 1, 2}


def test_impossible_questions_are_refused():
    with pytest.raises(ConfigError, match="at least one clip"):
        propose(taught(), data(), n=0)
    with pytest.raises(DataError, match="one label a sample"):
        propose(taught(), data(), [np.zeros(3)])


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
    given = marks(data(), n_clips=8)
    numbers = [np.full(len(part), -1) for part in given]
    for i, part in enumerate(given):
        begins = np.flatnonzero(np.diff(part, prepend=-1) > 0)
        for j, at in enumerate(begins):
            numbers[i][at:] = 100 * i + j
        numbers[i][part < 0] = -1
    found, majority = held_out_agreement(taught(), data(), given, numbers)
    assert found > majority + 0.3
    wrong = [np.where(part >= 0, (np.arange(len(part)) // 20) % 3, -1) for part in given]  # words without meaning
    nonsense, _ = held_out_agreement(taught(), data(), wrong, numbers)
    assert nonsense < 0.7


def test_too_few_marks_to_hold_any_back():
    given = marks(data(), n_clips=2)
    numbers = [np.where(part >= 0, i, -1) for i, part in enumerate(given)]
    assert held_out_agreement(taught(), data(), given, numbers) is None
