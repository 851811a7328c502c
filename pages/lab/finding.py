"""What a fit has found, in a sentence or two: how many states, which of them holds most of the time, and what that is worth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gdm_core.analysis.bouts import median_bout
from gdm_core.analysis.suggestions import NUMBERS
from gdm_core.units import STEPS
from pages.lab.view import Reading, Unread
from pages.ui.card import Score, explained

IDLE = 0.01  # of the time: below, a state is called unused
WORTH = {
    "beats": "{name}: ahead of {line}.",
    "level": "{line} does as well.",
    "below": "{line} does better.",
    "unknown": "{name}: ahead of {line} in this one fit.",
    "short": "There is too little data to say what that is worth.",
}


def finding(reading: Reading | Unread, of: str, rows: Sequence[Score]) -> str:
    """In words; "" while there are no states.

    of   what the trial is called in a sentence
    """
    if isinstance(reading, Unread):
        return ""
    share = reading.states.mean(axis=0)
    n_states, most = len(share), int(share.argmax())
    used = int((share >= IDLE).sum())
    counted = NUMBERS.get(n_states, f"{n_states} states")
    idle = f", {n_states - used} of them hardly used" if used < n_states else ""
    timing = reading.lengths(reading.bouts)
    stay = median_bout([reading.bouts]) * timing["step"]
    lasts = f"{stay:.3g} {timing['unit']}" if reading.unit is not STEPS else f"{stay:.0f} step{'s' * (stay >= 1.5)}"
    held = f"{reading.names[most]} holds {100 * share[most]:.0f} % of {of}"
    said = [f"{counted.capitalize()}{idle}. {held}; half of all stays last {lasts} or less."]
    first = next((row for row in rows if row.verdict is not None and np.isfinite(row.value)), None)
    if first is not None and first.verdict is not None:
        line = explained(first.line_name)[0]
        begins = first.verdict in ("level", "below")
        said.append(WORTH[first.verdict].format(name=first.name, line=line[:1].upper() + line[1:] if begins else line))
    return " ".join(said)
