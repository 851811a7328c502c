"""Small studies of values or states, made in memory."""

import numpy as np
import pandas as pd

from gdm_core import Study


def valued(**columns) -> Study:
    """Return a study for comparing the sheet's column "value"."""
    sheet = pd.DataFrame(columns)
    sheet.insert(0, "recording", [f"r{i}" for i in range(len(sheet))])
    return Study.from_states(dict.fromkeys(sheet["recording"], np.zeros(4, int)), sheet)


def labelled(groups=("a", "b"), n=6, k=3, n_samples=400, seed=0, **columns) -> Study:
    rng = np.random.default_rng(seed)
    states = {f"r{i}": np.repeat(rng.integers(0, k, n_samples // 4), 4) for i in range(n * len(groups))}
    sheet = pd.DataFrame({"recording": list(states), "animal": list(states), "group": np.repeat(groups, n)})
    return Study.from_states(states, sheet.assign(**columns), rate_hz=10)
