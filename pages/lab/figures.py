"""Figures that every lab shows, of one trial as a fit reads it, named and coloured as on the page; for tabs and for files."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.bouts import runs, transition_shares
from gdm_core.analysis.envelopes import Envelope
from gdm_core.analysis.planes import PlaneMap
from gdm_core.trials import Trial
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import Figure
from pages.lab.analysis_figures import transition_graph
from pages.lab.labels import Known
from pages.lab.view import Reading, Unread
from pages.ui import legend

HIGHEST = 0.9  # of the shares' axis: a name further up would be cut by the edge of the figure
BEFORE = 40  # samples of the past beside a prediction


def rows_of_strips(
    here: Reading | Unread, cut: bool, more: Mapping[str, npt.NDArray[np.float32]] = types.MappingProxyType({})
) -> dict[str, npt.NDArray[np.float32]]:
    """What is known, `more`, bouts where they are `cut`, and states: as far as there is each."""
    rows = {} if here.known is None else {here.known.who: here.known.shares}
    rows |= more
    if isinstance(here, Reading):
        rows |= {"bouts": figures.one_hot(here.bouts, len(here.names))} if cut else {}
        rows["states"] = here.states
    return rows


def strips(reading: Reading, cut: bool) -> Figure:
    """The strips over the recording's clock, with the names of all colours."""
    known, names = reading.known, reading.names
    key = {"states": legend.states(len(names), names, reading.used)}
    if known is not None and known.who == "expert":
        key = {"expert": legend.states(len(known.names), known.names)} | key
    elif known is not None and len(known.names) > len(names):
        key = {"states": legend.states(len(known.names))}
    called = names if known is None else None
    return legend.with_key(figures.state_strips(rows_of_strips(reading, cut), names=called, **reading.timing), key)


def shares(reading: Reading) -> Figure:
    """Stacked shares over time."""
    figure = figures.proportions(reading.shares, labels=reading.naming.short, **reading.looks, **reading.timing)
    for mark in figure["layout"]["annotations"]:
        mark["y"] = float(np.clip(mark["y"], 1 - HIGHEST, HIGHEST))
    return figure


def entropy(reading: Reading) -> Figure:
    """How undecided the model is among the states that there are, as the exported table says it."""
    return figures.entropy_strip(reading.shares, **reading.timing)


def usage(reading: Reading) -> Figure:
    """How much each state is used, beside the true use where the model has as many states."""
    known = reading.known
    if known is None or known.who != "true" or len(known.names) != len(reading.used):
        return figures.usage(reading.shares, **reading.looks)
    caption = "Bars: the model's states. Ticks: the true ones of the same colour."
    return figures.usage(reading.shares, **reading.looks, reference=known.shares.mean(axis=0), caption=caption)


def stays(reading: Reading) -> Figure:
    """How long bouts last, on one axis with what is known."""
    known, row = reading.known, np.full(len(reading.names), -1)
    row[reading.used] = np.arange(len(reading.used))
    beside = None if known is None else runs(known.labels)[1]
    timing = reading.lengths(reading.bouts)
    return figures.dwell(row[reading.bouts], len(reading.used), beside=beside, **reading.looks, **timing)


def known_stays(reading: Reading, known: Known) -> Figure:
    """The same of what is known."""
    n, beside = len(known.names), runs(reading.bouts)[1]
    return figures.dwell(known.labels, n, names=known.names, beside=beside, **reading.lengths(reading.bouts))


def matrix(reading: Reading) -> Figure:
    """What follows what among bouts, in numbers."""
    return _matrix(reading.bouts, reading.names, reading.used, "Among the bouts of the row that end, the share that goes to each "
                   "column. Rows add up to 100\u00a0%.")  # fmt: skip


def known_matrix(known: Known) -> Figure:
    """The same of what is known."""
    what = "expert's labels" if known.who == "expert" else "true states"
    return _matrix(known.labels, known.names, range(len(known.names)), f"The same for the {what}.")


def _matrix(labels: npt.NDArray[np.int64], names: Sequence[str], used: Sequence[int], caption: str) -> Figure:
    visited = [k for k in used if (labels == k).any()]
    shares = transition_shares(labels, len(names))[np.ix_(visited, visited)]
    return figures.transition_matrix(shares, names=[names[k] for k in visited], caption=caption)


def graph(reading: Reading) -> Figure:
    """What follows what among bouts, as a graph."""
    bouts, names = reading.bouts, reading.names
    visited = [k for k in reading.used if (bouts == k).any()]
    return transition_graph(transition_shares(bouts, len(names)), np.nanmean(reading.states, axis=0), names, visited)


def remarked(figure: Figure, known: Known) -> Figure:
    """The figure, saying so where some of what is known shares a colour."""
    return figure | {"caption": f"{figure['caption']} {known.remark}".strip()}


def plane(found: PlaneMap, path: npt.NDArray[Any] | None, order: Sequence[int]) -> Figure:
    """Which state wins where, in the order of colours."""
    caption = (
        "Where the model's transition leads from each place, in mixed colours; the line is the path."
        if found.source == "transition"
        else "This model's transitions do not look at the place: shown are the states found nearby."
    )
    return figures.transition_map(found.xs, found.ys, found.probabilities[..., list(order)], path=path, caption=caption)


def prediction(
    found: Envelope, trial: Trial, channel: int, *, name: str = "", step: float = 1.0, unit: str = "step"
) -> Figure:
    """The prediction of one channel from its moment on; `step` is the time from one sample to the next, in `unit`."""
    n, first = found.origin, max(0, found.origin - BEFORE)
    time = np.arange(n + 1, n + 1 + len(found.mean))
    past = np.arange(first, min(trial.n_samples, n + 1 + len(found.mean)))
    last = np.full(len(time), trial.y[n, channel])
    spread = 3 * found.std[:, channel]
    return figures.envelope(
        time * step,
        found.mean[:, channel],
        band90=(found.lower90[:, channel], found.upper90[:, channel]),
        band50=(found.lower50[:, channel], found.upper50[:, channel]),
        three_sigma=(found.mean[:, channel] - spread, found.mean[:, channel] + spread),
        observed=(past * step, trial.y[past, channel]),
        persistence=(time * step, last),
        now=n * step,
        unit=unit,
        channel=name or trial.channels[channel],
    )
