"""Fit requests of engine tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdm_core.engine import FitRequest
from gdm_core.trials import Trial, Trials
from tests.support.fake_model import FAMILY
from tests.support.patience import until as until

TRIALS = Trials((Trial(np.random.default_rng(0).standard_normal((500, 3)), name="one"),))
PATIENCE_S = 240.0


def request(trials: Trials = TRIALS, **settings: object) -> FitRequest:
    """Return a fit of the fake model; settings unknown to FitRequest are configuration."""
    own = {"warm_start", "preview", "snapshot_every_s", "deadline_s", "hold_limit_s", "use_cache"}
    config = {name: value for name, value in settings.items() if name not in own}
    return FitRequest(FAMILY, config, trials, **{name: settings[name] for name in own & settings.keys()})  # type: ignore[arg-type]


def long_request(**settings: Any) -> FitRequest:
    """Return a fit of at least a hundred seconds."""
    return request(**{"n_steps": 5000, "step_s": 0.02, "deadline_s": 600.0, "use_cache": False} | settings)
