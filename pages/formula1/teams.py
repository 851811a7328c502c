"""Drivers in the colours of their teams, which are told apart on both themes; teammates by the dash of their lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from datasets.formula1 import Session
from gdm_studio.plot import palette

GREY = "#868c9c"  # of a driver whose team's colour the feed does not say
ALIKE = 18.0  # difference (OKLab x 100) below which two thin lines need another dash
LIGHTNESS = (0.53, 0.63)  # OKLab: at least 3:1 against white and against the dark surface


@dataclass(frozen=True)
class Look:
    """How a driver's lines are drawn."""

    colour: str
    dash: str


def readable(colour: str) -> str:
    """A team's colour, darker or lighter where it would not be seen on one of the themes."""
    if not colour:
        return GREY
    lab = palette.to_oklab(palette.rgb([colour]))
    lab[:, 0] = np.clip(lab[:, 0], *LIGHTNESS)
    return palette.hex_colours(palette.from_oklab(lab))[0]


def looks(session: Session, codes: Sequence[str]) -> list[Look]:
    """One for each driver: the team's colour, and another dash where an earlier one has much the same."""
    found: list[Look] = []
    for code in codes:
        colour = readable(session.driver(code).colour)
        alike = sum(
            bool(palette.difference(palette.rgb([colour]), palette.rgb([other.colour]))[0, 0] < ALIKE)
            for other in found
        )
        found.append(Look(colour, ("solid", "dash", "dot", "dashdot")[alike % 4]))
    return found
