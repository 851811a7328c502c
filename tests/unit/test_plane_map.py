"""The map of next states over the plane."""

import numpy as np
import pytest

from datasets import nascar
from gdm_core import GDM
from gdm_core.analysis.envelopes import plane_map
from tests.support.quick_model import quick_model


@pytest.mark.parametrize(("model", "source"), [(GDM(4, 2, n_steps=10), "transition"), (quick_model(), "nearby")])
def test_plane_map_is_a_distribution_at_each_point(model, source):
    trial = nascar.simulate("soft", 300, seed=1)
    found = plane_map(model.fit(trial, calibrate=False).to_bytes(), trial)
    assert found.source == source
    assert found.probabilities.shape == (len(found.ys), len(found.xs), 4)
    np.testing.assert_allclose(found.probabilities.sum(axis=2), 1, rtol=1e-5)
