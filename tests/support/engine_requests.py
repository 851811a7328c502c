"""Fits of engine tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from distributed import Client

from gdm_core.engine import Engine, FitSpec
from gdm_core.trials import Trial, Trials
from tests.support.fake_model import FAMILY
from tests.support.patience import until as until
from tests.support.work import scheduler_address

TRIALS = Trials((Trial(np.random.default_rng(0).standard_normal((500, 3)), name="one"),))
PATIENCE_S = 240.0


def fake_fit(trials: Trials = TRIALS, **settings: object) -> FitSpec:
    """Return a fit of the fake model; settings unknown to FitSpec are configuration."""
    own = {"preview", "use_cache"}
    config = {name: value for name, value in settings.items() if name not in own}
    return FitSpec(FAMILY, config, trials, **{name: settings[name] for name in own & settings.keys()})  # type: ignore[arg-type]


@contextmanager
def connect(engine: Engine) -> Iterator[Client]:
    """Connect to the cluster of an engine."""
    address = engine.submit(scheduler_address).result(PATIENCE_S)
    with Client(address, set_as_default=False) as client:
        yield client


def long_fit(**settings: Any) -> FitSpec:
    """Return a fit of at least a hundred seconds."""
    return fake_fit(**{"n_steps": 5000, "step_s": 0.02, "use_cache": False} | settings)
