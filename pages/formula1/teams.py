"""Line styles of drivers: team colours, distinguished by dash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from datasets.formula1 import Session
from gdm_studio.plot import palette

GREY = "#868c9c"  # colour of drivers without a team colour
ALIKE = 18.0  # OKLab difference x 100 below which lines need different lightness
DASHES = ("solid", "dash", "dot", "dashdot")
LIGHTNESS = (0.53, 0.63)  # OKLab: contrast of at least 3:1 in both themes


@dataclass(frozen=True)
class LineStyle:
    """Colour and dash of a driver's lines."""

    colour: str
    dash: str

    def mark(self, sign: str) -> str:
        """Return the sign in the driver's colour; words in it would be hard to read."""
        return f'<span style="color:{self.colour}">{sign}</span>'


def readable(colour: str) -> str:
    """Return a team's colour with enough contrast in both themes."""
    if not colour:
        return GREY
    lab = palette.to_oklab(palette.rgb([colour]))
    lab[:, 0] = np.clip(lab[:, 0], *LIGHTNESS)
    return palette.hex_colours(palette.from_oklab(lab))[0]


def line_styles(session: Session, codes: Sequence[str]) -> list[LineStyle]:
    """Return a line style per driver: different dashes, and different lightness for similar colours."""
    found: list[LineStyle] = []
    for code in codes:
        colour = readable(session.driver(code).colour)
        alike = sum(_difference(colour, other.colour) < ALIKE for other in found)
        found.append(LineStyle(_shifted(colour, alike), DASHES[len(found) % len(DASHES)]))
    return found


def field_styles(session: Session, codes: Sequence[str]) -> list[LineStyle]:
    """Return a line style per driver of the field: the team's colour, with another lightness and dash for the second."""
    found: list[LineStyle] = []
    teams: list[str] = []
    for code in codes:
        driver = session.driver(code)
        mates = teams.count(driver.team)
        found.append(LineStyle(_shifted(readable(driver.colour), mates), DASHES[mates % len(DASHES)]))
        teams.append(driver.team)
    return found


def _difference(one: str, other: str) -> float:
    return float(palette.difference(palette.rgb([one]), palette.rgb([other]))[0, 0])


def _shifted(colour: str, steps: int) -> str:
    """Return the same hue, lighter."""
    if not steps:
        return colour
    lab = palette.to_oklab(palette.rgb([colour]))
    lab[:, 0] += (0.0, 0.2, 0.1)[steps % 3]  # darker ones vanish in the dark theme
    return palette.hex_colours(palette.from_oklab(lab))[0]
