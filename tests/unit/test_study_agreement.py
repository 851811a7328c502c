"""Agreement of the states of a study with labels of an expert."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from datasets import cohort
from gdm_core import Study
from gdm_core.errors import DataError
from pages.study import checks


def test_agreement_matches_names_or_overlapping_states():
    made = cohort.simulate(2, minutes=1, seed=1)
    study = Study.from_states(made.states, pd.DataFrame(made.sheet), made.rate_hz, cohort.BEHAVIOURS)
    words = dict(enumerate(reversed(cohort.BEHAVIOURS)))  # other numbers for the same names
    same = {f"{name}.csv": len(words) - 1 - codes for name, codes in made.states.items()}
    kappa, n, matched = checks.compare_labels(study, same, words, {})
    assert (kappa.kappa, n, matched) == (pytest.approx(1.0), 4, False)
    halves = {name: np.minimum(codes, 2)[:-100] for name, codes in made.states.items()}
    kappa, _, matched = checks.compare_labels(study, halves, {0: "x", 1: "y", 2: "z"}, {})
    assert matched
    assert kappa.kappa == pytest.approx(1.0), "each state lies within one label"
    assert kappa.n_frames == sum(len(codes) - 100 for codes in made.states.values())
    cut = {name: codes[30:] for name, codes in made.states.items()}  # from a column of the sheet
    cropped = Study.from_states(cut, pd.DataFrame(made.sheet), made.rate_hz, cohort.BEHAVIOURS)
    kappa, *_ = checks.compare_labels(cropped, same, words, dict.fromkeys(cut, 30 / made.rate_hz))
    assert kappa[:1] + kappa[-1:] == (pytest.approx(1.0), sum(map(len, cut.values())))
    windows = Study.from_states(
        {name: codes[30::5] for name, codes in made.states.items()},
        pd.DataFrame(made.sheet),
        made.rate_hz / 5,
        cohort.BEHAVIOURS,
    )
    kappa, *_ = checks.compare_labels(windows, same, words, dict.fromkeys(cut, 30 / made.rate_hz), 5)
    assert kappa.kappa == pytest.approx(1.0)
    with pytest.raises(DataError, match="No label file has the name"):
        checks.compare_labels(study, {"other": np.zeros(9, int)}, {}, {})
