"""Accuracy of states and intervals, and false alarms of studies: `python -m benchmarks.accuracy [PART ...] [--json FILE]`.

intervals  coverage and width of 90 % intervals, calibrated and adaptive, on data that no fit has seen
ceiling    accuracy of a network trained on labelled tracks, which no method without labels is expected to pass
kinds      accuracy of models, a Gaussian HMM and k-means on simulated regimes
filtered   accuracy of filtered states at some lags, against smoothed states
nulls      share of studies without any effect that report one

State accuracy of all models on the NASCAR tracks: `python -m benchmarks.results --only nascar`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.cluster import KMeans
from torch import nn

from benchmarks import report
from benchmarks.recordings import pairs
from benchmarks.report import Part
from datasets import formula1, nascar, regimes
from gdm_core import ARHMM, GDM, SLDS
from gdm_core.adaptation import RATE, adapt
from gdm_core.analysis.baselines import GaussianHMM
from gdm_core.analysis.predictions import HORIZON, forecast_trials
from gdm_core.analysis.state_scores import match_states, matched_accuracy
from gdm_core.forecast import LEVELS, Forecast, coverage, outcomes, width
from gdm_core.maths.gaps import interpolate_gaps
from gdm_core.maths.spikes import find_spikes
from gdm_core.models.base import StateModel
from gdm_core.models.registry import build
from gdm_core.trials import TrialsLike, as_trials
from tests.support.known_studies import DESIGNS, null

N_SEEDS = 10
Array = npt.NDArray[np.float64]

# ---- intervals ------------------------------------------------------------------------------------------------------
LEVEL = 0.9
Forecasts = list[tuple[Forecast, Any]]  # forecasts of each test trial, and its observations


def forecasts(train: TrialsLike, test: TrialsLike, n_states: int, n_latent: int, seed: int) -> Forecasts:
    """Return calibrated forecasts of every test trial."""
    model = build("gdm", n_states, n_latent, seed).fit(as_trials(train))
    return [(found, trial.y) for trial, found in forecast_trials(model, as_trials(test))]


def measure(found: Forecasts, rate: float) -> tuple[Array, Array]:
    """Return coverage [H] and width [H], relative to the best fixed factor of each channel chosen with hindsight."""
    shares, widths, best, counts, scores = [], [], [], [], []
    middle = int(np.flatnonzero(np.isclose(LEVELS, LEVEL))[0])
    for fixed, y in found:
        bands = adapt(fixed, y, rate) if rate else fixed
        known = outcomes(y, fixed.origins, HORIZON)
        shares.append(coverage(bands, y, LEVEL))
        counts.append(np.isfinite(known).sum(axis=(0, 2)))
        widths.append(width(bands, LEVEL) * len(fixed.origins))
        best.append(width(fixed, LEVEL) * len(fixed.origins))
        error = known - fixed.mean
        edge = np.where(error >= 0, fixed.upper[middle] - fixed.mean, fixed.mean - fixed.lower[middle])
        scores.append(np.abs(error) / np.maximum(edge, 1e-9))
    needed = np.nanquantile(np.concatenate(scores), LEVEL, axis=0)
    share = (np.array(shares) * counts).sum(axis=0) / np.sum(counts, axis=0)
    return share, (np.sum(widths, axis=0) / (needed * np.sum(best, axis=0))).mean(axis=1)


def cases() -> Iterator[tuple[str, list[Forecasts]]]:
    """Return the forecasts of each data set, one entry per fit."""
    for setting in ("soft", "standard"):
        seeds = range(500, 500 + N_SEEDS)
        yield f"{setting} tracks", [forecasts(*nascar.train_test(setting, seed), 4, 2, seed) for seed in seeds]
    session = formula1.simulate_race("shanghai")
    drivers = (formula1.to_trials(session, session.codes[i], preset="paper") for i in (0, 4))
    yield "simulated race", [forecasts(*drivers, 8, 2, 0)]
    for name, train, test in pairs():
        title = "simulated mice" if name == "simulated" else name
        yield title, [forecasts(train.to_trials(), test.to_trials(), 5, 6, 0)]


def intervals() -> Part:
    """Measure coverage and width of 90 % intervals over all horizons."""
    rows: list[list[Any]] = []
    for name, fits in cases():
        for rate in (0.0, RATE):
            shares, widths = (np.array(values) for values in zip(*(measure(fit, rate) for fit in fits), strict=True))
            measured = (shares.min(), shares.mean(), shares.max(), widths.mean(), widths.max())
            rows.append([name, len(fits), rate, *map(float, measured)])
    columns = ["data", "n", "rate", "lowest", "mean", "highest", "width", "widest"]
    return "Coverage of 90 % intervals and their width", columns, rows


# ---- ceiling --------------------------------------------------------------------------------------------------------
N_TRACKS, STEP = 150, 0.02  # labelled tracks, and the typical step of one


def supervised_accuracy(seed: int) -> float:
    """Return the accuracy of a network that was trained on labelled tracks with the same emission."""
    emission = nascar.emission(10, seed)
    inverse = np.linalg.pinv(emission.T)

    def features(track: Any) -> torch.Tensor:
        x = track.y @ inverse
        steps = np.diff(x, axis=0, prepend=x[:1]) / STEP
        return torch.as_tensor(np.hstack([x, *(np.roll(steps, k, axis=0) for k in (-1, 0, 1))]), dtype=torch.float32)

    _, test = nascar.train_test("soft", seed, emission=emission)
    tracks = [nascar.simulate("soft", seed=10_000 + i, emission=emission) for i in range(N_TRACKS)]
    x, z = torch.cat([features(track) for track in tracks]), torch.cat([torch.tensor(track.labels) for track in tracks])
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
    with torch.no_grad():
        return float((network(features(test)).argmax(1) == torch.tensor(test.labels)).float().mean())


def ceiling() -> Part:
    """Measure the accuracy that labels can reach on the soft track."""
    found = [supervised_accuracy(seed) for seed in range(N_SEEDS)]
    row = [float(np.mean(found)), min(found), len(found)]
    return f"Network trained on {N_TRACKS} labelled soft tracks", ["mean", "worst", "n"], [row]


# ---- simulated regimes ----------------------------------------------------------------------------------------------
KINDS = ("levels", "variances", "rotations", "autoregressive", "drift", "walk", "outliers")
KIND_MODELS = ("gdm", "arhmm-sticky", "slds-sticky", "rslds-sticky", "pdlds")
KIND_METHODS = (*KIND_MODELS, "Gaussian HMM", "k-means")


def kind_accuracy(method: str, kind: str, seed: int, **parameters: Any) -> float:
    """Return the matched accuracy of a model, or the better one of clusters of values and of steps."""
    trials = regimes.simulate(kind, 2000, seed)
    labels, y = np.asarray(trials[0].labels), np.asarray(trials[0].y, np.float64)
    if method in KIND_MODELS:
        model = build(method, regimes.N_REGIMES, min(3, trials.n_channels), **parameters).fit(trials)
        return matched_accuracy(labels, model.predict(trials)[0])
    if parameters.get("outliers") == "ignore":
        y = interpolate_gaps(np.where(find_spikes(y), np.nan, y))
    views = [(view - view.mean(0)) / view.std(0) for view in (y, np.diff(y, axis=0, prepend=y[:1]))]
    found = [KMeans(regimes.N_REGIMES, n_init=3, random_state=0).fit_predict(view) for view in views]
    if method == "Gaussian HMM":
        starts = np.zeros(1, np.int64)
        fits = [GaussianHMM.fit(*one, regimes.N_REGIMES) for one in zip(views, (starts, starts), found, strict=True)]
        found = [fit.infer(view, starts).states.argmax(axis=1) for fit, view in zip(fits, views, strict=True)]
    return max(matched_accuracy(labels, one) for one in found)


def kinds() -> Part:
    """Measure matched accuracy on regimes that differ in one thing, by models, a Gaussian HMM and k-means."""
    cases = [(kind, {}) for kind in KINDS] + [("outliers", {"outliers": "ignore"})]
    rows: list[list[Any]] = []
    for kind, parameters in cases:
        row: list[Any] = [", ".join([kind, *(f"{name}={value}" for name, value in parameters.items())])]
        for method in KIND_METHODS:
            found = [kind_accuracy(method, kind, seed, **parameters) for seed in range(100, 100 + N_SEEDS)]
            row += [float(np.mean(found)), min(found)]
        rows.append(row)
    columns = ["kind", *(f"{name}{what}" for name in KIND_METHODS for what in ("", ", worst"))]
    return "Matched accuracy on simulated regimes", columns, rows


# ---- filtered states ------------------------------------------------------------------------------------------------
MODELS: dict[str, StateModel] = {
    "GDM": GDM(n_states=4, n_latent=2),
    "AR-HMM, recurrent only": ARHMM(n_states=4, n_latent=2, transitions="recurrent_only"),
    "SLDS, sticky": SLDS(n_states=4, n_latent=2),
}


def filtered(n_seeds: int = 3) -> Part:
    """Measure matched accuracy of filtered states at lags 0 and 25, and of smoothed states."""
    rows: list[list[Any]] = []
    for setting in ("soft", "standard"):
        for name, model in MODELS.items():
            values, ms = [], []
            for seed in range(n_seeds):
                train, test = nascar.train_test(setting, seed)
                model.fit(train)
                match = match_states(model.predict(train), train.labels, 4)
                began = time.process_time()
                states = [model.filter(test, 0)]
                ms.append((time.process_time() - began) / test.n_samples * 1000)
                states += [model.filter(test, 25), model.predict_proba(test)]
                values.append([(match[one.argmax(axis=1)] == test.labels).mean() for one in states])
            rows.append([setting, name, *map(float, np.mean(values, axis=0)), float(np.median(ms))])
    columns = ["track", "model", "lag 0", "lag 25", "whole recording", "ms per sample"]
    return "Matched accuracy of filtered states", columns, rows


def nulls(n_studies: int = 1000) -> Part:
    """Measure the share of null studies with p < .05, by design and test."""
    found = {design: [null(design, seed) for seed in range(n_studies)] for design in DESIGNS}
    tests = list(dict.fromkeys(name for runs in found.values() for name in runs[0]))
    rows = [
        [design, *(float(np.mean([run[test] for run in runs])) if test in runs[0] else "-" for test in tests)]
        for design, runs in found.items()
    ]
    return f"Share of {n_studies:,} null studies with p < .05", ["design", *tests], rows


PARTS: dict[str, Callable[[], Part]] = {
    "intervals": intervals, "ceiling": ceiling, "kinds": kinds, "filtered": filtered, "nulls": nulls,
}  # fmt: skip


if __name__ == "__main__":
    report.run(__doc__, PARTS)
