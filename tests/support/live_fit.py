"""A live fit with its first result."""

from __future__ import annotations

from datasets.nascar import train_test
from gdm_core.trials import Trials
from pages.lab.live import Live, Wanted
from tests.support.live_engine import QuickEngine

TRAIN, TEST = (Trials((trial,)) for trial in train_test("standard", 0, 240))
OTHER = Trials((train_test("standard", 3, 240)[0],))
CONFIG = {"n_states": 3, "temperature": 0.9, "stickiness": "learn", "n_latent": 2, "seed": 0}


def wanted(train: Trials = TRAIN, **changes) -> Wanted:
    return Wanted("gdm", CONFIG | changes, train, TEST)


def at_rest(engine: QuickEngine) -> Live:
    made = Live(engine, "s")
    made.want(wanted())
    engine.run_all()
    assert made.poll().state == "fresh"
    made._changed_at = -1e9  # the visitor has been looking at it for a while
    return made
