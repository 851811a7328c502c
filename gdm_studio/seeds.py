"""How many more fits tell a score from luck, as whoever runs the dashboard wants it."""

from __future__ import annotations

import os

from gdm_core.errors import ConfigError

SEEDS_VARIABLE = "GDM_MORE_SEEDS"
MORE_SEEDS = 4  # fits besides the one that stands
MOST_SEEDS = 20


def more_seeds() -> int:
    """Fits from other seeds that are worked out while nobody waits for anything. 0 leaves the processor alone."""
    text = os.environ.get(SEEDS_VARIABLE, "").strip()
    if not text:
        return MORE_SEEDS
    if not text.isdecimal() or int(text) > MOST_SEEDS:
        raise ConfigError(f"{SEEDS_VARIABLE} is {text!r}; it must be a whole number of fits from 0 to {MOST_SEEDS}.")
    return int(text)
