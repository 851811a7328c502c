"""Limits on tables and labels."""

from __future__ import annotations

import pytest

from datasets import tables
from datasets.readers import annotations
from gdm_core.errors import DataError


def test_too_many_trials_or_frames_raise_data_error():
    text = "trial,y\n" + "".join(f"t{i},{i % 7}.5\n" for i in range(tables.MAX_TRIALS + 1))
    table = tables.read(text.encode(), "a.csv")
    with pytest.raises(DataError, match=r"into 10,001 trials; the limit is 10,000"):
        table.to_trials({"trial": "group", "y": "channel"})
    with pytest.raises(DataError, match="which is invalid"):
        annotations.read_annotation(b"start,stop,behaviour\n0,1e6,rest\n", 30.0, "a.csv")
