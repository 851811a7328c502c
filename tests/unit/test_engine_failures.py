"""What goes wrong around a job stays with that job: lost results, callbacks that raise, an engine that is closed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gdm_core.engine import ResultCache
from gdm_core.engine.messages import FitResult


# ---- kept results ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("error", [PermissionError("read-only"), FileNotFoundError("another server was quicker")])
def test_a_kept_result_that_cannot_be_marked_as_used_is_a_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: OSError
) -> None:
    ResultCache(tmp_path).put(FitResult("k", b"model", "converged", -1.5, 0.25, (1,), (-3.0,)))

    def refuse(path: Path) -> None:
        raise error

    monkeypatch.setattr(os, "utime", refuse)
    found, note = ResultCache(tmp_path).get("k")
    assert found is not None
    assert (found.model_bytes, note) == (b"model", "")
