"""An experiment run anew while one watches: its fits on the engine, kept like all others."""

from __future__ import annotations

from dataclasses import dataclass

from gdm_core.engine.compare import Compared, CompareJob
from gdm_core.engine.estimate import Estimate
from gdm_studio.paper import Experiment
from pages.lab import live
from pages.lab.live import background, screen


@dataclass
class Run:
    """The experiment that this visitor has asked for."""

    jobs: list[CompareJob]
    estimate: Estimate

    def poll(self) -> list[Compared]:
        return [job.poll() for job in self.jobs]

    def cancel(self) -> None:
        for job in self.jobs:
            job.cancel()


def current(name: str) -> Run | None:
    """The run of this experiment, if it was asked for."""
    kept: Run | None = background.begun("paper", name)
    return kept


def start(experiment: Experiment) -> None:
    """Run it; one that this visitor has asked for before ends."""
    background.begin("paper", experiment.name, lambda: _run(experiment))


def _run(experiment: Experiment) -> Run:
    engine, visitor = screen.engine(), f"{live.visitor()}/paper"
    jobs = [CompareJob(one, engine, visitor) for one in experiment.comparisons]
    return Run(jobs, Estimate(experiment.usual_s / max(1, len(engine.info().workers))))


def stop() -> None:
    """End what runs; what is stored with the app is shown again."""
    background.end("paper")
