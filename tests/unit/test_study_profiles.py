"""Descriptions of states by their channels."""

from __future__ import annotations

import numpy as np
import pandas as pd

from gdm_core.study import Study
from gdm_core.study.tables import describe_states
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
