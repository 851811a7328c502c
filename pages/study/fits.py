"""One model for all animals of a study: fitted on the engine, blind to the sheet, and every recording read with it there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import streamlit as st

from gdm_core.engine import Engine, FitRequest, Job
from gdm_core.engine.messages import JobStatus
from gdm_core.models.registry import FAMILIES
from gdm_core.study import Study, fitting
from gdm_core.study.sheet import checked
from gdm_core.study.states import Recording
from gdm_core.study.study import RESERVED
from gdm_core.trials import Trial, Trials
from pages.lab import live
from pages.lab.live import screen
from pages.study import work
from pages.study.work import KEPT, Say, Work
from pages.ui import model_controls, shell
from pages.ui.exports import Fit
from pages.ui.model_controls import Choice
from pages.ui.shell import Frame

_GO = f"{KEPT}go"
FIT_S, READ_S = 1_800.0, 600.0
AT_A_TIME = 4  # recordings on their way to workers and back
LOOK_EVERY_S = 0.2
OF_A_FIT = 0.8  # of all the work; the rest is reading


@dataclass(frozen=True, eq=False)
class Wanted:
    """What is to be fitted: `keep` says whether what comes of it may stay on disk."""

    key: str
    recordings: Mapping[str, Trial]
    sheet: pd.DataFrame
    keep: bool


def choose(page: Frame, wanted: Wanted, of: str) -> tuple[Study | None, Choice]:
    """Controls of the model and a button, or how far the fit is. The study once it has been fitted."""
    first = next(iter(wanted.recordings.values()))
    samples = sum(one.n_samples for one in wanted.recordings.values())
    with page.controls:
        choice = model_controls.choose(
            n_channels=first.n_channels, n_samples=min(samples, fitting.MOST_SAMPLES), n_states=8,
            n_latent=min(6, max(1, first.n_channels)), of=of,
        )  # fmt: skip
    key = f"{wanted.key}/{choice.family}/{json.dumps(dict(choice.config), sort_keys=True)}"
    with page.picture:
        if st.session_state.get(_GO) != key:
            seconds = 0.5 + min(samples, fitting.MOST_SAMPLES) * 1.5e-4
            shell.empty(
                f"{len(wanted.recordings)} recordings, {samples:,} samples",
                f"One model is fitted to all animals, none outweighing another, blind to the sheet: {live.beforehand(seconds)}. "
                "It goes on while you look at other pages.",
            )
            if not st.button("Fit one model to all", type="primary", key="study-fit"):
                return None, choice
            st.session_state[_GO] = key
            st.rerun()
        fit = _begun(key, wanted, choice)
        if not work.follow("study-fit-progress", [fit]):
            st.button("Stop the fit", key="study-fit-stop", on_click=fit.stop, icon=":material/stop:")
            return None, choice
        if fit.error is not None:
            stopped = str(fit.error) == work.STOPPED
            if shell.error(
                "The fit was stopped" if stopped else "It could not be fitted", str(fit.error), retry="study-fit-again"
            ):
                work.forget(("fit", key))
                st.rerun()
            return None, choice
    found: Study = fit.value
    return found, choice


def _begun(key: str, wanted: Wanted, choice: Choice) -> Work:
    engine, session = screen.engine(), f"{live.visitor()}/study"  # known to the script's thread alone

    def do(say: Say) -> Study:
        notes: list[str] = []
        known = checked(wanted.sheet, wanted.recordings, RESERVED)
        kept, aside = fitting.prepared({name: wanted.recordings[name] for name in known.names}, notes)
        trials = Study.training(kept, known, notes)
        request = FitRequest(choice.family, choice.config, trials, preview=(), deadline_s=FIT_S, use_cache=wanted.keep)
        result = _waited(engine.submit(request, session=session), say, "Fitting one model to all")
        read, scores = _read_all(engine, result.model_bytes, kept, session, say)
        odd = fitting.far_below(scores)
        part = replace(known, set_aside={**known.set_aside, **aside}, notes=(*known.notes, *notes))
        return Study.of_read(result.model(), read, odd, part)

    return work.of(("fit", key), do)


def _waited(job: Job, say: Say, words: str) -> Any:
    """What a job gives; it ends with whoever waits for it."""
    try:
        while not job.wait(LOOK_EVERY_S):
            view = job.poll()
            waits = ", waiting for a worker" if view.status is JobStatus.QUEUED else ""
            say(f"{words}{waits}", OF_A_FIT * view.step / view.total if view.total else 0.0)
        return job.result(0)
    except work.Stopped:
        job.cancel()
        raise


def _read_all(
    engine: Engine, model: bytes, recordings: Mapping[str, Trial], session: str, say: Say
) -> tuple[dict[str, Recording], dict[str, float]]:
    """Every recording read with the model, a few at a time, and how well it explains each."""
    rule = fitting.STEADY
    found: dict[str, Recording] = {}
    scores: dict[str, float] = {}
    left, under_way = list(recordings), dict[str, Job]()
    try:
        while left or under_way:
            while left and len(under_way) < AT_A_TIME:
                name = left.pop(0)
                asked = (model, Trials((recordings[name],)), rule.smooth_s, rule.shortest_s)
                under_way[name] = engine.call(fitting.read_by, *asked, session=session, deadline_s=READ_S)
            next(iter(under_way.values())).wait(LOOK_EVERY_S)
            for name in [name for name, job in under_way.items() if job.poll().status.final]:
                found[name], scores[name] = under_way.pop(name).result(0)
            share = OF_A_FIT + (1 - OF_A_FIT) * len(found) / len(recordings)
            say(f"Reading recordings with it, {len(found)} of {len(recordings)}", share)
    finally:
        for job in under_way.values():
            job.cancel()
    return {name: found[name] for name in recordings}, {name: scores[name] for name in recordings}


def code(choice: Choice) -> Iterator[str]:
    """How a script fits `recordings` beside `sheet`."""
    yield f"model = {Fit(choice.family, choice.config, ()).call}"
    yield "study = Study.fit(recordings, sheet, model)"


def imports(choice: Choice) -> str:
    """What the script needs for it."""
    module, name = FAMILIES[choice.family]
    return f"from {module} import {name}"
