"""Recordings of mice and rats that benchmarks measure on: real ones in ../shared/data (or $GDM_TEST_DATA), and simulated mice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
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
    """(name, train, test) recordings."""
    for name, file in REAL.items():
        path = DATA / file
        if not path.is_file():
            print(f"{name}: skipped, there is no {path}")
            continue
        table = keypoints.clean(keypoints.read(path), fill_seconds=0.5)
        yield name, *halves(table)
    whole = mice.simulate_recordings(12, 2000, seed=0)
    yield "simulated", KeypointSet(whole.tables[:8], "train"), KeypointSet(whole.tables[8:], "test")


def halves(table: keypoints.KeypointTable, share: float = 0.6) -> tuple[KeypointSet, KeypointSet]:
    """The first 60 % and the rest of one recording."""
    at = int(share * table.n_frames)

    def part(frames: slice, name: str) -> KeypointSet:
        scores = None if table.scores is None else table.scores[frames]
        labels = None if table.labels is None else table.labels[frames]
        return KeypointSet((replace(table, xy=table.xy[frames], scores=scores, labels=labels, name=name),), name)

    return part(slice(0, at), f"{table.name}, first"), part(slice(at, None), f"{table.name}, rest")
