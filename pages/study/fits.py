"""One model for all animals of a study: fitted on the engine, blind to the sheet, and every recording read with it there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import streamlit as st

from gdm_core.analysis.suggestions import MANY_TRIALS
from gdm_core.engine import Engine, FitRequest, Job
from gdm_core.engine.messages import JobStatus
from gdm_core.engine.suggest import MOST_READ, MOST_READ_OF_OTHERS, Question, Suggestion, SuggestJob
from gdm_core.errors import FitError
from gdm_core.models.registry import FAMILIES
from gdm_core.study import Study, fitting
from gdm_core.study.sheet import RECORDING, checked, in_words
from gdm_core.study.states import Recording
from gdm_core.study.study import RESERVED
from gdm_core.trials import Trial, Trials
from pages.lab import live
from pages.lab.live import screen
from pages.lab.live.background import Stopped
from pages.lab.suggest import APART, verdicts
from pages.study import work
from pages.study.work import KEPT, Say
from pages.ui import model_controls, settings, shell
from pages.ui.controls import one_of, several
from pages.ui.exports import Fit
from pages.ui.model_controls import Choice
from pages.ui.shell import Frame

_GO, _SUGGESTED = f"{KEPT}go", f"{KEPT}suggested"
MOST_VALUES = 12  # of a column whose values say what is fitted to
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


def choose(page: Frame, wanted: Wanted, of: str) -> tuple[Study | None, Choice, list[str] | None]:
    """Controls of the model and a button, or how far the fit is. The study once it has been fitted, its model, and the recordings
    that it was fitted to, None for all."""
    first = next(iter(wanted.recordings.values()))
    samples = sum(one.n_samples for one in wanted.recordings.values())
    with page.controls:
        choice = model_controls.choose(
            n_channels=first.n_channels, n_samples=min(samples, fitting.MOST_SAMPLES), n_states=8,
            n_latent=min(6, max(1, first.n_channels)), of=of,
        )  # fmt: skip
        on = _some(wanted, of)
    key = f"{wanted.key}/{choice.family}/{json.dumps(dict(choice.config), sort_keys=True)}/{on}"
    with page.picture:
        if st.session_state.get(_GO) != key:
            seconds = 0.5 + min(samples, fitting.MOST_SAMPLES) * 1.5e-4
            shell.empty(
                f"{len(wanted.recordings)} recordings, {samples:,} samples",
                f"One model is fitted to all animals, none outweighing another, blind to the sheet: {live.beforehand(seconds)}. "
                "It goes on while you look at other pages.",
            )
            if not st.button("Fit one model to all" if on is None else f"Fit one model to {len(on)} of them", type="primary",
                             key="study-fit"):  # fmt: skip
                _suggest(wanted, choice)
                return None, choice, on
            st.session_state[_GO] = key
            st.rerun()
        do = _fit(wanted, choice, on)
        found = work.outcome("study-fit", ("fit", key), do, "It could not be fitted", what="the fit")
    return found, choice, on


def _some(wanted: Wanted, of: str) -> list[str] | None:
    """The recordings that the model is fitted to; None for all."""
    known = checked(wanted.sheet, wanted.recordings, RESERVED)
    columns = [str(c) for c in known.frame if 1 < known.frame[c].nunique() <= MOST_VALUES or c == known.animal]
    every = "all recordings"
    said = "Or to some of them, which the others are then read with: what is unlike them is flagged."
    column = one_of("Fitted to", [every, *columns], key="fitted-to", of=of, help=said)
    if column not in columns:
        return None
    words = known.frame[column].map(in_words, na_action="ignore")
    options = sorted(words.dropna().unique().tolist())
    its = settings.key(of, settings.of(column))
    chosen = several(f"where {column} is", options, options[:1], key="fitted-values", of=its)
    return known.frame.loc[words.isin(chosen), RECORDING].tolist() or None


def _suggest(wanted: Wanted, choice: Choice) -> None:
    """Which K, tau and the rest the data speak for: half of the animals judge what was fitted to the others."""
    known = checked(wanted.sheet, wanted.recordings, RESERVED)
    fixed = {name: value for name, value in choice.config.items() if name not in APART}
    most = MOST_READ.get(choice.name, MOST_READ_OF_OTHERS)
    engine, session = screen.engine(), f"suggest-{live.visitor()}-study"

    def do(say: Say) -> Suggestion:
        kept, _ = fitting.prepared({name: wanted.recordings[name] for name in known.names}, [])
        trials = fitting.one_each(kept, known.animals, most)
        job = SuggestJob(Question(choice.name, trials, int(choice.config["n_latent"]), fixed), engine, session)
        try:
            while not (now := job.poll()).finished:
                say(
                    "Trying settings on half of the animals, and judging them by the others",
                    now.done / max(1, now.total),
                )
                time.sleep(LOOK_EVERY_S)
        except Stopped:
            job.cancel()
            raise
        if now.suggestion is None:
            raise FitError(now.message)
        return now.suggestion

    about = ("suggest", wanted.key, choice.name, json.dumps(fixed, sort_keys=True), choice.config["n_latent"])
    if not (st.button("Suggest settings", key="study-suggest") or st.session_state.get(_SUGGESTED) == about):
        return
    st.session_state[_SUGGESTED] = about
    found = work.outcome("study-suggest", about, do, "No settings could be suggested", what="the search")
    if found is None:
        return
    st.button(
        "Use these settings", key="study-suggest-use", on_click=model_controls.apply, args=(choice, found.settings),
        disabled=model_controls.are_set(choice, found.settings),
    )  # fmt: skip
    if len(set(known.animals.values())) < MANY_TRIALS:
        shell.quiet(
            f"Of fewer than {MANY_TRIALS} animals no half can be left out: stretches of time take turns instead."
        )
    verdicts(found)


def _fit(wanted: Wanted, choice: Choice, on: list[str] | None) -> Callable[[Say], Study]:
    engine, session = screen.engine(), f"{live.visitor()}/study"  # known to the script's thread alone

    def do(say: Say) -> Study:
        notes: list[str] = []
        known = checked(wanted.sheet, wanted.recordings, RESERVED)
        kept, aside = fitting.prepared({name: wanted.recordings[name] for name in known.names}, notes)
        chosen = kept if on is None else {name: kept[name] for name in on if name in kept}
        trials = Study.training(chosen, known, notes)
        request = FitRequest(choice.family, choice.config, trials, preview=(), deadline_s=FIT_S, use_cache=wanted.keep)
        result = waited(engine.submit(request, session=session), say, "Fitting one model to all")
        read, scores = read_all(engine, result.model_bytes, kept, session, say)
        odd = fitting.far_below(scores)
        part = replace(known, set_aside={**known.set_aside, **aside}, notes=(*known.notes, *notes))
        return Study.of_read(result.model(), read, odd, part)

    return do


def waited(job: Job, say: Say, words: str) -> Any:
    """What a job gives; it ends with whoever waits for it."""
    try:
        while not job.wait(LOOK_EVERY_S):
            view = job.poll()
            waits = ", waiting for a worker" if view.status is JobStatus.QUEUED else ""
            say(f"{words}{waits}", OF_A_FIT * view.step / view.total if view.total else 0.0)
        return job.result(0)
    except Stopped:
        job.cancel()
        raise


def read_all(
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


def code(choice: Choice, on: list[str] | None) -> Iterator[str]:
    """How a script fits `recordings` beside `sheet`."""
    yield f"model = {Fit(choice.family, choice.config, ()).call}"
    yield f"study = Study.fit(recordings, sheet, model{'' if on is None else f', on={on!r}'})"


def imports(choice: Choice) -> str:
    """What the script needs for it."""
    module, name = FAMILIES[choice.family]
    return f"from {module} import {name}"
