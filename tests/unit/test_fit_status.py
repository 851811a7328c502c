"""How a fit ends: converged only where the bound no longer improves."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch

from datasets import nascar
from gdm_core import ARHMM, GDM
from gdm_core.maths.rows import make_rows
from gdm_core.models.em import PATIENCE
from gdm_core.models.gdm.candidates import candidates
from gdm_core.models.gdm.fit import Plan, optimise
from gdm_core.models.progress import Status
from gdm_core.models.scaling import Scaler
from gdm_core.trials import as_trials


@pytest.fixture(scope="module")
def track():
    return nascar.simulate("soft", 500, seed=701).y


def test_fit_that_still_improves_has_not_converged(track):
    assert GDM(4, 2, n_steps=12).fit(track, calibrate=False).status_ is Status.MAX_STEPS
    assert ARHMM(4, 2, n_iter=3).fit(track, calibrate=False).status_ is Status.MAX_STEPS


@pytest.mark.parametrize("options", [{}, {"transition": "network"}])
def test_bounds_during_a_fit_use_common_random_numbers(track, options):
    model = GDM(4, 2, **options)
    rows = make_rows([Scaler.from_trials(as_trials(track)).apply(track)], torch.device("cpu"))
    ascent = candidates(rows, model.config, 0)
    for weighted in (False, True):
        assert ascent.bound(weighted) == ascent.bound(weighted)
    before = ascent.bound(False)
    for _ in islice(optimise(ascent, Plan((30, 30), 0)), 30):
        pass
    assert ascent.bound(False) != before


def test_fit_stops_exploring_when_its_bound_is_flat(track):
    model = GDM(4, 2).fit(track, calibrate=False)
    last = model.history_[-1]
    assert last.step == last.total < 180
    assert model.status_ is Status.CONVERGED


def test_converged_em_fit_gained_nothing_at_last(track):
    model = ARHMM(4, 2, transitions="sticky").fit(track, calibrate=False)
    assert model.status_ is Status.CONVERGED
    objective = np.array([progress.objective for progress in model.history_])
    assert len(objective) > PATIENCE + 2
    assert np.diff(objective)[-PATIENCE:].max() < model.tolerance
    assert np.diff(objective)[:-PATIENCE].max() > model.tolerance
