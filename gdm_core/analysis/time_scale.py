"""Choice of a time scale: states of single samples, or of windows that span many samples.

Activities form clusters in the summaries of windows. The silhouette of k-means clusters compares window lengths: it has no unit
and peaks where windows are long enough to tell activities apart and too short to mix them. A cluster that only every other
sample shows consists of outliers; neither it nor one short stretch is a state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.maths.spikes import find_spikes
from gdm_core.maths.threads import one_thread
from gdm_core.maths.windows import summarise_windows
from gdm_core.trials import Trials, TrialsLike, as_trials

Float = npt.NDArray[np.float64]

SHORTEST = 10  # samples of a window
STEPS_PER_WINDOW = 10
MIN_WINDOWS = 20  # that fit end to end into a recording
PIECE, MAX_SAMPLES = 25_000, 100_000  # of long recordings
MAX_ROWS = 1000  # that are clustered
MAX_STATES = 9
N_BLOCKS = 10  # of time, for standard errors
SEPARATED = 0.5  # silhouette of a "reasonable structure" (Kaufman and Rousseeuw, 1990)
MARGIN = 0.05  # between silhouettes of windows and samples
AGREEMENT = 0.5  # share of a state's windows that even and odd samples both assign to it
REACH = 2  # windows that one sample contributes to, end to end
MIN_SHARE = 0.05  # of all windows, for a state that occurs in one place only
SAMPLES = "Use single samples."


@dataclass(frozen=True)
class ScaleProbe:
    """Clusters at one scale."""

    scale: int | None  # window length in samples; None for single samples
    n_states: int
    blocks: tuple[float, ...]  # mean silhouette of each block of time
    dwell: float = math.nan  # shortest mean dwell time of a state, in window lengths

    @property
    def silhouette(self) -> float:
        return float(np.mean(self.blocks))


@dataclass(frozen=True)
class ScaleChoice:
    """The recommended time scale."""

    scale: int | None  # window length in samples; None for single samples
    n_states: int | None  # that windows tell apart best; None for single samples
    sure: str  # "clear", "likely" or "open"
    sentences: tuple[str, str]  # the recommendation; how certain it is, and the reason


def choose_scale(data: TrialsLike) -> ScaleChoice:
    """Recommend single samples or windows, the window length, and a number of states."""
    pieces = _excerpt(as_trials(data))
    steps = [np.diff(piece, axis=0) for piece in pieces]
    with one_thread():
        probes = [one for parts in (pieces, steps, list(map(np.abs, steps))) for one in _cluster([parts])]
        versions = [pieces, *([_every_other(piece, first) for piece in pieces] for first in (0, 1))]
        for scale in _window_lengths(pieces):
            step = max(1, scale // STEPS_PER_WINDOW)
            windows = [[summarise_windows(piece, scale, step) for piece in version] for version in versions]
            probes += _cluster(windows, scale, step)
    return decide(probes)


def decide(probes: Sequence[ScaleProbe]) -> ScaleChoice:
    """Choose the scale from its probes.

    Windows must separate states well, better than samples do, and be shorter than dwell times. Among lengths about as good
    as the best, the middle one is chosen; then the largest number of states that is about as good, because silhouettes
    favour few.
    """
    in_order = sorted(probes, key=lambda probe: probe.silhouette)
    samples = {probe.n_states: probe for probe in in_order if probe.scale is None}
    lasting = [one for one in in_order if one.scale is not None and one.n_states in samples and one.dwell >= 1]
    if not lasting:
        return ScaleChoice(
            None, None, "open", (SAMPLES, "Uncertain: recordings are too short or constant for windows.")
        )

    def gain(probe: ScaleProbe) -> float:
        return probe.silhouette - samples[probe.n_states].silhouette

    sound = [probe for probe in lasting if probe.silhouette >= SEPARATED and gain(probe) >= MARGIN]
    best = sound[-1] if sound else max(lasting, key=gain)
    rival = samples[best.n_states]
    is_sure = gain(best) > 2 * math.hypot(_error(best.blocks), _error(rival.blocks)) if sound else gain(best) <= 0
    do = "separate states better" if sound else "do not separate states clearly better"
    numbers = f"(silhouette {best.silhouette:.2f} and {rival.silhouette:.2f})"
    reason = f"{'Certain' if is_sure else 'Fairly certain'}: windows {do} than samples do {numbers}."
    sure = "clear" if is_sure else "likely"
    if not sound:
        return ScaleChoice(None, None, sure, (SAMPLES, reason))
    scales = sorted(probe.scale or 0 for probe in _as_good([one for one in lasting if one.n_states == best.n_states]))
    scale = scales[(len(scales) - 1) // 2]
    k = max(probe.n_states for probe in _as_good([one for one in lasting if one.scale == scale]))
    return ScaleChoice(scale, k, sure, (f"Use windows of {scale} samples, and {k} states.", reason))


def _as_good(probes: Sequence[ScaleProbe]) -> list[ScaleProbe]:
    """Return those whose silhouette is within one standard error of the highest."""
    best = max(probes, key=lambda probe: probe.silhouette)
    lost = [np.subtract(best.blocks, probe.blocks) for probe in probes]
    return [probe for probe, blocks in zip(probes, lost, strict=True) if blocks.mean() <= _error(blocks)]


def _error(blocks: Sequence[float] | Float) -> float:
    return float(np.std(blocks, ddof=1) / math.sqrt(N_BLOCKS))


def _excerpt(trials: Trials) -> list[Float]:
    """Return the recordings without spikes, or about `MAX_SAMPLES` samples in evenly spread pieces."""
    pieces = [piece for trial in trials for piece in np.array_split(trial.y, math.ceil(trial.n_samples / PIECE))]
    pieces = [piece for piece in pieces if len(piece) > SHORTEST] or pieces[:1]
    some = pieces[:: math.ceil(sum(map(len, pieces)) / MAX_SAMPLES)]
    return [np.where(find_spikes(piece), np.nan, piece).astype(np.float64) for piece in some]


def _every_other(piece: Float, first: int) -> Float:
    """Return a recording with every other observed value of each channel, the rest missing."""
    half = np.full_like(piece, np.nan)
    for channel, values in enumerate(piece.T):
        kept = np.flatnonzero(np.isfinite(values))[first::2]
        half[kept, channel] = values[kept]
    return half


def _window_lengths(pieces: Sequence[Float]) -> list[int]:
    """Return odd window lengths, each about 1.4 times the one before."""
    lengths = [len(piece) for piece in pieces]
    most = min(max(lengths) / MIN_WINDOWS, min(lengths))
    count = 1 + int(2 * math.log2(most / SHORTEST)) if most >= SHORTEST else 0
    return [2 * int(SHORTEST * 2 ** (i / 2) / 2) + 1 for i in range(count)]


def _cluster(versions: Sequence[Sequence[Float]], scale: int | None = None, step: int = 1) -> list[ScaleProbe]:
    """Cluster rows into each number of states that they suffice for, and drop those that not all versions show."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_samples

    table = np.stack([np.concatenate(parts) for parts in versions])
    table = table.reshape(*table.shape[:2], -1)
    at = np.flatnonzero(np.isfinite(table).all(axis=(0, 2)))
    table = table[:, at]
    if len(at) < N_BLOCKS:
        return []
    table = table[:, :, (np.ptp(table, axis=1) > 1e-9 * np.abs(table).max(axis=1)).all(axis=0)]
    rows, *halves = (table - table.mean(axis=1, keepdims=True)) / table.std(axis=1, keepdims=True)
    some = rows[np.linspace(0, len(rows) - 1, min(len(rows), MAX_ROWS)).astype(int)]
    found = []
    for k in range(2, MAX_STATES + 1):
        if not rows.size or len(rows) <= 2 * k:
            break
        clusters = KMeans(k, n_init=3, random_state=0).fit(some)
        if len(np.unique(clusters.labels_)) < 2:
            continue
        blocks = np.array_split(silhouette_samples(some, clusters.labels_), N_BLOCKS)
        labels = clusters.predict(rows)
        in_halves = np.stack([labels, *map(clusters.predict, halves)])[1:]
        if scale is not None and not all(
            _is_state(at[labels == state], in_halves == state, scale / step) for state in range(k)
        ):
            continue
        visits = np.bincount(labels[np.diff(labels, prepend=-1) != 0], minlength=k)
        dwell = (np.bincount(labels, minlength=k) / np.maximum(visits, 1)).min() * step / (scale or 1)
        found.append(ScaleProbe(scale, k, tuple(float(block.mean()) for block in blocks), float(dwell)))
    return found


def _is_state(rows: npt.NDArray[np.int64], in_halves: npt.NDArray[np.bool_], window: float) -> bool:
    """Return whether even and odd samples share a cluster [2, T], and it returns or lasts."""
    if in_halves.all(axis=0).sum() < AGREEMENT * in_halves.any(axis=0).sum():
        return False
    returns = (np.diff(rows) > REACH * window).any()
    return bool(returns or len(rows) >= max(REACH * window, MIN_SHARE * in_halves.shape[1]))
