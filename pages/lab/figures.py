"""Figures of one trial that pages share, for tabs and files."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.bouts import runs, transition_shares
from gdm_core.analysis.envelopes import Envelope, PlaneMap
from gdm_core.trials import Trial
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import (
    INK,
    LINE,
    Dict,
    Figure,
    axis,
    figure,
    points,
    rows_axis,
    shape,
)
from gdm_studio.plot.figures.states import plain
from pages.lab.decoded import Decoded, Undecoded
from pages.lab.naming import Reference
from pages.ui import legend

DIFFERS = "differs"  # row of the samples at which filtered states differ from smoothed ones
N_PAST = 40  # samples shown before a prediction


def rows_of_strips(
    here: Decoded | Undecoded, cut: bool, more: Mapping[str, npt.NDArray[np.float32]] = types.MappingProxyType({})
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the rows: reference, `more`, bouts if `cut`, and inferred states."""
    rows = {} if here.reference is None else {here.reference.who: here.reference.shares}
    rows |= more
    if isinstance(here, Decoded):
        rows |= {"bouts": figures.one_hot(here.bouts, len(here.names))} if cut else {}
        rows["inferred"] = here.states
        rows |= {} if here.differs is None else {DIFFERS: here.differs}
    return rows


def strips(reading: Decoded, cut: bool) -> Figure:
    """Draw strips over time with a colour key."""
    known, names = reading.reference, reading.names
    key = {"inferred": legend.states(len(names), names, reading.used)}
    if known is not None and known.who == "expert":
        key = {"expert": legend.states(len(known.names), known.names)} | key
    elif known is not None and len(known.names) > len(names):
        key = {"states": legend.states(len(known.names))}
    called = names if known is None else None
    return legend.with_key(figures.state_strips(rows_of_strips(reading, cut), names=called, **reading.timing), key)


def shares(reading: Decoded) -> Figure:
    return figures.proportions(reading.shares, labels=reading.naming.short, **reading.looks, **reading.timing)


def entropy(reading: Decoded) -> Figure:
    """Draw the entropy of the states, as in the exported table."""
    return figures.entropy_strip(reading.shares, **reading.timing)


def usage(reading: Decoded) -> Figure:
    """Draw the usage of states, next to the true usage for equal K."""
    known = reading.reference
    if known is None or known.who != "true" or len(known.names) != len(reading.used):
        return figures.usage(reading.shares, **reading.looks)
    caption = "Bars: the model's states. Ticks: true states of the same colour."
    return figures.usage(reading.shares, **reading.looks, reference=known.shares.mean(axis=0), caption=caption)


def stays(reading: Decoded) -> Figure:
    """Draw dwell times on one axis with the reference."""
    known, row = reading.reference, np.full(len(reading.names), -1)
    row[reading.used] = np.arange(len(reading.used))
    other = None if known is None else runs(known.labels)[1]
    timing = reading.lengths(reading.bouts)
    return figures.dwell(row[reading.bouts], len(reading.used), other_lengths=other, **reading.looks, **timing)


def reference_stays(reading: Decoded, known: Reference) -> Figure:
    """Draw dwell times of the reference."""
    shown: dict[str, Any] = {"names": known.names, "other_lengths": runs(reading.bouts)[1], "caption": ""}
    return figures.dwell(known.labels, len(known.names), **shown, **reading.lengths(reading.bouts))


def matrix(reading: Decoded) -> Figure:
    """Draw the transition matrix of bouts."""
    return _matrix(reading.bouts, reading.names, reading.used, "Share of the row state's transitions that go to each column; rows "
                   "add up to 100%.")  # fmt: skip


def reference_matrix(known: Reference) -> Figure:
    """Draw the transition matrix of the expert's labels."""
    return _matrix(known.labels, known.names, range(len(known.names)), "The same for the expert's labels.")


def _matrix(labels: npt.NDArray[np.int64], names: Sequence[str], used: Sequence[int], caption: str) -> Figure:
    visited = [k for k in used if (labels == k).any()]
    shares = transition_shares(labels, len(names))[np.ix_(visited, visited)]
    return figures.transition_matrix(shares, names=[names[k] for k in visited], caption=caption)


def plane(found: PlaneMap, path: npt.NDArray[Any] | None, order: Sequence[int], *, start: float, step: float) -> Figure:
    """Draw the most probable state at each position of the plane."""
    caption = (
        "Next state of the model's transition from each position, in mixed colours; the line is the path."
        if found.source == "transition"
        else "This model's transitions do not depend on position; the map shows the states nearby."
    )
    shares = found.probabilities[..., list(order)]
    return figures.transition_map(found.xs, found.ys, shares, path=path, start=start, step=step, caption=caption)


def prediction(
    found: Envelope,
    trial: Trial,
    channel: int,
    *,
    name: str = "",
    start: float = 0.0,
    step: float = 1.0,
    unit: str = "step",
) -> Figure:
    """Draw the forecast of one channel; `start` and `step` are in `unit`."""
    n, first = found.origin, max(0, found.origin - N_PAST)
    time = np.arange(n + 1, n + 1 + len(found.mean))
    past = np.arange(first, min(trial.n_samples, n + 1 + len(found.mean)))
    last = np.full(len(time), trial.y[n, channel])
    spread = 3 * found.std[:, channel]
    return figures.envelope(
        start + time * step,
        found.mean[:, channel],
        band90=(found.lower90[:, channel], found.upper90[:, channel]),
        band50=(found.lower50[:, channel], found.upper50[:, channel]),
        three_sigma=(found.mean[:, channel] - spread, found.mean[:, channel] + spread),
        observed=(start + past * step, trial.y[past, channel]),
        persistence=(start + time * step, last),
        now=start + n * step,
        unit=unit,
        channel=name or trial.channels[channel],
    )


COLUMNS = (
    ("train", "r2", "training<br>R²", "persistence"),
    ("test", "r2", "held-out<br>R²", "persistence"),
    ("test", "paper_accuracy", "10-NN<br>accuracy", "majority"),
    ("test", "balanced_accuracy", "balanced<br>accuracy", "majority_balanced"),
    ("test", "macro_f1", "macro-F1", "majority_f1"),
)


def trial_scores(found: Mapping[str, Any]) -> Figure:
    """Draw one dot per trial in each column, next to the trial's baseline."""
    traces: list[Dict] = []
    marks: list[Dict] = []
    shown: list[str] = []
    lowest = 0.0
    for side, field, title, line in COLUMNS:
        rows = [row for row in found[side] if row.get(field) is not None]
        if not rows:
            continue
        at = len(shown)
        shown.append(title)
        jitter = np.linspace(-0.16, 0.0, len(rows)) if len(rows) > 1 else np.array([-0.08])
        names = [plain(row["name"]) for row in rows]
        both = (
            (field, "the model", at + jitter, "$accent", (at - 0.24, at + 0.04), "$ink"),
            (line, "the baseline", at + 0.22 + 0.6 * jitter, "$faint", (at + 0.1, at + 0.32), "$muted"),
        )
        for score, who, places, colour, reach, ink in both:
            if any(row.get(score) is None for row in rows):
                continue
            values = np.array([row[score] for row in rows], float)
            lowest = min(lowest, float(values.min()))
            dots = {"color": colour, "size": 7, "opacity": 0.8}
            hover = f"%{{customdata}}<br>{who} %{{y:.3f}}"
            traces.append(points("markers", places, values, hover, customdata=names, marker=dots))
            middle = float(np.median(values))
            marks.append(shape("line", reach, (middle, middle), line={"color": ink, "width": LINE}))
    along = rows_axis(shown, range=[-0.5, max(len(shown), 1) - 0.5]) | {"tickfont": INK}
    up = axis(range=[max(-0.5, lowest - 0.04), 1.03], fixedrange=True, tickvals=[-0.5, 0, 0.25, 0.5, 0.75, 1])
    caption = (
        "Each dot is one trial, each bar a median. Grey: baselines on the same trial, persistence (R²) and the most common "
        "behaviour (accuracies, macro-F1)."
    )
    alt = f"Scores of {len(found['test'])} held-out and {len(found['train'])} training trials."
    return figure(traces, caption, alt, 300, shapes=marks, xaxis=along, yaxis=up)
