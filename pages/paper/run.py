"""An experiment run anew while one watches: its fits on the engine, kept like all others."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from gdm_core.engine.compare import Compared, CompareJob
from gdm_core.engine.estimate import Estimate
from gdm_studio.paper import Experiment
from pages.lab import live
from pages.lab.live import screen

_KEPT = "_paper"


@dataclass
class Run:
    """The experiment that this visitor has asked for."""

    name: str
    jobs: list[CompareJob]
    estimate: Estimate

    def poll(self) -> list[Compared]:
        return [job.poll() for job in self.jobs]

    def cancel(self) -> None:
        for job in self.jobs:
            job.cancel()


def current(name: str) -> Run | None:
    """The run of this experiment, if it was asked for."""
    kept: Run | None = st.session_state.get(_KEPT)
    return kept if kept is not None and kept.name == name else None


def start(experiment: Experiment) -> None:
    """Run it; one that this visitor has asked for before ends."""
    stop()
    engine, visitor = screen.engine(), f"{live.visitor()}/paper"
    jobs = [CompareJob(one, engine, visitor) for one in experiment.comparisons]
    estimate = Estimate(experiment.usual_s / max(1, len(engine.info().workers)))
    st.session_state[_KEPT] = Run(experiment.name, jobs, estimate)


def stop() -> None:
    """End what runs; finished fits stay in the store. What is stored with the app is shown again."""
    kept: Run | None = st.session_state.pop(_KEPT, None)
    if kept is not None:
        kept.cancel()
