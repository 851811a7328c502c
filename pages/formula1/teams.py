"""Drivers in the colours of their teams, told apart by dash as well, and by lightness where teams look alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from datasets.formula1 import Session
from gdm_studio.plot import palette

GREY = "#868c9c"  # of a driver whose team's colour the feed does not say
ALIKE = 18.0  # difference (OKLab x 100) below which two thin lines need another dash
DASHES = ("solid", "dash", "dot", "dashdot")
LIGHTNESS = (0.53, 0.63)  # OKLab: at least 3:1 against white and against the dark surface


@dataclass(frozen=True)
class LineStyle:
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


def looks(session: Session, codes: Sequence[str]) -> list[LineStyle]:
    """One for each driver: a dash of its own, and the team's colour, lighter or darker where an earlier one has much the same."""
    found: list[LineStyle] = []
    for code in codes:
        colour = readable(session.driver(code).colour)
        alike = sum(_difference(colour, other.colour) < ALIKE for other in found)
        found.append(LineStyle(_shifted(colour, alike), DASHES[len(found) % len(DASHES)]))
    return found


def _difference(one: str, other: str) -> float:
    return float(palette.difference(palette.rgb([one]), palette.rgb([other]))[0, 0])


def _shifted(colour: str, steps: int) -> str:
    """The same hue, lighter, then darker, by what two thin lines need to be told apart."""
    if not steps:
        return colour
    lab = palette.to_oklab(palette.rgb([colour]))
    lab[:, 0] = lab[:, 0] + (0.2 if steps % 2 else -0.2)
    return palette.hex_colours(palette.from_oklab(lab))[0]
