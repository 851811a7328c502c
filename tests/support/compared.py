"""Comparison results without fits."""

from typing import Any

import numpy as np

from gdm_core.analysis.comparisons import Cell
from gdm_core.errors import FitError

GOOD = {"gdm": 0.9, "arhmm": 0.6, "slds": 0.88, "pdlds": 0.3}
fits: list[tuple[str, int]] = []


def made_up(family: str, setting: dict[str, Any], train: Any, test: Any) -> dict[str, Any]:
    """Return a cell in which GDM and SLDS score equally well, and others worse."""
    fits.append((family, setting["seed"]))
    if family == "pdlds":
        raise FitError("The fit diverged.")
    noise = np.random.default_rng((setting["seed"], len(family))).normal(size=12) * 0.03
    k = setting["n_states"]
    which = (np.arange(test.n_samples) // 20 + (family == "slds")) % k
    if family == "slds":  # differs in two stretches and in the order of states
        which[50:60], which[150:170] = (which[50:60] + 1) % k, (which[150:170] + 2) % k
    states = np.eye(k, dtype=np.float32)[which]
    blocks = {name: tuple(GOOD[family] + noise) for name in ("states", "density", "ten", "next")}
    return Cell(blocks, {"coverage_90": 0.9, "matched_accuracy": GOOD[family]}, states, 1, 100, 0.5).to_dict()


def lines(train: Any, test: Any, n_states: int) -> dict[str, Any]:
    return {"linear AR(1)": Cell({name: (0.1,) * 12 for name in ("density", "ten", "next")}).to_dict()}
