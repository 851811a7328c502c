"""Simulated cars on a track with four states: the paper's section 4.1 and Appendix E.

At each step the car draws a soft state from a Gumbel-Softmax whose logits depend on where it is and on its last
state, moves by the mixture of the four states' dynamics, and is seen through a noisy linear map:

    logits_t = (1 - gamma) c (W x_{t-1} + w) + gamma z_{t-1}        z_t = softmax((logits_t + Gumbel noise) / tau)
    x_t = (sum_k z_tk A_k) x_{t-1} + s_t sum_k z_tk b_k             y_t = C x_t + noise

The paper's appendix and its published notebooks differ (see `PRESETS`), so both are here under names of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError
from gdm_core.trials import Trial, made_by

# Raised with whatever changes the tracks: what was stored of them is known by it.
VERSION = 1
N_STATES = 4
TEST_SEED_OFFSET = 100

# Each kind of randomness has a stream of its own, so that changing the emission or the noise leaves the path alone.
_EMISSION, _PATH, _SPEED, _NOISE = range(4)

# Regions of the plane: right end, left end, upper straight, lower straight. W = weight * _NORMALS, w = weight * _OFFSETS.
_NORMALS = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
_OFFSETS = np.array([-2.0, -2.0, -1.0, -1.0])


@dataclass(frozen=True)
class NascarParameters:
    """Everything that shapes a simulation. The defaults are the notebooks' standard setting.

    tau                temperature of the states; small means hard
    transition_scale   c: multiplies the whole linear map from place to logits; small means soft
    gamma              stickiness in [0, 1): the share of the logits that is the last state
    s_min              each stretch in one state has a speed drawn from U(s_min, 1); 1 means constant speed
    transition_weight  steepness of the four regions' borders: 100 in the notebooks, 10 in the appendix
    track              "rounded" (semicircular ends) or "square" (every state is a straight move)
    step               length of a move on the square track
    turn               angle of a move on the rounded track's ends, radians
    straight_steps     lengths of a move on the rounded track's upper (to the right) and lower (to the left) straight
    start_state        index of the state before the first sample
    start              place before the first sample
    n_channels         N, the number of observed channels (the emission matrix decides where one is given)
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
            object.__setattr__(self, name, tuple(map(float, pair)))  # an array would not tell all its digits
        if int(self.n_channels) != self.n_channels or self.n_channels < 1:
            raise ConfigError(f"n_channels is {self.n_channels}; it must be a whole number of at least 1.")
        if not (math.isfinite(self.noise) and self.noise >= 0):
            raise ConfigError(f"noise is {self.noise}; the standard deviation must be finite and not negative.")

    def dynamics(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """(A [K, 2, 2], b [K, 2]): the move of each state."""
        if self.track == "square":
            return np.tile(np.eye(2), (N_STATES, 1, 1)), self.step * np.array([[0, -1], [0, 1], [1, 0], [-1, 0]])
        cos, sin = math.cos(self.turn), math.sin(self.turn)
        rotation = np.array([[cos, sin], [-sin, cos]])
        moves = np.stack([rotation, rotation, np.eye(2), np.eye(2)])
        upper, lower = self.straight_steps
        around = (np.eye(2) - rotation) @ np.array([[2.0, -2.0], [0.0, 0.0]])  # [2, ends]
        return moves, np.array([around[:, 0], around[:, 1], [upper, 0.0], [-lower, 0.0]])

    def transitions(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """(W [K, 2], w [K]): the linear map from place to logits, with c and (1 - gamma) in it."""
        factor = (1 - self.gamma) * self.transition_scale * self.transition_weight
        return factor * _NORMALS, factor * _OFFSETS


_STANDARD = NascarParameters()
_SOFT = NascarParameters(tau=0.99, transition_scale=0.02, gamma=0.25, track="square")
_VARIABLE_SPEED = replace(_STANDARD, s_min=0.5)

# The notebooks' settings go by their plain names. The appendix's own differ in transition weights of 10 and in always
# having the rounded track; it leaves c, tau and gamma of the soft setting open, so those stay the notebooks'.
PRESETS: dict[str, NascarParameters] = {
    "standard": _STANDARD,
    "soft": _SOFT,
    "variable_speed": _VARIABLE_SPEED,
    "standard_appendix": replace(_STANDARD, transition_weight=10.0),
    "soft_appendix": replace(_SOFT, transition_weight=10.0, track="rounded"),
    "variable_speed_appendix": replace(_VARIABLE_SPEED, transition_weight=10.0),
}


def parameters(setting: str = "standard", **changes: Any) -> NascarParameters:
    """A preset with `changes` to it.

    setting   "standard", "soft" or "variable_speed", or one of them with "_appendix" (docs/scores.md)
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
    """The emission matrix C [N, 2] of a seed, entries N(0, 1).

    n_channels   N, rows of the matrix
    """
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
    """One trial of T samples, with true soft `states`, `labels` (the largest state) and `position` (latent x).

    `changes` are fields of `NascarParameters`. `noise_seed` redraws the observation noise alone.

    setting    "standard", "soft" or "variable_speed", or one of them with "_appendix" (docs/scores.md)
    T          how many samples
    seed       of path, speeds, noise and emission, each with a random stream of its own
    emission   [N, 2] matrix through which the path is seen; None draws that of the seed
    """
    noise = seed if noise_seed is None else noise_seed
    return _simulated(
        parameters(setting, **changes), T, (seed, seed, noise), f"nascar {setting}, seed {seed}", emission
    )


def train_test(
    setting: str = "standard", seed: int = 0, T: int = 1000, emission: npt.ArrayLike | None = None, **changes: Any
) -> tuple[Trial, Trial]:
    """Two trials seen through one emission matrix: train with `seed`, test with 100 + `seed`.

    setting   "standard", "soft" or "variable_speed", or one of them with "_appendix" (docs/scores.md)
    T         how many samples each
    changes   fields of `NascarParameters`
    """
    chosen = parameters(setting, **changes)
    train, test = (
        _simulated(chosen, T, (s, seed, s), f"nascar {setting}, seed {s}", emission)
        for s in (seed, TEST_SEED_OFFSET + seed)
    )
    return train, test


def paper_train_test(setting: str = "standard", T: int = 1000, **changes: Any) -> tuple[Trial, Trial]:
    """The pairing of the paper's notebooks: one emission, train seed 0, test seed 1.

    On the standard tracks the notebooks' test trial is the train trial's path with new observation noise.

    setting   "standard", "soft" or "variable_speed", or one of them with "_appendix" (docs/scores.md)
    T         how many samples each
    changes   fields of `NascarParameters`
    """
    chosen = parameters(setting, **changes)
    train = _simulated(chosen, T, (0, 0, 0), f"nascar {setting}, seed 0")
    if setting.startswith("soft"):
        return train, _simulated(chosen, T, (1, 0, 1), f"nascar {setting}, seed 1")
    return train, _simulated(chosen, T, (0, 0, 1), f"nascar {setting}, new noise")


def _simulated(
    chosen: NascarParameters, T: int, seeds: tuple[int, int, int], name: str, given: npt.ArrayLike | None = None
) -> Trial:
    """A trial from the seeds of path, emission and noise, or seen through a given matrix."""
    if int(T) != T or T < 1:
        raise ConfigError(f"T is {T}; it must be a whole number of at least 1 sample.")
    T, (path, seen, drawn) = int(T), seeds
    matrix = emission(chosen.n_channels, seen) if given is None else _checked(given)
    states, position = _path(chosen, T, path)
    noise = _generator(drawn, _NOISE).standard_normal((T, len(matrix)))
    trial = Trial(
        y=position @ matrix.T + chosen.noise * noise,
        labels=states.argmax(axis=1),
        position=position,
        states=states,
        name=name,
    )
    if given is not None:
        return trial  # the matrix is the caller's, so the trial is known by its content
    asked = f"{T} samples, path {int(path)}, emission {int(seen)}, noise {int(drawn)}"
    return made_by(f"nascar {VERSION}, {asked}, {chosen}", trial)


def _generator(seed: int, stream: int) -> np.random.Generator:
    if int(seed) != seed or seed < 0:
        raise ConfigError(f"seed is {seed}; it must be a whole number of at least 0.")
    return np.random.default_rng([int(seed), stream])


def _checked(given: npt.ArrayLike) -> npt.NDArray[np.float64]:
    matrix = np.asarray(given, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != 2 or not len(matrix) or not np.isfinite(matrix).all():
        raise DataError(f"emission has shape {matrix.shape}; expected finite numbers [channels, 2].")
    return matrix


def _path(chosen: NascarParameters, T: int, seed: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(z [T, K], x [T, 2]). Each sample needs the one before it: plain floats are the fastest loop here."""
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
        weights = [exp((logit - top) / tau) for logit in logits]  # at most 1; far ones underflow to 0, as they should
        total = sum(weights)
        z = [weight / total for weight in weights]
        if (now := weights.index(1.0)) != state:
            state, speed = now, speeds[t]
        a00, a01, a10, a11, b0, b1 = (sum([p * move[i] for p, move in zip(z, moves, strict=True)]) for i in range(6))
        x0, x1 = a00 * x0 + a01 * x1 + speed * b0, a10 * x0 + a11 * x1 + speed * b1
        path_z.append(z)
        path_x.append((x0, x1))
    return np.array(path_z), np.array(path_x)
