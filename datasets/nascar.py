"""Simulated cars on a track with four states, from section 4.1 and Appendix E of the paper.

At each step the car draws a soft state from a Gumbel-Softmax whose logits depend on its position and its previous
state, moves by the mixture of the four states' dynamics, and is observed through a noisy linear map:

    logits_t = (1 - gamma) c (W x_{t-1} + w) + gamma z_{t-1}        z_t = softmax((logits_t + Gumbel noise) / tau)
    x_t = (sum_k z_tk A_k) x_{t-1} + s_t sum_k z_tk b_k             y_t = C x_t + noise

The paper's appendix and its published notebooks differ; `PRESETS` has both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError
from gdm_core.trials import Trial, with_recipe

# Increase with every change to the simulation, to invalidate stored results.
VERSION = 1
N_STATES = 4
TEST_SEED_OFFSET = 100

# Separate random streams: changing the emission or the noise keeps the path.
_EMISSION, _PATH, _SPEED, _NOISE = range(4)

# Regions of the plane: right end, left end, upper straight, lower straight. W = weight * _NORMALS, w = weight * _OFFSETS.
_NORMALS = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
_OFFSETS = np.array([-2.0, -2.0, -1.0, -1.0])


@dataclass(frozen=True)
class NascarParameters:
    """Parameters of a simulation. The defaults are the notebooks' standard setting.

    tau                temperature of the states; small means hard
    transition_scale   c, multiplies the linear map from position to logits; small means soft
    gamma              stickiness in [0, 1): weight of the previous state in the logits
    s_min              each bout has a speed drawn from U(s_min, 1); 1 means constant speed
    transition_weight  steepness of the four regions' borders: 100 in the notebooks, 10 in the appendix
    track              "rounded" (semicircular ends) or "square" (every state moves straight)
    step               step length on the square track
    turn               step angle on the rounded track's ends, in radians
    straight_steps     step lengths on the rounded track's upper (rightward) and lower (leftward) straight
    start_state        index of the state before the first sample
    start              position before the first sample
    n_channels         N, the number of observed channels; ignored if an emission matrix is given
    noise              standard deviation of the observation noise
    """

    tau: float = 0.01
    transition_scale: float = 1.0
    gamma: float = 0.0
    s_min: float = 1.0
    transition_weight: float = 100.0
    track: str = "rounded"
    step: float = 0.05
    turn: float = math.pi / 24
    straight_steps: tuple[float, float] = (0.1, 0.25)
    start_state: int = 2
    start: tuple[float, float] = (0.0, 1.0)
    n_channels: int = 10
    noise: float = 0.01

    def __post_init__(self) -> None:
        for name in ("tau", "transition_scale", "transition_weight", "step", "turn"):
            value, called = getattr(self, name), {"transition_scale": "transition_scale (c)"}.get(name, name)
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"{called} is {value}; it must be finite and above 0.")
        if not 0 <= self.gamma < 1:
            raise ConfigError(f"gamma is {self.gamma}; stickiness must be in [0, 1).")
        if not 0 < self.s_min <= 1:
            raise ConfigError(f"s_min is {self.s_min}; the slowest speed must be in (0, 1] (1 means constant speed).")
        if self.track not in ("rounded", "square"):
            raise ConfigError(f"track is {self.track!r}; choose 'rounded' or 'square'.")
        if self.start_state not in range(N_STATES):
            raise ConfigError(f"start_state is {self.start_state}; it must be one of 0..{N_STATES - 1}.")
        for name in ("start", "straight_steps"):
            pair = getattr(self, name)
            if len(pair) != 2 or not all(math.isfinite(value) for value in pair):
                raise ConfigError(f"{name} is {pair}; it must be two finite numbers.")
            object.__setattr__(self, name, tuple(map(float, pair)))  # the recipe needs all digits
        if int(self.n_channels) != self.n_channels or self.n_channels < 1:
            raise ConfigError(f"n_channels is {self.n_channels}; it must be an integer of at least 1.")
        if not (math.isfinite(self.noise) and self.noise >= 0):
            raise ConfigError(f"noise is {self.noise}; it must be finite and non-negative.")

    def dynamics(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return A [K, 2, 2] and b [K, 2] of each state."""
        if self.track == "square":
            return np.tile(np.eye(2), (N_STATES, 1, 1)), self.step * np.array([[0, -1], [0, 1], [1, 0], [-1, 0]])
        cos, sin = math.cos(self.turn), math.sin(self.turn)
        rotation = np.array([[cos, sin], [-sin, cos]])
        moves = np.stack([rotation, rotation, np.eye(2), np.eye(2)])
        upper, lower = self.straight_steps
        around = (np.eye(2) - rotation) @ np.array([[2.0, -2.0], [0.0, 0.0]])  # [2, ends]
        return moves, np.array([around[:, 0], around[:, 1], [upper, 0.0], [-lower, 0.0]])

    def transitions(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return W [K, 2] and w [K], including the factors c and (1 - gamma)."""
        factor = (1 - self.gamma) * self.transition_scale * self.transition_weight
        return factor * _NORMALS, factor * _OFFSETS


_STANDARD = NascarParameters()
_SOFT = NascarParameters(tau=0.99, transition_scale=0.02, gamma=0.25, track="square")
_VARIABLE_SPEED = replace(_STANDARD, s_min=0.5)

# Plain names are the notebooks' settings. The appendix has transition weights of 10 and always the rounded track. It does
# not state c, tau and gamma of the soft setting, so those are the notebooks'.
PRESETS: dict[str, NascarParameters] = {
    "standard": _STANDARD,
    "soft": _SOFT,
    "variable_speed": _VARIABLE_SPEED,
    "standard_appendix": replace(_STANDARD, transition_weight=10.0),
    "soft_appendix": replace(_SOFT, transition_weight=10.0, track="rounded"),
    "variable_speed_appendix": replace(_VARIABLE_SPEED, transition_weight=10.0),
}


def parameters(setting: str = "standard", **changes: Any) -> NascarParameters:
    """Return a preset with changes.

    setting   "standard", "soft" or "variable_speed", optionally with "_appendix" (docs/scores.md)
    changes   fields of `NascarParameters`
    """
    if setting not in PRESETS:
        raise ConfigError(f"setting is {setting!r}; choose one of {', '.join(PRESETS)}.")
    known = {field.name for field in fields(NascarParameters)}
    unknown = sorted(set(changes) - known)
    if unknown:
        raise ConfigError(f"Unknown simulation parameter {', '.join(unknown)}; known: {', '.join(sorted(known))}.")
    return replace(PRESETS[setting], **changes)


def emission(n_channels: int = 10, seed: int = 0) -> npt.NDArray[np.float64]:
    """Draw the emission matrix C [n_channels, 2] of a seed, with entries from N(0, 1)."""
    if n_channels < 1:
        raise ConfigError(f"n_channels is {n_channels}; it must be at least 1.")
    return _generator(seed, _EMISSION).standard_normal((n_channels, 2))


def simulate(
    setting: str = "standard",
    T: int = 1000,
    seed: int = 0,
    emission: npt.ArrayLike | None = None,
    noise_seed: int | None = None,
    **changes: Any,
) -> Trial:
    """Simulate one trial with true soft `states`, `labels` (the largest state) and `position` (latent x).

    setting      "standard", "soft" or "variable_speed", optionally with "_appendix" (docs/scores.md)
    T            number of samples
    seed         seed of path, speeds, noise and emission, with separate random streams
    emission     [N, 2] emission matrix; None draws one from the seed
    noise_seed   seed of the observation noise, `seed` by default
    changes      fields of `NascarParameters`
    """
    noise = seed if noise_seed is None else noise_seed
    return _simulate(parameters(setting, **changes), T, (seed, seed, noise), f"nascar {setting}, seed {seed}", emission)


def train_test(
    setting: str = "standard", seed: int = 0, T: int = 1000, emission: npt.ArrayLike | None = None, **changes: Any
) -> tuple[Trial, Trial]:
    """Simulate training and test trials (seeds `seed` and 100 + `seed`) with one emission.

    setting   "standard", "soft" or "variable_speed", optionally with "_appendix" (docs/scores.md)
    T         number of samples of each
    changes   fields of `NascarParameters`
    """
    chosen = parameters(setting, **changes)
    train, test = (
        _simulate(chosen, T, (s, seed, s), f"nascar {setting}, seed {s}", emission)
        for s in (seed, TEST_SEED_OFFSET + seed)
    )
    return train, test


def paper_train_test(setting: str = "standard", T: int = 1000, **changes: Any) -> tuple[Trial, Trial]:
    """Simulate the paper's training and test trials: seeds 0 and 1, one emission.

    On the standard tracks, the notebooks' test trial is the path of the training trial with new observation noise.

    setting   "standard", "soft" or "variable_speed", optionally with "_appendix" (docs/scores.md)
    T         number of samples of each
    changes   fields of `NascarParameters`
    """
    chosen = parameters(setting, **changes)
    train = _simulate(chosen, T, (0, 0, 0), f"nascar {setting}, seed 0")
    if setting.startswith("soft"):
        return train, _simulate(chosen, T, (1, 0, 1), f"nascar {setting}, seed 1")
    return train, _simulate(chosen, T, (0, 0, 1), f"nascar {setting}, new noise")


def _simulate(
    chosen: NascarParameters, T: int, seeds: tuple[int, int, int], name: str, given: npt.ArrayLike | None = None
) -> Trial:
    """Simulate a trial from three seeds, or with a given emission matrix."""
    if int(T) != T or T < 1:
        raise ConfigError(f"T is {T}; it must be an integer of at least 1.")
    T, (path, emission_seed, noise_seed) = int(T), seeds
    matrix = emission(chosen.n_channels, emission_seed) if given is None else _check_emission(given)
    states, position = _path(chosen, T, path)
    noise = _generator(noise_seed, _NOISE).standard_normal((T, len(matrix)))
    trial = Trial(
        y=position @ matrix.T + chosen.noise * noise,
        labels=states.argmax(axis=1),
        position=position,
        states=states,
        name=name,
    )
    if given is not None:
        return trial  # no recipe: the matrix is the caller's, so the content identifies the trial
    seeds_used = f"{T} samples, path {int(path)}, emission {int(emission_seed)}, noise {int(noise_seed)}"
    return with_recipe(f"nascar {VERSION}, {seeds_used}, {chosen}", trial)


def _generator(seed: int, stream: int) -> np.random.Generator:
    if int(seed) != seed or seed < 0:
        raise ConfigError(f"seed is {seed}; it must be a non-negative integer.")
    return np.random.default_rng([int(seed), stream])


def _check_emission(given: npt.ArrayLike) -> npt.NDArray[np.float64]:
    matrix = np.asarray(given, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != 2 or not len(matrix) or not np.isfinite(matrix).all():
        raise DataError(f"emission has shape {matrix.shape}; expected finite numbers [channels, 2].")
    return matrix


def _path(chosen: NascarParameters, T: int, seed: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Simulate z [T, K] and x [T, 2] in a fast loop over floats."""
    W, w = chosen.transitions()
    A, b = chosen.dynamics()
    gamma, tau = chosen.gamma, chosen.tau
    rows = [(*W[k].tolist(), float(w[k])) for k in range(N_STATES)]
    moves = [(*A[k].ravel().tolist(), *b[k].tolist()) for k in range(N_STATES)]
    gumbel = _generator(seed, _PATH).gumbel(size=(T, N_STATES)).tolist()
    speeds = _generator(seed, _SPEED).uniform(chosen.s_min, 1.0, size=T).tolist()
    exp = math.exp
    z = [float(k == chosen.start_state) for k in range(N_STATES)]
    x0, x1 = chosen.start
    state, speed = chosen.start_state, speeds[0]
    path_z, path_x = [], []
    for t in range(T):
        logits = [u * x0 + v * x1 + c + gamma * p + g for (u, v, c), p, g in zip(rows, z, gumbel[t], strict=True)]
        top = max(logits)
        weights = [exp((logit - top) / tau) for logit in logits]  # underflow to 0 is intended
        total = sum(weights)
        z = [weight / total for weight in weights]
        if (now := weights.index(1.0)) != state:
            state, speed = now, speeds[t]
        a00, a01, a10, a11, b0, b1 = (sum([p * move[i] for p, move in zip(z, moves, strict=True)]) for i in range(6))
        x0, x1 = a00 * x0 + a01 * x1 + speed * b0, a10 * x0 + a11 * x1 + speed * b1
        path_z.append(z)
        path_x.append((x0, x1))
    return np.array(path_z), np.array(path_x)
