"""Text of messages and conversion to JSON."""

from __future__ import annotations

import json

import numpy as np

from gdm_core.analysis.state_scores import StateScores
from gdm_core.text import for_json, listed, shorten


def test_parts_are_listed():
    assert [listed(parts) for parts in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


def test_long_texts_are_shortened():
    assert shorten("x" * 160) == "x" * 160
    assert shorten("x" * 161) == "x" * 157 + "..."


def test_nested_records_become_json():
    found = for_json({"lines": {"chance": StateScores(nmi=float("nan"), ari=0.5)}, "r2": (np.float64(1.0), np.inf)})
    assert found["lines"]["chance"]["nmi"] is None
    assert found["lines"]["chance"]["ari"] == 0.5
    assert json.loads(json.dumps(found))["r2"] == [1.0, None]
