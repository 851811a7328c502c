"""What a page asks about a fitted model. These functions run on the workers: numpy and the library alone, no screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import DataError
from gdm_core.trials import Trial, Trials

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

Array = npt.NDArray[np.float32]

COVERAGE_ORIGINS = 250
ENVELOPE_PATHS = 200
MAP_COLUMNS, MAP_ROWS = 72, 48
MAP_MARGIN = 0.12


@dataclass(frozen=True, eq=False)
class Look:
    """A fitted model seen through its data, in the model's own order of states.

    train, test   soft states [T, K] of each trial
    stay          how strongly the state before holds on (gamma), where the family has such a number
    sees          which posterior found the states, where there is a choice
    """

    train: tuple[Array, ...]
    test: tuple[Array, ...]
    stay: float | None
    sees: str | None


@dataclass(frozen=True, eq=False)
class Envelope:
    """The prediction from one moment of a trial, and what envelopes like it hold (times in samples).

    mean, lower90, ...   [H, N] for the steps after `origin`
    held50, held90       [H] share of outcomes inside, over evenly spaced moments of the whole trial
    """

    origin: int
    mean: Array
    lower50: Array
    upper50: Array
    lower90: Array
    upper90: Array
    std: Array
    held50: Array
    held90: Array
    n_origins: int


@dataclass(frozen=True, eq=False)
class PlaneMap:
    """Which state follows at each place of the plane: probabilities [H, W, K] over xs [W] and ys [H]."""

    xs: Array
    ys: Array
    probabilities: Array
    source: str


def read(model_bytes: bytes) -> StateModel:
    """The model in a model file's bytes."""
    from gdm_core.models.base import model_from_bytes

    return model_from_bytes(model_bytes)


def first_look(model_bytes: bytes, trials: Trials, changes: Mapping[str, Any]) -> tuple[Array, ...]:
    """Rough soft states of each trial under the parameters as they are, with `changes` to the configuration only."""
    model = read(model_bytes)
    model.config = replace(model.config, **changes)
    return tuple(np.asarray(states, np.float32) for states in model.glance(trials))


def soft_states(model_bytes: bytes, trials: Trials) -> tuple[Array, ...]:
    """Soft states of each trial, as `predict_proba` gives them."""
    return _states(read(model_bytes), trials)


def look(model_bytes: bytes, train: Trials, test: Trials | None) -> Look:
    """Soft states of all trials, as `predict_proba` gives them."""
    model = read(model_bytes)
    stay = getattr(model, "gamma_", None)
    sees = getattr(model, "posterior_", None)
    return Look(
        _states(model, train),
        () if test is None else _states(model, test),
        None if stay is None else float(stay),
        None if sees is None else str(sees),
    )


def _states(model: StateModel, trials: Trials) -> tuple[Array, ...]:
    return tuple(np.asarray(states, np.float32) for states in model.predict_proba(trials))


def scores(model_bytes: bytes, train: Trials, test: Trials, seed: int = 0) -> dict[str, Any]:
    """Every score beside its baselines, as plain values."""
    from gdm_core.analysis.metrics import evaluate

    return evaluate(read(model_bytes), train, test, seed).to_dict()


def envelope(model_bytes: bytes, trial: Trial, origin: int, horizon: int, seed: int = 0) -> Envelope:
    """The prediction from `origin`, and how much envelopes of the same horizon hold over the trial."""
    from gdm_core.forecast import coverage

    model = read(model_bytes)
    first = model.min_samples - 1
    if trial.n_samples - first < 3:
        raise DataError(f"Trial {trial.name!r} is too short ({trial.n_samples} samples) for a prediction.")
    origin = int(np.clip(origin, first, trial.n_samples - 2))
    spread = np.unique(np.linspace(first, trial.n_samples - 2, COVERAGE_ORIGINS).astype(np.int64))
    known = model.forecast(trial, horizon, n_paths=100, seed=seed, origins=spread)
    one = model.forecast(trial, horizon, n_paths=ENVELOPE_PATHS, seed=seed, origins=[origin])
    (low50, high50), (low90, high90) = one.interval(0.5), one.interval(0.9)
    return Envelope(
        origin,
        one.mean[0],
        low50[0],
        high50[0],
        low90[0],
        high90[0],
        one.std[0],
        coverage(known, trial.y, 0.5),
        coverage(known, trial.y, 0.9),
        len(spread),
    )


def plane_map(model_bytes: bytes, trial: Trial) -> PlaneMap:
    """Which state follows at each place, in the model's order of states.

    Places become observations by the least-squares map from positions to channels, and the model's transition says
    what follows there, averaged over the states that it may come from. A model whose transition does not look at
    where it is has the same answer everywhere; the soft states found nearby are shown for it instead.
    """
    if trial.position is None:
        raise DataError(f"Trial {trial.name!r} has no positions, so there is no plane to map.")
    model = read(model_bytes)
    where = np.asarray(trial.position, np.float64)
    known = np.isfinite(where).all(axis=1) & np.isfinite(trial.y).all(axis=1)
    low, high = where[known].min(axis=0), where[known].max(axis=0)
    margin = MAP_MARGIN * (high - low).max()
    xs = np.linspace(low[0] - margin, high[0] + margin, MAP_COLUMNS)
    ys = np.linspace(low[1] - margin, high[1] + margin, MAP_ROWS)
    grid = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)  # [H W, 2]
    design = np.column_stack([where[known], np.ones(known.sum())])
    to_channels = np.linalg.lstsq(design, np.asarray(trial.y, np.float64)[known], rcond=None)[0]  # [3, N]
    observed = np.column_stack([grid, np.ones(len(grid))]) @ to_channels
    soft = np.asarray(model.predict_proba(trial), np.float64)
    probabilities = following(model, observed, soft.mean(axis=0))
    source = "transition"
    if probabilities is None:
        probabilities, source = _nearby(where[known], soft[known], grid), "nearby"
    return PlaneMap(
        xs.astype(np.float32),
        ys.astype(np.float32),
        probabilities.reshape(len(ys), len(xs), -1).astype(np.float32),
        source,
    )


def following(
    model: StateModel, observed: npt.NDArray[np.float64], usage: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64] | None:
    """[G, K] probability of the next state after observing `observed` [G, N], averaged over the state before by `usage`.

    None for a family whose transitions do not look at the observations.
    """
    net = getattr(model, "_net", None)
    transition = getattr(net, "transition", None)
    if transition is not None and getattr(transition, "affine_in_state", False):
        import torch

        y = torch.as_tensor(model._scaler.apply(observed))
        with torch.no_grad():
            context, _ = transition.next_context(y @ net.projection.T, None)  # [G, K]
            before = torch.eye(context.shape[1])
            logits = torch.stack([transition.logits(context, row.expand_as(context)) for row in before])  # [K, G, K]
            weight = torch.as_tensor(usage, dtype=logits.dtype)
            mixed: npt.NDArray[np.float64] = torch.einsum("i,igk->gk", weight, logits.softmax(-1)).double().numpy()
        return mixed
    return None


def _nearby(
    where: npt.NDArray[np.float64], soft: npt.NDArray[np.float64], grid: npt.NDArray[np.float64], n: int = 12
) -> npt.NDArray[np.float64]:
    """[G, K] mean soft state of the samples nearest to each place."""
    from scipy.spatial import cKDTree

    _, index = cKDTree(where).query(grid, k=min(n, len(where)))
    mean: npt.NDArray[np.float64] = soft[index.reshape(len(grid), -1)].mean(axis=1)
    return mean
