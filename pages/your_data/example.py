"""Simulated example file with labels."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from datasets import nascar

NAME = "example.csv"
N_TRIALS, N_ROWS, RATE_HZ, NOISE = 6, 600, 30.0, 0.07
WORDS = ("right turn", "left turn", "upper straight", "lower straight")


@cache
def content() -> bytes:
    """Return the content of the file."""
    emission = nascar.emission(4, seed=0)
    trials = []
    for number in range(N_TRIALS):
        trial = nascar.simulate("standard", N_ROWS, seed=number, emission=emission, noise=NOISE)
        columns = {"trial": number + 1, "time": (np.arange(N_ROWS) / RATE_HZ).round(4)}
        columns |= {f"sensor {j + 1}": trial.y[:, j].round(4) for j in range(trial.y.shape[1])}
        trials.append(pd.DataFrame(columns | {"label": np.array(WORDS)[trial.labels]}))
    return pd.concat(trials, ignore_index=True).to_csv(index=False).encode()
