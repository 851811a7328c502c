"""The sentence about the effect of the last change of settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pages.lab.sentences import FinishedFit, LastChange, changed_share

BEFORE = np.repeat([0, 1, 2], 100)


def finished(key: str, labels: np.ndarray, **settings: str) -> FinishedFit:
    return FinishedFit(key, ("track",), {"model": "GDM", **settings}, labels)


def test_reordered_states_are_no_change():
    assert changed_share(BEFORE, (BEFORE + 1) % 3) == 0


def test_changed_samples_are_counted():
    after = BEFORE.copy()
    after[:30] = 1
    assert changed_share(BEFORE, after) == pytest.approx(0.1)
    after[250:] = 3
    assert changed_share(BEFORE, after) == pytest.approx(80 / 300)


def test_sentence_names_setting_and_effect():
    after = BEFORE.copy()
    after[250:] = 3
    before, now = finished("a", BEFORE, K="K = 3"), finished("b", after, K="K = 4")
    assert LastChange(before).then(now).sentence == "K = 4: changed 17% of state assignments."


def test_no_sentence_without_comparison():
    before = finished("a", BEFORE)
    assert LastChange(before).sentence == ""
    assert LastChange(before).then(finished("b", BEFORE)).sentence == ""
    other = replace(finished("b", BEFORE, K="K = 4"), content=("another track",))
    assert LastChange(before).then(other).sentence == ""
