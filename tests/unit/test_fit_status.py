"""How a fit ends: converged only where the bound no longer improves."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from datasets import nascar
from gdm_core import ARHMM, GDM
from gdm_core.maths.rows import make_rows
from gdm_core.models.em import PATIENCE
from gdm_core.models.progress import Status


@pytest.fixture(scope="module")
def track():
    return nascar.simulate("soft", 500, seed=701).y


def quick(model, y):
    for _ in model.fit_iter(y, calibrate=False):
        pass
    return model


def test_fit_that_still_improves_has_not_converged(track):
    assert quick(GDM(4, 2, n_steps=12), track).status_ is Status.MAX_STEPS
    assert quick(ARHMM(4, 2, n_iter=3), track).status_ is Status.MAX_STEPS


def test_excerpt_bounds_compare_by_common_random_numbers(track):
    short, long = (quick(GDM(4, 2, n_steps=n), track) for n in (12, 200))
    rows = make_rows([long.scaler_.apply(track)], torch.device("cpu"))
    assert long._excerpt_bound(rows) == long._excerpt_bound(rows)
    assert long._still_improves(short.params_, rows)
    assert not long._still_improves(long.params_, rows)
    assert not short._still_improves(long.params_, rows)


def test_converged_em_fit_gained_nothing_at_last(track):
    model = quick(ARHMM(4, 2, transitions="sticky"), track)
    assert model.status_ is Status.CONVERGED
    objective = np.array([progress.objective for progress in model.history_])
    assert len(objective) > PATIENCE + 2
    assert np.diff(objective)[-PATIENCE:].max() < model.tolerance
    assert np.diff(objective)[:-PATIENCE].max() > model.tolerance
