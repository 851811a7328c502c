"""What was measured of the first result of the page, and the rule for bouts that it was measured with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdm_core.analysis.bouts import BoutRule
from gdm_core.engine import FitResult
from pages.lab import shipped as ships
from pages.lab.shipped import Shipped
from pages.recording.data import Data

NAME = "behaviour"


def bundled() -> Shipped | None:
    """The result that ships with the app, or None where it does not."""
    return ships.load(NAME)


def write(data: Data, family: str, config: Mapping[str, Any], rule: BoutRule, result: FitResult) -> Shipped:
    """Save a result for the page."""
    from gdm_core.analysis import bout_scores

    seed = int(config["seed"])
    more = {
        "rule": {"smooth_s": rule.smooth_s, "shortest_s": rule.shortest_s},
        "measured": bout_scores.measure(
            result.model_bytes, data.train, data.test, rule.smooth_s, rule.shortest_s, seed
        ),
        "lines": bout_scores.baselines(data.train, data.test, int(config["n_states"]), seed),
    }
    return ships.write(NAME, data.train, data.test, family, config, result, more)
