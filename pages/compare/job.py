"""The comparison that runs for this visitor: the latest wish wins, and what is fitted once is never fitted again."""

from __future__ import annotations

import streamlit as st

from gdm_core.engine.compare import CompareJob, Comparison
from pages.lab import live
from pages.lab.live import background, screen
from pages.ui import shell
from pages.ui.shell import Frame

AT_ONCE = 60_000  # samples of all fits together: more than some 20 s of work is started by a button


def current(frame: Frame, comparison: Comparison) -> CompareJob | None:
    """The job of these settings, started if it is small or the button was pressed; None while it waits for that."""
    about = (comparison.key, tuple(comparison.settings))  # the same fits under other names are another comparison
    known: CompareJob | None = background.begun("compare", about)
    if known is not None:
        return known
    work = comparison.n_fits * comparison.train.n_samples
    if work > AT_ONCE:
        with frame.picture:
            shell.empty(
                f"{comparison.n_fits} fits of {comparison.train.n_samples:,} samples",
                f"That takes {live.beforehand(comparison.usual_s)}. It goes on when you leave the page, and finished fits are "
                "kept.",
            )
            if not st.button("Compare", type="primary", key="compare-start"):
                return None
    return background.begin(
        "compare", about, lambda: CompareJob(comparison, screen.engine(), f"{live.visitor()}/compare")
    )
