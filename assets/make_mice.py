"""Makes the result that the Behaviour page opens with, and its card on Home, from real fits: `python assets/make_mice.py`.

The page opens with the first seed; the card's score is the mean over several seeds, with their standard deviation.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the script lies beside the packages it uses, not in one of them

from assets.make_demo import SEEDS, Result, fitted, write  # noqa: E402
from gdm_core.analysis import bout_scores  # noqa: E402
from pages.behaviour import recordings, shipped  # noqa: E402
from pages.recording.data import Data  # noqa: E402

# What a first visit to the page finds; a test compares.
CONFIG = {"n_states": 5, "temperature": 0.99, "stickiness": "learn", "posterior": "linear", "n_latent": 6}


def first_data() -> Data:
    """The simulated mice that the page opens with."""
    return recordings.load_simulated(recordings.Chosen("simulated", "egocentric", (("frames", 2000), ("seed", 0))))


def make() -> Result:
    """The page's first result is written on the way."""
    data = first_data()
    rule = data.expert_rule
    assert rule is not None
    scores, lines, bundle = [], [], None
    for seed in SEEDS:
        config = CONFIG | {"seed": seed}
        result = fitted(data.train, config)
        if bundle is None:
            bundle = shipped.write(data, "gdm", config, rule, result)
        found = bout_scores.measure(result.model_bytes, data.train, data.test, rule.smooth_s, rule.shortest_s, seed)
        known = bout_scores.baselines(data.train, data.test, int(config["n_states"]), seed)
        scores.append(found["macro_f1"])
        free = [v["macro_f1"] for name, v in known.items() if not name.startswith(scores.SUPERVISED)]
        lines.append(max(value for value in free if value is not None))
        print(f"  seed {seed}: macro-F1 {scores[-1]:.3f}, best line without a model {lines[-1]:.3f}", flush=True)
    assert bundle is not None
    table = data.poses[len(data.train)]
    words = {
        "title": "Two mice",
        "about": "A minute that the model had not seen: the resident's path, in the states it found. Simulated mice.",
        "facts": {"states K": "5", "fitted in": f"{bundle.result.seconds:.1f} s", "mice": "simulated"},
        "query": {},
        "licence": "Mice: simulated, no frame is a recording.",
        "scores": [
            {
                "name": "macro-F1 of behaviours",
                "value": round(float(np.mean(scores)), 4),
                "spread": round(float(np.std(scores)), 4),
                "line": round(float(np.mean(lines)), 4),
                "line_name": "best without a model",
                "digits": 2,
            }
        ],
    }
    centre = np.nanmean(np.asarray(table.xy)[:, 0], axis=2) * np.array([1.0, -1.0])  # [T, 2], up is up
    return Result(centre, bundle.look.test[0], words, table.labels)


if __name__ == "__main__":
    write("behaviour", make())
