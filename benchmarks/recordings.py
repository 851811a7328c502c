"""Recordings for benchmarks: mice and rats in ../shared/data (or $GDM_TEST_DATA), and simulated mice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from datasets import keypoints, mice
from datasets.readers.pose import KeypointSet

DATA = Path(os.environ.get("GDM_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
REAL = {
    "mouse083": "calms21/mouse083_test.npz",
    "rats 1": "other/rat_pair_1.npz",
    "rats 8": "other/rat_pair_8.npz",
}


def pairs() -> Iterator[tuple[str, KeypointSet, KeypointSet]]:
    """Yield (name, train, test) recordings."""
    for name, file in REAL.items():
        path = DATA / file
        if not path.is_file():
            print(f"{name}: skipped, there is no {path}")
            continue
        table = keypoints.clean(keypoints.read(path), fill_seconds=keypoints.FILL_SECONDS)
        at = int(0.6 * table.n_frames)
        parts = table.slice(0, at, f"{name}, first"), table.slice(at, table.n_frames, f"{name}, rest")
        yield name, *(KeypointSet((part,), part.name) for part in parts)
    whole = mice.simulate_recordings(12, 2000, seed=0)
    yield "simulated", KeypointSet(whole.tables[:8], "train"), KeypointSet(whole.tables[8:], "test")
