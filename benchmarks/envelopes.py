"""What 90 % envelopes hold and how wide they are, calibrated once and adaptive: `python -m benchmarks.envelopes [--choose]`.

Tracks   ten new ones of either setting, each with its own fit
race     the simulated race: fitted on the winner, applied to the driver who came fifth
mice     real recordings in ../shared/data (or $GDM_TEST_DATA), first 60 % to last 40 %, and simulated mice

Widths are relative to those of the best fixed factor of each horizon and channel, chosen with hindsight: the one with which the
calibrated band holds exactly 90 % of this very trial. `--choose` compares rates on eight other tracks, as was done before.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import report
from benchmarks.recordings import pairs
from datasets import formula1, nascar
from gdm_core.adaptation import RATE, adapted
from gdm_core.analysis.metrics import HORIZON, MAX_ORIGINS, N_PATHS
from gdm_core.forecast import LEVELS, Forecast, coverage, outcomes, width
from gdm_core.models.registry import build
from gdm_core.trials import TrialsLike, as_trials

LEVEL = 0.9
REPORTED, CHOSEN_ON = range(500, 510), range(200, 208)
RATES = (0.0, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1)
Array = npt.NDArray[np.float64]


def forecasts(
    train: TrialsLike, test: TrialsLike, n_states: int, n_latent: int, seed: int
) -> list[tuple[Forecast, Any]]:
    """Forecasts of each new trial with bands as calibrated, and the trial."""
    ours, theirs = as_trials(train), as_trials(test)
    model = build("gdm", n_states, n_latent, seed).fit(ours)
    stride = max(1, -(-theirs.n_samples // MAX_ORIGINS))
    found = []
    for trial in theirs:
        at = np.arange(model.min_samples - 1, trial.n_samples - 1, stride)
        found.append((model.forecast(trial, HORIZON, N_PATHS, origins=at, adaptive=False), trial.y))
    return found


def measure(found: Sequence[tuple[Forecast, Any]], rate: float) -> tuple[Array, Array]:
    """([H] share of outcomes that 90 % bands hold, [H] their width relative to the best fixed factor's) over all trials."""
    shares, widths, best, counts = [], [], [], []
    for fixed, y in found:
        bands = adapted(fixed, y, rate) if rate else fixed
        known = np.isfinite(outcomes(y, fixed.origins, HORIZON))
        shares.append(coverage(bands, y, LEVEL))
        counts.append(known.sum(axis=(0, 2)))
        widths.append(width(bands, LEVEL) * len(fixed.origins))
        best.append(width(fixed, LEVEL) * len(fixed.origins))
    needed = hindsight(found)
    total = np.sum(counts, axis=0)
    share = (np.array(shares) * counts).sum(axis=0) / total
    return share, (np.sum(widths, axis=0) / (needed * np.sum(best, axis=0))).mean(axis=1)


def hindsight(found: Sequence[tuple[Forecast, Any]]) -> Array:
    """[H, N] the factor with which calibrated bands hold exactly their share of these very outcomes."""
    scores = []
    middle = int(np.flatnonzero(np.isclose(LEVELS, LEVEL))[0])
    for fixed, y in found:
        error = outcomes(y, fixed.origins, HORIZON) - fixed.mean
        edge = np.where(error >= 0, fixed.upper[middle] - fixed.mean, fixed.mean - fixed.lower[middle])
        scores.append(np.abs(error) / np.maximum(edge, 1e-9))
    return np.asarray(np.nanquantile(np.concatenate(scores), LEVEL, axis=0))


def tracks(seeds: Sequence[int]) -> Iterator[tuple[str, list[list[tuple[Forecast, Any]]]]]:
    """Forecasts of new tracks, by setting."""
    for setting in ("soft", "standard"):
        yield f"{setting} tracks", [forecasts(*nascar.train_test(setting, seed), 4, 2, seed) for seed in seeds]


def race() -> list[tuple[Forecast, Any]]:
    session = formula1.simulate_race("shanghai")
    codes = session.codes[0], session.codes[4]
    return forecasts(*(formula1.to_trials(session, code, preset="paper") for code in codes), 8, 2, 0)


def recordings() -> Iterator[tuple[str, list[tuple[Forecast, Any]]]]:
    for name, train, test in pairs():
        yield "simulated mice" if name == "simulated" else name, forecasts(train.to_trials(), test.to_trials(), 5, 6, 0)


def cases() -> Iterator[tuple[str, list[list[tuple[Forecast, Any]]]]]:
    """What is reported: name, and the forecasts of each pair of a fit and new data."""
    yield from tracks(REPORTED)
    yield "simulated race", [race()]
    for name, found in recordings():
        yield name, [found]


def table(found: Iterable[tuple[str, list[list[tuple[Forecast, Any]]]]], rates: Sequence[float]) -> list[list[Any]]:
    """A row for each case, rate and horizon, and one over all horizons: the share over pairs, and the width."""
    rows: list[list[Any]] = []
    for name, pairs_of in found:
        for rate in rates:
            shares, widths = (
                np.array(values) for values in zip(*(measure(one, rate) for one in pairs_of), strict=True)
            )
            for h in (*range(HORIZON), None):
                s, w = (shares, widths) if h is None else (shares[:, h], widths[:, h])
                steps = "all" if h is None else h + 1
                measured = (s.min(), s.mean(), s.max(), w.mean(), w.max())
                rows.append([name, len(pairs_of), rate, steps, *map(float, measured)])
    return rows


COLUMNS = ["data", "n", "rate", "steps ahead", "lowest", "mean", "highest", "width", "widest"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--choose", action="store_true", help="compare rates, on other tracks than those reported")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    rows = table(tracks(CHOSEN_ON), RATES) if options.choose else table(cases(), (0.0, RATE))
    print(report.table("Share that 90 % envelopes hold, and their width", COLUMNS, rows))
    report.write(options.json, {"envelopes": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
