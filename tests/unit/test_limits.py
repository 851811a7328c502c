"""Limits on fits, tables and labels."""

from __future__ import annotations

import numpy as np
import pytest

from datasets import tables
from datasets.readers import annotations
from gdm_core import Trial, Trials
from gdm_core.engine import compare, sweep
from gdm_core.engine.compare import Comparison
from gdm_core.errors import ConfigError, DataError

SHORT = Trials((Trial(np.zeros((30, 2), np.float32)),))


def test_too_many_fits_raise_config_error():
    few = {"family": "gdm", "base": {}, "grid": {}, "train": SHORT, "test": SHORT, "scorer": ""}
    assert len(sweep.Sweep(**few, seeds=range(sweep.MAX_CELLS)).cells()) == sweep.MAX_CELLS
    with pytest.raises(ConfigError, match=f"the limit is {sweep.MAX_CELLS}"):
        sweep.Sweep(**few, seeds=range(sweep.MAX_CELLS + 1))
    with pytest.raises(ConfigError, match=f"the limit is {compare.MAX_FITS}"):
        Comparison({"A": ("gdm", {})}, range(compare.MAX_FITS + 1), SHORT, SHORT)


def test_too_many_trials_or_frames_raise_data_error():
    text = "trial,y\n" + "".join(f"t{i},{i % 7}.5\n" for i in range(tables.MAX_TRIALS + 1))
    table = tables.read(text.encode(), "a.csv")
    with pytest.raises(DataError, match=r"into 10,001 trials; the limit is 10,000"):
        table.to_trials({"trial": "group", "y": "channel"})
    with pytest.raises(DataError, match="which is invalid"):
        annotations.read_annotation(b"start,stop,behaviour\n0,1e6,rest\n", 30.0, "a.csv")
