"""Fits of one model to all recordings of a study, on the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from gdm_core.analysis.inference import calibrate
from gdm_core.engine import Engine, FitSpec, Job, JobStatus, Priority
from gdm_core.models.loading import model_from_bytes
from gdm_core.study import Study, fitting
from gdm_core.study.sheet import Sheet
from gdm_core.trials import Trial, Trials
from pages.lab import live
from pages.lab.live import panels
from pages.lab.live.background import Stopped
from pages.study.work import Say

R = TypeVar("R")
AT_A_TIME = 4  # recordings in flight, or two for each worker
LOOK_EVERY_S = 0.2
FIT_S, DECODE_S = (1.0, 1.5e-5), (0.05, 1e-5)  # measured seconds: constant, per sample
OF_A_FIT = 0.8  # share of the progress bar; the rest is decoding


def estimate_seconds(recordings: Mapping[str, Trial]) -> tuple[float, float]:
    """Return the usual seconds of the fit and of decoding on one quiet core."""
    samples = sum(one.n_samples for one in recordings.values())
    return FIT_S[0] + min(samples, fitting.MOST_SAMPLES) * FIT_S[1], len(recordings) * DECODE_S[0] + samples * DECODE_S[
        1
    ]


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
        job = engine.submit(spec, session=session, priority=priority)
        fitted = wait_for(job, "Fitting one model", say).model_bytes
        job = engine.submit(calibrate, fitted, training, session=session, priority=priority)
        model = wait_for(job, "Calibrating forecasts", say)
        decoded = read_all(engine, fitting.decode_recording, model, kept, session, "Fitted. Decoding", say, priority)
        study = Study.from_decoded(model_from_bytes(model), decoded, sheet)
        return replace(study, preparation=(*preparation, *study.preparation))

    return do


def wait_for(job: Job, words: str, say: Say) -> Any:
    """Return the result of a fit or call, which is cancelled if the user stops waiting."""
    try:
        while not job.wait(LOOK_EVERY_S):
            view = job.poll()
            waits = view.waits or ("waiting for a worker" if view.status is JobStatus.QUEUED else "")
            say(f"{words}{f', {waits}' * bool(waits)}", OF_A_FIT * view.step / view.total if view.total else 0.0)
    except Stopped:
        job.cancel()
        raise
    return job.result(0)


def read_all(
    engine: Engine,
    function: Callable[..., R],
    model: bytes,
    recordings: Mapping[str, Trial],
    session: str,
    words: str,
    say: Say,
    priority: Priority | None = None,
) -> dict[str, R]:
    """Apply a model to every recording, a few at a time, and return the results."""
    rule, most = fitting.STEADY, max(AT_A_TIME, 2 * engine.info().n_workers)
    found: dict[str, R] = {}
    left, under_way = list(recordings), dict[str, Job]()
    try:
        while left or under_way:
            while left and len(under_way) < most:
                name = left.pop(0)
                question = (model, Trials((recordings[name],)), rule.smooth_s, rule.shortest_s)
                under_way[name] = engine.submit(function, *question, session=session, priority=priority)
            next(iter(under_way.values())).wait(LOOK_EVERY_S)
            for name in [name for name, job in under_way.items() if job.poll().status.final]:
                found[name] = under_way.pop(name).result(0)
            share = OF_A_FIT + (1 - OF_A_FIT) * len(found) / len(recordings)
            say(f"{words} {len(found)} of {len(recordings)} recordings", share)
    finally:
        for job in under_way.values():
            job.cancel()
    return {name: found[name] for name in recordings}
