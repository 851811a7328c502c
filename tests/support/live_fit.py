"""A fit session with its first result."""

from typing import Any

from datasets.nascar import train_test
from gdm_core.trials import Trials
from pages.lab import Dataset
from pages.lab.live import FitSession
from pages.lab.live.state import PageSpec
from pages.ui.exports import Recipe
from pages.ui.model_controls import Choice
from tests.support.live_engine import QuickEngine

TRAIN, TEST = (Trials((trial,)) for trial in train_test("standard", 0, 240))
OTHER = Trials((train_test("standard", 3, 240)[0],))
CONFIG = {"n_states": 3, "temperature": 0.9, "stickiness": "learn", "n_latent": 2, "seed": 0}


def spec_of(
    train: Trials = TRAIN, test: Trials = TEST, family: str = "gdm", truth: Any = None, **changes: Any
) -> PageSpec:
    """Return a request for a fit with changes to CONFIG."""
    return spec_with(CONFIG | changes, train, test, family, truth)


def spec_with(
    config: dict[str, Any], train: Trials = TRAIN, test: Trials = TEST, family: str = "gdm", truth: Any = None
) -> PageSpec:
    """Return a request for a fit with this configuration."""
    dataset = Dataset("a track", train, test, Recipe([], []), truth=truth)
    return PageSpec.from_choice(dataset, Choice(family, family, config, family))


def at_rest(engine: QuickEngine) -> FitSession:
    fit = FitSession(engine, "s")
    fit.request(spec_of())
    engine.run_all()
    assert fit.poll().status == "fresh"
    return fit
