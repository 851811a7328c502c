"""How much of the true state the observations of the soft track hold: a network trained on many labelled tracks.

No method that sees only y, and no labels, can be expected to pass this. `python -m benchmarks.ceiling [--seeds N]`
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from benchmarks import report
from datasets import nascar

_TRAIN_TRACKS = 150
_STEP = 0.02  # typical step of the soft track, for scaling
_CONTEXT = 1  # moves before and after that the network sees


def features(y: npt.NDArray[np.float32], inverse: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """[T, F] positions and moves around each sample, through the true emission matrix."""
    x = y @ inverse
    moves = np.diff(x, axis=0, prepend=x[:1]) / _STEP
    around = [np.roll(moves, shift, axis=0) for shift in range(-_CONTEXT, _CONTEXT + 1)]
    return np.concatenate([x, *around], axis=1).astype(np.float32)


def ceiling(seed: int) -> tuple[float, float]:
    """Accuracy on the test track of this seed, and on ten other tracks of the same emission."""
    emission = nascar.emission(10, seed)
    inverse = np.linalg.pinv(emission.T)
    _, test = nascar.train_test("soft", seed, emission=emission)
    tracks = [nascar.simulate("soft", seed=10_000 + i, emission=emission) for i in range(_TRAIN_TRACKS + 10)]
    inputs = [torch.as_tensor(features(track.y, inverse)) for track in tracks]
    labels = [torch.tensor(track.labels) for track in tracks]
    x, z = torch.cat(inputs[:_TRAIN_TRACKS]), torch.cat(labels[:_TRAIN_TRACKS])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
        optimiser = torch.optim.Adam(network.parameters())
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=1200)
        for _ in range(1200):
            chosen = torch.randint(len(x), (2000,))
            loss = nn.functional.cross_entropy(network(x[chosen]), z[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()

    def accuracy(values: torch.Tensor, truth: torch.Tensor) -> float:
        with torch.no_grad():
            return float((network(values).argmax(1) == truth).float().mean())

    own = accuracy(torch.as_tensor(features(test.y, inverse)), torch.tensor(test.labels))
    others = float(np.mean([accuracy(a, b) for a, b in zip(inputs[-10:], labels[-10:], strict=True)]))
    return own, others


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    rows = [[seed, *ceiling(seed)] for seed in range(options.seeds)]
    mean = np.mean([row[1:] for row in rows], axis=0)
    rows.append(["mean", *map(float, mean)])
    columns = ["seed", "its test track", "ten other tracks"]
    print(report.table(f"Supervised ceiling, soft track, {_TRAIN_TRACKS} labelled tracks", columns, rows))
    report.write(options.json, {"ceiling": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
