"""Real recordings, which lie outside of the repository: in ../shared/data, or where GDM_TEST_DATA says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("GDM_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def recorded(name: str) -> Path:
    """A file or a folder of them; a test that wants it is skipped where it is absent."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is absent; GDM_TEST_DATA says where else real recordings may be.")
    return path
