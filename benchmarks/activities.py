"""States of activities: `python -m benchmarks.activities [PART ...] [--json FILE]`.

Parts are series of ../shared/data/states (or $GDM_TEST_DATA): mocap, activities, synthetic. Adjusted Rand index of the states of
samples against the labels, with the true number of states and with the recommended one; the time scale is always the recommended
one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import report
from benchmarks.recordings import DATA
from benchmarks.report import Part
from datasets import windows
from gdm_core import Trial, Trials
from gdm_core.analysis.baselines import GaussianHMM
from gdm_core.analysis.time_scale import choose_scale
from gdm_core.models.registry import build
from gdm_core.models.scaling import Scaler

States = npt.NDArray[Any]  # numbers [T], or shares [T, K]


def fit_model(name: str) -> Callable[[Trials, int], States]:
    def fit(trials: Trials, n_states: int) -> States:
        found: States = build(name, n_states, windows.N_LATENT, 0).fit(trials).predict_proba(trials)[0]
        return found

    return fit


def fit_kmeans(trials: Trials, n_states: int) -> States:
    from sklearn.cluster import KMeans

    found: States = KMeans(n_states, n_init=4, random_state=0).fit_predict(_standardised(trials))
    return found


def fit_hmm(trials: Trials, n_states: int) -> States:
    rows, starts = _standardised(trials), np.arange(trials.n_samples) == 0
    guess = fit_kmeans(trials, n_states).astype(np.int64)
    return GaussianHMM.fit(rows, starts, guess, n_states).infer(rows, starts).states


def _standardised(trials: Trials) -> npt.NDArray[np.float64]:
    return Scaler.from_trials(trials).apply(trials[0].y).astype(np.float64)


ON_WINDOWS = {
    "GDM": fit_model(windows.MODEL),
    "AR-HMM, sticky": fit_model("arhmm-sticky"),
    "k-means": fit_kmeans,
    "Gaussian HMM": fit_hmm,
}
ON_SAMPLES = {"k-means": fit_kmeans, "Gaussian HMM": fit_hmm}


def measure(path: Path) -> list[list[Any]]:
    """Return rows of [series, states, windows, method, number of states, adjusted Rand index, seconds]."""
    from sklearn.metrics import adjusted_rand_score

    data = np.load(path)
    recording, truth = Trials((Trial(data["y"]),)), data["labels"]
    rows: list[list[Any]] = []

    def add(kind: str, scale: int | None, method: str, n_states: int, find: Callable[[Trials, int], States]) -> None:
        trials = recording if scale is None else windows.summarise(recording, scale)
        began = time.perf_counter()
        states = find(trials, n_states)
        seconds = time.perf_counter() - began
        (states,) = windows.to_samples([states], trials, recording)
        hard = states.argmax(axis=1) if states.ndim == 2 else states
        score = float(adjusted_rand_score(truth, hard))
        rows.append([path.stem, kind, scale or "samples", method, len(np.unique(hard)), score, seconds])

    began = time.perf_counter()
    choice = choose_scale(recording)
    print(*choice.sentences, f"Found in {time.perf_counter() - began:.1f} s.")
    n_true = len(np.unique(truth))
    for kind, n_states in (("given", n_true), ("suggested", choice.n_states or n_true)):
        for method, find in ON_WINDOWS.items():
            add(kind, choice.scale, method, n_states, find)
    for method, find in ON_SAMPLES.items():
        add("given", None, method, n_true, find)
    return rows


def measure_kind(kind: str) -> Part:
    """Measure all series of a kind, and return the mean and lowest index of each method."""
    found: dict[tuple[str, ...], list[float]] = {}
    for path in sorted((DATA / "states").glob(f"{kind}*.npz")):
        rows = measure(path)
        print(report.table(path.stem, ["series", "states", "windows", "method", "K", "ARI", "s"], rows), flush=True)
        for _, states, scale, method, _, score, _ in rows:
            found.setdefault((states, "samples" if scale == "samples" else "windows", method), []).append(score)
    means = [[*key, float(np.mean(scores)), min(scores)] for key, scores in found.items()]
    return f"Mean of {kind} series", ["states", "on", "method", "ARI", "lowest"], means


if __name__ == "__main__":
    report.run(__doc__, {kind: partial(measure_kind, kind) for kind in ("mocap", "activities", "synthetic")})
