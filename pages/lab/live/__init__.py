"""Live tuning: a control is released, the picture changes, the fit follows. LIVE.md shows how a page uses it."""

from gdm_core.analysis.matching import in_order
from pages.lab.live.answers import Answer
from pages.lab.live.pictures import Shown, Wanted
from pages.lab.live.screen import (
    COLOURS,
    beforehand,
    fit,
    let_go,
    open_settings,
    problem,
    progress,
    region,
    release_when_gone,
    share_colours,
    states_of,
    transport,
    unanswered,
    visitor,
    watch,
)
from pages.lab.live.session import Live

__all__ = [
    "COLOURS",
    "Answer",
    "Live",
    "Shown",
    "Wanted",
    "beforehand",
    "fit",
    "in_order",
    "let_go",
    "open_settings",
    "problem",
    "progress",
    "region",
    "release_when_gone",
    "share_colours",
    "states_of",
    "transport",
    "unanswered",
    "visitor",
    "watch",
]
