"""Simulated tracks with any number of states."""

import numpy as np

from gdm_core import Trial


def simulate_polygon(n_sides: int, n_samples: int = 600, lap: int = 30, noise: float = 0.01) -> Trial:
    """Simulate a car on a polygon with a speed per side: within a state, steps hardly vary."""
    rng = np.random.default_rng(n_sides)
    angle = 2 * np.pi * np.arange(n_sides) / n_sides
    out, along = np.stack([np.cos(angle), np.sin(angle)], 1), np.stack([-np.sin(angle), np.cos(angle)], 1)
    speed = rng.uniform(0.6, 1.4, n_sides) * 2 * np.pi / lap
    x, path, labels = out[0], [], []
    for _ in range(n_samples):
        side = int((out @ x).argmax())
        x = x + speed[side] * along[side] - 0.1 * out[side] * (out[side] @ x - 1)
        path.append(x)
        labels.append(side)
    y = np.array(path) @ rng.standard_normal((2, 10)) + noise * rng.standard_normal((n_samples, 10))
    return Trial(y, labels=np.array(labels))
