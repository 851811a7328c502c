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
        yield name, *halves(table)
    whole = mice.simulate_recordings(12, 2000, seed=0)
    yield "simulated", KeypointSet(whole.tables[:8], "train"), KeypointSet(whole.tables[8:], "test")


def halves(table: keypoints.KeypointTable) -> tuple[KeypointSet, KeypointSet]:
    """Split a recording after 60% of its frames."""
    at = int(0.6 * table.n_frames)
    first, rest = f"{table.name}, first", f"{table.name}, rest"
    return (
        KeypointSet((table.slice(0, at, first),), first),
        KeypointSet((table.slice(at, table.n_frames, rest),), rest),
    )
