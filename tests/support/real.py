"""Real recordings outside the repository, in ../shared/data or GDM_TEST_DATA."""

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("GDM_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def recorded(name: str) -> Path:
    """Return a recorded file or folder, or skip the test if it is absent."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is absent; GDM_TEST_DATA says where else real recordings may be.")
    return path
