"""A GPU gives the same results as the CPU."""

import numpy as np
import pytest
import torch

from datasets import nascar
from gdm_core import GDM
from gdm_core.errors import ConfigError

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU that torch can use")
SETTINGS = {"n_states": 3, "n_latent": 2, "n_steps": 30}
VARIANTS = [{}, {"posterior": "linear"}, {"transition": "network"}, {"transition": "gru"}, {"posterior": "transformer"}]


@pytest.fixture(scope="module")
def y() -> np.ndarray:
    values = np.array(nascar.simulate("soft", T=600, seed=0).y)
    values[50:60, 2] = np.nan
    return values


def move_to(model: GDM, device: str) -> GDM:
    """Return the fitted model on another device."""
    other = GDM(**(model.get_params() | {"device": device}))
    other.params_, other.scaler_, other.calibration_ = model.params_, model.scaler_, model.calibration_
    return other


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_cuda_without_gpu_raises_config_error(y):
    with pytest.raises(ConfigError, match="no GPU can be used here"):
        GDM(**SETTINGS, device="cuda").fit(y)
    assert GDM(**SETTINGS, device="auto").fit(y).predict(y).shape == (600,)


@on_a_gpu
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_model_answers_the_same_on_gpu(y, variant):
    here = GDM(**SETTINGS, **variant, device="cpu").fit(y)
    there = move_to(here, "cuda")
    for verb in ("predict_proba", "smooth", "latent"):
        np.testing.assert_allclose(getattr(there, verb)(y), getattr(here, verb)(y), atol=2e-3, err_msg=verb)
    assert torch.cuda.max_memory_allocated()
    if "transition" not in variant:  # its bound averages over device-specific draws
        assert there.score(y) == pytest.approx(here.score(y), abs=1e-2)
    ahead = there.forecast(y, horizon=3, n_paths=400, origins=[300]).mean
    np.testing.assert_allclose(ahead, here.forecast(y, horizon=3, n_paths=400, origins=[300]).mean, atol=0.2)


@on_a_gpu
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_gpu_fit_scores_like_cpu_fit(y, variant):
    settings = SETTINGS | variant | {"n_steps": 150}
    here, there = GDM(**settings, device="cpu").fit(y), GDM(**settings, device="cuda").fit(y)
    assert there.score(y) == pytest.approx(here.score(y), abs=1.0)
