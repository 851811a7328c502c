"""Clips of states, and descriptions of states by their channels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from datasets import cohort
from gdm_core.errors import ConfigError
from gdm_core.study import Study
from gdm_core.study.tables import choose_clips, describe_states
from gdm_core.trials import Trial

RATE = 10.0


def test_states_are_described_by_their_channels():
    rng = np.random.default_rng(0)
    states = {name: np.repeat([0, 1, 0, 1, 2], 50) for name in ("a", "b")}
    recordings = {}
    for name, labels in states.items():
        y = rng.normal(size=(250, 3)) * [1.0, 5.0, 0.1] + 100
        y[labels == 0] += [4.0, -20.0, 0.0]
        y[::7, 0] = np.nan
        recordings[name] = Trial(y, RATE, ("speed", "height", "noise"), name=name)
    study = Study.from_states(states, pd.DataFrame({"recording": ["a", "b"]}), RATE, names={3: "never"})
    first, second, _, never = describe_states(study, recordings)
    assert first == "high speed; low height"
    assert second == "high height; low speed"
    assert never == "–"


def test_clips_are_typical_bouts_of_different_animals():
    one = cohort.simulate(4, minutes=2, rate_hz=10, n_sessions=2, seed=1)
    study = Study.from_states(one.states, pd.DataFrame(one.sheet), rate_hz=10)
    clips = choose_clips(study, 4, n=6)
    whose = clips["recording"].map(study.sheet.animals)
    assert whose.nunique() == 6
    lengths = study.bouts().query("state == 4")["duration_s"]
    for name, first, after, begin, end in clips.itertuples(index=False):
        assert (one.states[name][begin:end] == 4).all()
        assert max(0, begin - 5) == first
        assert after == min(len(one.states[name]), end + 5)
        assert 0.5 < (end - begin) / 10 / lengths.median() < 2
    assert len(choose_clips(study, 4, n=12)) == 12, "animals come again where there are not enough"
    with pytest.raises(ConfigError, match="no state 9"):
        choose_clips(study, 9)
