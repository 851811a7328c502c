"""Setting: number of further fits that measure how scores vary with the seed."""

from __future__ import annotations

import os

from gdm_core.errors import ConfigError

SEEDS_VARIABLE = "GDM_MORE_SEEDS"
MORE_SEEDS = 4  # fits in addition to the displayed one
MOST_SEEDS = 20


def more_seeds() -> int:
    """Return the number of fits from other seeds that run in idle time."""
    text = os.environ.get(SEEDS_VARIABLE, "").strip()
    if not text:
        return MORE_SEEDS
    if not text.isdecimal() or int(text) > MOST_SEEDS:
        raise ConfigError(f"{SEEDS_VARIABLE} is {text!r}; it must be a whole number of fits from 0 to {MOST_SEEDS}.")
    return int(text)
