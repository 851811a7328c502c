"""Makes the result that the Behaviour page opens with, and its card on Home, from real fits: `python assets/make_mice.py`.

Home shows the very row of the page's card: the score of the first seed, and how it varies over several.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the script lies beside the packages it uses, not in one of them

from assets.make_demo import Result, fitted, write  # noqa: E402
from pages.behaviour import recordings, shipped  # noqa: E402
from pages.lab.card import with_spread  # noqa: E402
from pages.recording.data import Data  # noqa: E402
from pages.recording.scores import score_rows  # noqa: E402

# What a first visit to the page finds; a test compares.
CONFIG = {"n_states": 5, "temperature": 0.99, "stickiness": "learn", "posterior": "linear", "n_latent": 6, "seed": 0}


def first_data() -> Data:
    """The simulated mice that the page opens with."""
    return recordings.load_simulated(recordings.Chosen("simulated", "egocentric", (("frames", 2000), ("seed", 0))))


def make() -> Result:
    """The page's first result is written on the way."""
    data = first_data()
    bundle = shipped.write(data, "gdm", CONFIG, fitted(data.train, CONFIG))
    row, *_ = with_spread(score_rows(bundle.more["scores"]), [score_rows(one) for one in bundle.more["seeds"]])
    print(f"  {row.name} {row.value:.3f}, {row.line_name} {row.line:.3f}, {row.verdict}, {row.over}", flush=True)
    table = data.poses[len(data.train)]
    words = {
        "title": "Two mice",
        "about": "A minute that the model had not seen: the resident's path, in the states it found. Simulated mice.",
        "facts": {"states K": "5", "fitted in": f"{bundle.result.seconds:.1f} s", "measured over": row.over},
        "query": {},
        "licence": "Mice: simulated, no frame is a recording.",
        "scores": [
            {
                "name": "macro-F1 of behaviours",
                "value": round(row.value, 4),
                "spread": None if row.spread is None else round(row.spread, 4),
                "ahead": None if row.ahead is None else round(row.ahead, 4),
                "line": None if row.line is None else round(row.line, 4),
                "line_name": row.line_name,
                "digits": 3,
            }
        ],
    }
    centre = np.nanmean(np.asarray(table.xy)[:, 0], axis=2) * np.array([1.0, -1.0])  # [T, 2], up is up
    return Result(centre, bundle.look.test[0], words, table.labels)


if __name__ == "__main__":
    write("behaviour", make())
