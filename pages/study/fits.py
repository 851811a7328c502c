"""Fits of one model to all recordings of a study, on the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gdm_core.analysis.inference import calibrate
from gdm_core.engine import FitSpec, Job, JobStatus, Priority
from gdm_core.models.loading import model_from_bytes
from gdm_core.study import Study, fitting
from gdm_core.study.sheet import Sheet
from gdm_core.trials import Trial, Trials
from pages.lab import live
from pages.lab.live import panels
from pages.lab.live.background import Stopped
from pages.study.work import LOOK_EVERY_S, Say, run_jobs

FIT_S, DECODE_S = (1.0, 1.5e-5), (0.05, 1e-5)  # measured seconds on one quiet core: constant, per sample
OF_A_FIT = 0.4  # share of the progress bar; the rest is decoding


def estimate_times(recordings: Mapping[str, Trial]) -> tuple[str, str]:
    """Return how long the fit, on one worker, and decoding, on all, usually take."""
    samples, workers = sum(one.n_samples for one in recordings.values()), max(1, panels.engine().info().n_workers)
    fit_s = FIT_S[0] + min(samples, fitting.MOST_SAMPLES) * FIT_S[1]
    decode_s = len(recordings) * DECODE_S[0] + samples * DECODE_S[1]
    return live.estimate_wait(fit_s * workers), live.estimate_wait(decode_s)


def fit_study(
    recordings: Mapping[str, Trial], known: Sheet, family: str, config: Mapping[str, Any],
    preparation: Sequence[str] = (), *, keep: bool, priority: Priority | None = None,
) -> Callable[[Say], Study]:  # fmt: skip
    """Return a function that fits one model to all recordings and finds their states.

    preparation  sentences about the recordings for the methods paragraph
    keep         whether the fit is cached on disk
    priority     of its jobs; as usual for fits and functions without one
    """
    engine = panels.engine()  # known only in the script's thread
    session = f"{live.visitor()}/{'study' if priority is None else 'refits'}"

    def do(say: Say) -> Study:
        sheet, kept = fitting.prepare(recordings, known)
        training, sheet = fitting.balance(kept, sheet)
        spec = FitSpec(family, config, training, preview=(), use_cache=keep)
        fitted = _wait_for(
            engine.submit(spec, session=session, priority=priority), "Fitting one model", say
        ).model_bytes
        job = engine.submit(calibrate, fitted, training, session=session, priority=priority)
        model = _wait_for(job, "Calibrating forecasts", say)

        found: dict[str, fitting.Decoding] = {}

        def submit(name: str) -> Job:
            rule = fitting.STEADY
            given = model, Trials((kept[name],)), rule.smooth_s, rule.shortest_s
            return engine.submit(fitting.decode_recording, *given, session=session, priority=priority)

        def report() -> None:
            done = f"Fitted. Decoding {len(found)} of {len(kept)} recordings"
            say(done, OF_A_FIT + (1 - OF_A_FIT) * len(found) / len(kept))

        run_jobs(engine, lambda: kept, submit, found, report)
        study = Study.from_decoded(model_from_bytes(model), {name: found[name] for name in kept}, sheet)
        return replace(study, preparation=(*preparation, *study.preparation))

    return do


def _wait_for(job: Job, words: str, say: Say) -> Any:
    """Return the result of a job, which is cancelled if the user stops waiting."""
    try:
        while not job.wait(LOOK_EVERY_S):
            view = job.poll()
            waits = view.waits or ("waiting for a free processor" if view.status is JobStatus.QUEUED else "")
            share = OF_A_FIT * (view.step / view.total if view.total else 0.0)
            say(f"{words}{f', {waits}' if waits else ''}", share)
    except Stopped:
        job.cancel()
        raise
    return job.result(0)
