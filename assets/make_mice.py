"""Write the first result of the Behaviour page and its card on Home, from real fits: `python assets/make_mice.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from assets.make_demo import fit_result, strip_texts, write_variants  # noqa: E402
from gdm_core.analysis import bout_scores  # noqa: E402
from gdm_core.engine import FitSpec  # noqa: E402
from gdm_core.engine.results import from_levels  # noqa: E402
from gdm_studio.seeds import MORE_SEEDS  # noqa: E402
from pages.behaviour import recordings  # noqa: E402
from pages.lab import Dataset  # noqa: E402
from pages.lab.card import with_spread  # noqa: E402
from pages.lab.scores import PAPER, bout_rows  # noqa: E402
from pages.ui import shipped  # noqa: E402
from pages.ui.shipped import Card, write_card  # noqa: E402

# The settings of a first visit to the page; a test compares them.
CONFIG = {"n_states": 5, "temperature": 0.99, "stickiness": "learn", "posterior": "linear", "n_latent": 6, "seed": 0}


def first_data() -> Dataset:
    """Return the simulated mice of a first visit."""
    return recordings.load_simulated(
        recordings.ChosenRecordings("simulated", "egocentric", (("frames", 2000), ("seed", 0)))
    )


def make() -> Card:
    """Write the first result of the page and return its card."""
    data = first_data()
    rule, result = data.expert_rule, fit_result(data.train, CONFIG)
    assert rule is not None
    question = (data.train, data.test, rule.smooth_s, rule.shortest_s)  # the page's initial bout rule
    scores = bout_scores.scores(result.model_bytes, *question, CONFIG["seed"])
    seeds = [
        bout_scores.scores(fit_result(data.train, CONFIG | {"seed": seed}).model_bytes, *question, seed)
        for seed in range(CONFIG["seed"] + 1, CONFIG["seed"] + MORE_SEEDS + 1)
    ]
    more = {"options": [rule.smooth_s, rule.shortest_s], "scores": scores, "seeds": seeds}
    bundle = shipped.write(recordings.SHIPPED, FitSpec("gdm", CONFIG, data.train, test=data.test), result, more)
    write_variants(recordings.SHIPPED, data.train, data.test, CONFIG)
    assert bundle.result.states is not None
    rows = with_spread(
        bout_rows(bundle.result.scores["scores"]), [bout_rows(one) for one in bundle.result.scores["seeds"]]
    )
    row = next(row for row in rows if row.name == PAPER)
    print(f"  {row.name} {row.value:.3f}, {row.line_name} {row.line:.3f}, {row.verdict}, {row.over}", flush=True)
    table = data.poses[len(data.train)]
    centre = np.nanmean(np.asarray(table.xy)[:, 0], axis=2) * np.array([1.0, -1.0])  # [T, 2], up is up
    return Card(
        centre,
        from_levels(bundle.result.states.test[0]),
        strip_texts(row),
        {},
    )


if __name__ == "__main__":
    write_card(recordings.SHIPPED, make())
