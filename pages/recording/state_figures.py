"""Figures of one trial as the visitor named, merged and coloured its states, for the tabs and for what is taken along."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pages.recording.view import Here
from pages.ui import figures, palette
from pages.ui.figures import Figure
from pages.ui.units import Unit

HIGHEST = 0.9  # of the shares' axis: a name further up would be cut by the edge of the figure


def names_of(here: Here) -> list[str]:
    """Of the states that there are, without the columns that a merger or another colour left empty."""
    return [here.names[k] for k in here.used]


def colours_of(here: Here) -> list[str]:
    every = palette.colours(len(here.names))
    return [every[k] for k in here.used]


def timing(here: Here, unit: Unit) -> dict[str, Any]:
    """Step and unit as figures take them."""
    return {"step": unit.of(1 / here.trial.rate_hz), "unit": unit.name}


def lengths(here: Here, labels: npt.NDArray[np.int64]) -> dict[str, Any]:
    """The same for the lengths of stays."""
    unit = here.stays(labels)
    return timing(here, unit) | {"unit": unit.plural}


def dwell(here: Here) -> Figure:
    """How long bouts last."""
    assert here.bouts is not None
    row = np.full(len(here.names), -1)
    row[here.used] = np.arange(len(here.used))
    named: dict[str, Any] = {"names": names_of(here), "colours": colours_of(here)}
    return figures.dwell(row[here.bouts], len(here.used), **named, **lengths(here, here.bouts))


def usage(here: Here) -> Figure:
    """How much each state is used."""
    assert here.states is not None
    return figures.usage(here.states[:, here.used], names=names_of(here), colours=colours_of(here))


def proportions(here: Here) -> Figure:
    """Shares over time."""
    assert here.states is not None
    named: dict[str, Any] = {"names": names_of(here), "colours": colours_of(here)}
    figure = figures.proportions(here.states[:, here.used], start=here.start, **named, **timing(here, here.unit))
    for mark in figure["layout"]["annotations"]:
        mark["y"] = float(np.clip(mark["y"], 1 - HIGHEST, HIGHEST))
    return figure


def entropy(here: Here) -> Figure:
    """How undecided the model is among the states that there are, as the exported table says it."""
    assert here.states is not None
    return figures.entropy_strip(here.states[:, here.used], start=here.start, **timing(here, here.unit))
