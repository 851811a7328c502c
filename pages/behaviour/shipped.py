"""The first result of the page: which it is, and what is measured of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gdm_core.analysis import bout_scores, looks
from gdm_core.engine import FitResult
from gdm_studio.seeds import MORE_SEEDS
from pages.lab import Data
from pages.lab import shipped as ships
from pages.lab.shipped import Shipped

NAME = "behaviour"


def bundled() -> Shipped | None:
    """The result that ships with the app, or None where it does not."""
    return ships.load(NAME)


def write(data: Data, family: str, config: Mapping[str, Any], result: FitResult) -> Shipped:
    """Save a result for the page, with bouts read as the page reads them at first and the scores of more seeds."""
    rule, seed = data.expert_rule, int(config["seed"])
    assert rule is not None
    question = (data.train, data.test, rule.smooth_s, rule.shortest_s)
    seeds = [
        looks.last(bout_scores.seed_parts(family, dict(config) | {"seed": seed + more}, *question))
        for more in range(1, MORE_SEEDS + 1)
    ]
    scores = bout_scores.scores(result.model_bytes, *question, seed)
    more = {"options": [rule.smooth_s, rule.shortest_s], "scores": scores, "seeds": seeds}
    return ships.write(NAME, data.train, data.test, family, config, result, more)
