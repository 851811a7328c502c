"""Sources of a study: simulated animals, files with a sheet, or a saved study.

Recordings are fitted with one model on the engine, blind to the sheet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from datasets import cohort, windows
from datasets.cohort_files import PathOrFile, read_poses
from datasets.keypoints import KeypointTable, limit_notes
from datasets.storage import data_dir
from gdm_core.analysis.suggestions import MANY_TRIALS
from gdm_core.engine import Priority
from gdm_core.engine.suggest import Suggestion, max_samples
from gdm_core.errors import FitError, GdmError
from gdm_core.models.registry import FAMILIES
from gdm_core.study import Study, fitting
from gdm_core.study.methods import describe_search
from gdm_core.study.robustness import list_variants
from gdm_core.study.sheet import Sheet, match_sheet
from gdm_core.trials import Trial, Trials
from pages.lab import live
from pages.lab.live import panels
from pages.lab.live.background import Stopped
from pages.lab.suggest import NONE_FOUND, apply_button, models_of, question_of, show_verdict
from pages.lab.time_scale import choose_window
from pages.study import cropping, files, fits, reading, work
from pages.study.work import KEPT, LOOK_EVERY_S, Say
from pages.ui import exports, model_controls, settings, shell
from pages.ui.controls import number, one_of, text
from pages.ui.exports import Fit
from pages.ui.model_controls import Choice
from pages.ui.shell import Frame

SOURCES = {"simulated": "Simulated animals", "files": "Your files", "folder": "A folder below the data folder",
           "saved": "A saved study"}  # fmt: skip
STATES = {"known": "True states", "fitted": "Fitted"}
CHANGES = {  # true effects of simulated treatments
    "Groom 50% longer": cohort.Change("groom", times=1.5),
    "Rear more often after walking": cohort.Change("walk", "rear", 2.0),
    "Nothing": None,
}
SEEDS, ANIMALS = (0, 9999), (2, 40)
SESSIONS, MINUTES = 2, 4.0
_GO, _SUGGESTED, _VERDICT = f"{KEPT}go", f"{KEPT}suggested", f"{KEPT}verdict"


@dataclass(frozen=True, eq=False)
class Source:
    """Where a study comes from.

    key      identifies its content
    scope    of its controls; "" for simulated animals
    name     stem of exported files
    about    one-line description
    private  whether the data were uploaded
    imports, code   Python code that recreates `recordings` and `sheet`, or `study`
    described   Python code that completes `study` after a fit
    notes    notes from loading, in addition to those of the study
    preparation   sentences about the recordings for the methods paragraph
    poses    returns the poses of a recording; None if it has none
    starts   seconds that were cut off at the start of a recording
    """

    key: str
    scope: str
    name: str
    about: str
    private: bool
    imports: tuple[str, ...]
    code: tuple[str, ...]
    described: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    preparation: tuple[str, ...] = ()
    poses: Callable[[str], KeypointTable | None] = lambda name: None
    starts: Mapping[str, float] = field(default_factory=dict)

    def open(self, study: Study, **more: Any) -> OpenStudy:
        """Return the open study with further fields of `OpenStudy`, or others in place of those of the source."""
        return OpenStudy(**{**vars(self), "study": study, **more})


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenStudy(Source):
    """A study on the page.

    trials   returns the recordings; None if there are only states
    step     samples of a recording from one window to the next, 1 without windows
    fit      identifies the fit, "" without one
    variants, refit   settings of other fits by label, and a function that prepares one
    """

    study: Study
    trials: Callable[[], Mapping[str, Trial]] | None = None
    step: int = 1
    fit: str = ""
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    refit: Callable[[Mapping[str, Any]], Callable[[Say], Study]] | None = None


def choose(page: Frame) -> OpenStudy | None:
    """Return the chosen study; None, with instructions in place of the picture, if there is none."""
    with page.controls:
        shell.section("Study")
        source = one_of("From", SOURCES, key="data")
    if source == "saved":
        return _open_saved(page)
    if source in ("files", "folder"):
        return _open_files(page, source)
    return _simulate(page)


# ---- simulated animals ---------------------------------------------------------------------------------------------------
@st.cache_resource(max_entries=8, show_spinner=False)
def _cohort(n_animals: int, change: str, seed: int) -> cohort.Cohort:
    return cohort.simulate(n_animals, change=CHANGES[change], n_sessions=SESSIONS, minutes=MINUTES, seed=seed)


@st.cache_resource(max_entries=8, show_spinner=False)
def _true_study(n_animals: int, change: str, seed: int) -> Study:
    made = _cohort(n_animals, change, seed)
    study = Study.from_states(made.states, pd.DataFrame(made.sheet), made.rate_hz, cohort.BEHAVIOURS)
    return replace(study, origin="The true states of the simulation were used.")


@st.cache_resource(max_entries=4, show_spinner="Simulating animals")
def _recordings(n_animals: int, change: str, seed: int) -> dict[str, Trial]:
    return _cohort(n_animals, change, seed).recordings()


def _simulate(page: Frame) -> OpenStudy | None:
    """Show controls of simulated animals and return their study."""
    with page.controls:
        about = "The only true difference between the groups."
        change = one_of("Treatment effect", list(CHANGES), key="change", help=about)
        about = "The simulated states, or states that a model infers from the simulated poses."
        found = one_of("States", STATES, row=True, key="found", help=about)
    with page.advanced:
        n = number("Animals per group", *ANIMALS, 10, key="animals")
        seed = number("Simulation seed", *SEEDS, 0, key="dice")
    effect = "None" if CHANGES[change] is None else f"cohort.{CHANGES[change]!r}"
    source = Source(
        f"simulated/{n}/{change}/{seed}", "", "simulated-animals", f"{2 * n} simulated animals, {2 * n * SESSIONS} recordings",
        False, ("import pandas as pd", "from gdm_core import Study", "from gdm_studio.datasets import cohort"),
        (f"animals = cohort.simulate({n}, change={effect}, n_sessions={SESSIONS}, minutes={MINUTES:g}, seed={seed})",),
    )  # fmt: skip
    if found == "fitted":
        code = (*source.code, "recordings, sheet = animals.recordings(), pd.DataFrame(animals.sheet)")
        source = replace(source, scope=settings.scope("fitted"), name="simulated-animals-fitted", code=code)
        sheet = pd.DataFrame(_cohort(n, change, seed).sheet)
        return _fit(page, source, _recordings(n, change, seed), sheet, "study")
    made = "study = Study.from_states(animals.states, pd.DataFrame(animals.sheet), animals.rate_hz, cohort.BEHAVIOURS)"
    trials = partial(_recordings, n, change, seed)
    return source.open(_true_study(n, change, seed), code=(*source.code, made), trials=trials)


# ---- a saved study -----------------------------------------------------------------------------------------------------
def _open_saved(page: Frame) -> OpenStudy | None:
    with page.controls:
        given = files.upload("Study file", files.SAVED, "The study file from the Export tab.")
    with page.picture:
        if not given:
            shell.empty("No study yet", "Choose a study file on the left.")
            return None
        file = given[0]
        study = work.outcome(
            "study-opening", ("saved", file.file_id), lambda say: Study.from_bytes(file.getvalue(), file.name),
            "This study cannot be opened", words=f"Opening {file.name}",
        )  # fmt: skip
    if study is None:
        return None
    name = exports.slug(file.name.rpartition(".")[0] or file.name)
    source = Source(
        f"saved/{file.file_id}", settings.scope(file.file_id), name, file.name, True,
        ("from gdm_core import Study",), (f"study = Study.open({file.name!r})",),
    )  # fmt: skip
    return source.open(study)


# ---- files and a sheet ---------------------------------------------------------------------------------------------------
def _open_files(page: Frame, source: str) -> OpenStudy | None:
    """Show the controls of files and a sheet and return their study, or instructions and errors in its place."""
    path, given, trouble = "", list[tuple[str, PathOrFile]](), ""
    with page.controls:
        if source == "folder":
            path = text("Folder or zip", key="path", placeholder="below the data folder", help=f"Below {data_dir()}.")
            try:
                given = files.list_folder(path) if path else []
            except GdmError as error:
                trouble = str(error)
        else:
            given = files.uploaded()
        about = "One row per recording: file, animal, and conditions such as group, dose or batch."
        files.upload("Sheet (CSV, XLSX)", files.SHEET, about)
        options = files.choose_options()
    with page.picture:
        if trouble:
            shell.error("Folder not found", trouble)
        elif not given:
            shell.empty(
                "Upload recordings and a sheet",
                "Recordings: DeepLabCut or SLEAP poses, tables, or states from another tool. "
                "The sheet has one row per recording with its file name, animal and conditions.",
            )
            shell.quiet("Uploads stay in this session's memory.")
        found = files.read(given, options) if given else None
        sheet = (
            None if found is None else files.match(page, found, path, settings.scope(sorted(key for key, _ in given)))
        )
    if found is None or sheet is None:
        return None
    scope = settings.scope(sorted(key for key, _ in given), sheet.frame.to_json(), sorted(sheet.left_out))
    imports = ["from pathlib import Path", "from gdm_core import Study", "from gdm_studio.datasets import cohort_files"]
    imports += ["from gdm_core.study.sheet import match_by_suffix"] if sheet.suffix else []
    code = (
        "# sheet.csv and the folder of recordings have to lie here.",
        'sheet = cohort_files.read_sheet("sheet.csv")',
        f'files = cohort_files.list_files(Path("{path or "recordings"}"))',
    )
    source_ = Source(
        f"files/{scope}/{options}", scope, exports.slug(path) if path else "study", "", True, tuple(imports), code,
        notes=(*sheet.notes, *limit_notes(found.notes)),
    )  # fmt: skip
    return _crop_and_open(page, source_, found.without(sheet.left_out), sheet, options)


def _crop_and_open(
    page: Frame, source: Source, found: files.Read, sheet: files.Matched, options: files.FileReading
) -> OpenStudy | None:
    """Return the study of files: at once from states, from recordings after a fit."""
    rate = found.rate_hz if found.states else None
    name, read = "recordings", reading.write_code(found.answers, options.rate_hz, options.features)
    if rate is not None:
        name, read = "states", (f"states, words = cohort_files.read_states(files, {rate:g})",)
    with page.controls:
        part = cropping.choose(sheet.frame, not found.states, source.scope)
    try:
        parts = cropping.cut(found.states or found.trials, sheet.frame, part, rate, source.key)
    except GdmError as error:
        with page.picture:
            shell.error("Recordings cannot be cropped", str(error))
        return None
    cropped = cropping.code(part, parts, name, rate)
    matched = (f"sheet = match_by_suffix(sheet, {name})[1]",) if sheet.suffix else ()
    source = replace(
        source, key=f"{source.key}/{part}", imports=(*source.imports, *(cropping.IMPORTS if cropped else ())),
        code=(*source.code, *read, *matched, *cropped), described=(cropping.DESCRIBED,) if cropped else (),
        notes=(*source.notes, *parts.sentences), preparation=tuple(parts.sentences), starts=parts.starts,
    )  # fmt: skip
    if rate is None:

        def poses(name: str) -> KeypointTable | None:
            file = found.sources[name]
            return read_poses(file, name, options.rate_hz, found.answers.get(file.name))

        source = replace(source, about=f"{len(found.trials)} recordings", poses=poses)
        return _fit(page, source, parts.recordings, sheet.frame, source.scope)

    def make(say: Say) -> Study:
        study = Study.from_states(parts.recordings, sheet.frame, rate, found.words, parts.starts)
        return replace(study, preparation=tuple(parts.sentences), rate_source="set by the analyst")

    with page.picture:
        made = work.outcome("study-making", ("states", source.key), make, "This is no study yet", words="Counting")
    if made is None:
        return None
    call = f"study = Study.from_states(states, sheet, {rate:g}, words{', starts' if cropped else ''})"
    about = f"{len(found.states)} recordings, in states of another tool"
    return source.open(made, code=(*source.code, call, *source.described), about=about)


# ---- one model for all animals ---------------------------------------------------------------------------------------------
@st.cache_resource(scope="session", max_entries=2, show_spinner="Summarising windows")
def _summarised(key: str, _recordings: Mapping[str, Trial], window: int) -> dict[str, Trial]:
    return {name: windows.summarise(one, window)[0] for name, one in _recordings.items()}


def _fit(
    page: Frame, source: Source, recordings: Mapping[str, Trial], sheet: pd.DataFrame, scope: str
) -> OpenStudy | None:
    """Show model controls, which belong to a scope, and progress; return the study once the model is fitted."""
    with page.controls:
        model_place = st.expander("Model", icon=":material/model_training:")
    with model_place:
        window, n_states = choose_window(Trials(tuple(recordings.values())), "s", scope)
    step = 1
    if window is not None:
        rate_hz = next(iter(recordings.values())).rate_hz
        recordings = _summarised(source.key, recordings, window)
        step = round(rate_hz / next(iter(recordings.values())).rate_hz)
        summary = f"recordings = {{name: windows.summarise(one, {window})[0] for name, one in recordings.items()}}"
        sentence = f"States are of windows of {window} samples ({window / rate_hz:.3g} s), one every {step}."
        source = replace(
            source, key=f"{source.key}/{window}", about=f"{source.about} in windows of {window} samples",
            code=(*source.code, summary), imports=(*source.imports, "from gdm_studio.datasets import windows"),
            preparation=(*source.preparation, sentence),
        )  # fmt: skip
    known, first = match_sheet(sheet, recordings), next(iter(recordings.values()))
    samples = sum(one.n_samples for one in recordings.values())
    with model_place:
        choice = model_controls.choose(
            (min(samples, fitting.MOST_SAMPLES), first.n_channels), n_states=n_states or 8,
            n_latent=min(6, first.n_channels), defined_by="dynamics" if window is None else "position", scope=scope,
        )  # fmt: skip
    its_own = f"{source.key}/{choice.family}/{json.dumps(dict(choice.config), sort_keys=True)}"
    prepared = partial(
        fits.fit_study, recordings, known, choice.family, preparation=source.preparation, keep=not source.private
    )
    with page.picture:
        if st.session_state.get(_GO) != its_own:
            fit, decoding = fits.estimate_times(recordings)
            shell.empty(
                f"{len(recordings)} recordings, {samples:,} {'samples' if window is None else 'windows'}",
                f"One model is fitted, with equal weight for all {known.subjects} and blind to the sheet: fit {fit}, then "
                f"{len(recordings)} recordings to decode, {decoding}. The fit continues if you leave this page.",
            )
            begin = partial(_set, _GO, its_own)
            shell.begin_button("Fit one model to all recordings", begin, type="primary", key="study-fit")
            if window is None:
                _suggest(source.key, recordings, known, choice)
            return None
        do = prepared(choice.config)
        study = work.outcome("study-fit", ("fit", its_own), do, "The fit failed", what="the fit")
    if study is None:
        return None
    module, family = FAMILIES[choice.family]
    call = (f"model = {Fit(choice.family, choice.config, ()).call}", "study = Study.fit(recordings, sheet, model)")
    return source.open(
        replace(study, why_k=_explain_k(source.key, choice, n_states)), key=its_own, fit=its_own, step=step,
        about=f"{source.about}, {choice.n_states} states found by one model",
        imports=(*source.imports, f"from {module} import {family}"), code=(*source.code, *call, *source.described),
        trials=lambda: recordings, refit=partial(prepared, priority=Priority.LOW),
        variants=list_variants(choice.family, choice.config),
    )  # fmt: skip


def _explain_k(key: str, choice: Choice, n_states: int | None) -> str:
    """Return why K was chosen, if a search or the time scale recommended it.

    n_states   recommended with the time scale
    """
    searched, verdict = st.session_state.get(_VERDICT, ("", None))
    if verdict is not None and searched == key:
        return describe_search(verdict, choice.n_states)
    if n_states == choice.n_states:
        return "K is the number of states that windows separate best (silhouette of k-means)."
    return ""


def _set(name: str, value: Any) -> None:
    st.session_state[name] = value


def _suggest(key: str, recordings: Mapping[str, Trial], known: Sheet, choice: Choice) -> None:
    """Recommend a model and settings by fits to half of the animals, scored on the others."""
    engine, session = panels.engine(), f"{live.visitor()}/suggest"
    subjects = known.subjects

    def do(say: Say) -> Suggestion:
        _, kept = fitting.prepare(recordings, known)
        trials = fitting.sample_animals(kept, known.animals, max_samples(models_of(choice)))
        job = question_of(choice, trials).start(engine, session)
        try:
            while not job.wait(LOOK_EVERY_S):
                say(f"Fitting half of the {subjects}, scoring the others", job.progress[1])
        except Stopped:
            job.cancel()
            raise
        found = job.read()
        if found.suggestion is None:
            raise FitError(found.message)
        return found.suggestion

    about = ("suggest", key, choice.name, json.dumps(dict(choice.config), sort_keys=True))
    asked = st.session_state.get(_SUGGESTED)
    shell.begin_button("Suggest settings", partial(_set, _SUGGESTED, about), key="study-suggest")
    if asked is None or asked[:2] != about[:2]:
        return
    found = work.outcome("study-suggest", asked, do, NONE_FOUND, what="the search")
    if found is None:
        return
    _set(_VERDICT, (key, found.verdict))
    if len(set(known.animals.values())) < MANY_TRIALS:
        shell.quiet(f"With fewer than {MANY_TRIALS} {subjects}, time blocks are held out instead of {subjects}.")
    with show_verdict(found):
        apply_button(choice, found.model, found.settings, "study-suggest-use")
