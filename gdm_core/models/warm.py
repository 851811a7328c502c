"""Compile every loop once, so that the first fit of an installation need not wait for it."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from gdm_core.errors import FitWarning
from gdm_core.models.registry import build

# Between them they run every compiled loop.
_EM, _GDM = {"n_iter": 1}, {"n_steps": 12}
_MODELS: dict[str, dict[str, Any]] = {
    "arhmm": _EM, "slds-sticky": _EM, "rslds-sticky": _EM, "pdlds": _EM, "gdm": _GDM, "gdm-mixture": _GDM
}  # fmt: skip


def compile_loops(names: Collection[str] = _MODELS) -> Iterator[float]:
    """Fit and apply a small model of every family, or of the named ones; yield the share that is done."""
    rng = np.random.default_rng(0)
    y = np.repeat(rng.normal(size=(8, 3)), 15, axis=0) + 0.3 * rng.normal(size=(120, 3))
    gaps = y.copy()
    gaps[40, 1] = np.nan
    for number, name in enumerate(names):
        model: Any = build(name, 2, 2, **_MODELS[name])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            model.fit([y, gaps])
        model.predict(gaps)
        model.sample(10)
        for verb in ("filter", "viterbi"):
            if name in ("arhmm", "slds-sticky") or (name, verb) == ("gdm", "filter"):
                getattr(model, verb)(gaps)
        yield (number + 1) / len(names)


if __name__ == "__main__":
    for _ in compile_loops():
        pass
