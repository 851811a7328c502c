"""The comparison that runs for this visitor: the latest wish wins, and what is fitted once is never fitted again."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from gdm_core.engine.compare import CompareJob, Comparison
from pages.lab import live
from pages.lab.live import screen
from pages.ui import shell
from pages.ui.shell import Frame

AT_ONCE = 60_000  # samples of all fits together: more than some 20 s of work is started by a button
_KEPT = "_compare"


@dataclass
class Asked:
    """What this visitor compares now, and under which names."""

    key: str
    names: tuple[str, ...]
    job: CompareJob


def current(frame: Frame, comparison: Comparison) -> CompareJob | None:
    """The job of these settings, started if it is small or the button was pressed; None while it waits for that."""
    kept: Asked | None = st.session_state.get(_KEPT)
    names = tuple(comparison.settings)
    if kept is not None and (kept.key, kept.names) == (comparison.key, names):
        return kept.job
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
    if kept is not None:
        kept.job.cancel()
    job = CompareJob(comparison, screen.engine(), f"{live.visitor()}/compare")
    st.session_state[_KEPT] = Asked(comparison.key, names, job)
    return job
