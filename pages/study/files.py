"""Files and sheet of a study: read in the background and matched by name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from datasets import cohort_files
from datasets.cohort_files import PathOrFile
from datasets.keypoints import FeatureSet
from datasets.readers.doubts import Answers, UnansweredError
from datasets.storage import data_dir
from datasets.tables import path_within
from gdm_core.analysis.tables import csv
from gdm_core.errors import DataError, GdmError
from gdm_core.study.fitting import RATES_ALIKE
from gdm_core.study.sheet import ANIMAL, RECORDING, ROWS_WITHOUT, format_list, match_by_suffix, match_sheet
from gdm_core.study.study import RESERVED
from gdm_core.study.text import format_rates
from gdm_core.text import plural
from gdm_core.trials import UNLABELLED, Trial
from pages.lab import live
from pages.lab.live import panels
from pages.study import reading, work
from pages.study.work import KEPT, Say
from pages.ui import settings, shell
from pages.ui.controls import number, one_of, switch
from pages.ui.downloads import download
from pages.ui.shell import Frame
from pages.ui.tables import show_table
from pages.ui.uploads import Upload, uploader

UPLOAD, SHEET, SAVED = "study-upload", "study-sheet", "study-saved"  # keys of widgets
_SENT = f"{KEPT}sent-"  # uploaded files; kept when another page removes the widget
_READ = f"{KEPT}read"  # contents of files read so far
SHEETS = ("sheet", "conditions", "metadata", "meta", "design", "samples", "animals")
MOST_ADVISED = 50  # recordings that get a spelling suggestion
HOLD = {"recordings": "Poses or tables", "states": "States from another tool"}
FEATURES: dict[FeatureSet, str] = {"egocentric": "Egocentric features", "keypoints": "Raw keypoints"}


@dataclass
class Read:
    """Contents of uploaded files.

    trials    recordings by name; empty if the files contain states
    states    states by recording
    words     names of states
    troubles  file -> error
    sources   recording -> file
    notes     notes on filled body parts
    rate_hz   of states from another tool, 0 without
    answers   file -> answers to its questions
    unanswered   (file, questions) of files that are not read yet
    listed    (file, what was read or the reason why not)
    """

    trials: dict[str, Trial] = field(default_factory=dict)
    states: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    words: dict[int, str] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    sources: dict[str, PathOrFile] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rate_hz: float = 0.0
    answers: dict[str, Answers] = field(default_factory=dict)
    unanswered: list[tuple[str, UnansweredError]] = field(default_factory=list)
    listed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [*self.trials, *self.states]

    def without(self, left_out: Iterable[str]) -> Read:
        """Return a copy without some recordings."""
        out = set(left_out)
        trials = {name: one for name, one in self.trials.items() if name not in out}
        states = {name: one for name, one in self.states.items() if name not in out}
        return replace(self, trials=trials, states=states)


@dataclass(frozen=True)
class FileReading:
    """Options for reading files."""

    hold: str
    rate_hz: float | None
    features: FeatureSet


def upload(label: str, key: str, help: str, *, several: bool = False) -> list[Upload]:
    """Show an uploader and the uploaded files with buttons to remove them; return the files."""
    kept = uploads_of(key)
    with st.container():  # always present to keep the layout stable
        if kept:
            shell.quiet(kept[0].name if len(kept) == 1 else f"{len(kept)} files")
            st.button("Remove", key=f"{key}-remove", on_click=_keep, args=(key, []), icon=":material/close:")
    uploader(label, lambda more: _keep(key, [*kept, *more] if several else more), key=key, several=several, help=help)
    return kept


def _keep(key: str, files: list[Upload]) -> None:
    st.session_state[f"{_SENT}{key}"] = files


def uploads_of(key: str) -> list[Upload]:
    """Return the files uploaded through a control."""
    found: list[Upload] = st.session_state.get(f"{_SENT}{key}", [])
    return found


def unsaved() -> bool:
    """Return whether files were uploaded, which a reload loses."""
    return any(uploads_of(key) for key in (UPLOAD, SHEET, SAVED))


def choose_options() -> FileReading:
    """Show the controls for reading files and return the options."""
    features: FeatureSet = "egocentric"
    with st.expander("File options", icon=":material/tune:"):
        hold = one_of("File content", HOLD, key="hold")
        label, usual = (
            ("Sampling rate (Hz; 0 = from file)", 0.0)
            if hold == "recordings"
            else ("Sampling rate (Hz) without a time column", 25.0)
        )
        about = "0 reads the rate from each file. States with a time column keep its rate."
        rate = number(label, 0.0, 10_000.0, usual, format="%g", key="rate", of=settings.scope(hold), help=about)
        if hold == "recordings":
            about = "Egocentric features do not depend on where the animal is."
            features = one_of("Pose features", FEATURES, key="features", help=about)
    return FileReading(hold, rate or None, features)


def uploaded() -> list[tuple[str, PathOrFile]]:
    """Return uploaded recordings with keys that identify their content."""
    about = "Any number of files, or a zip; up to 200 MB each. For more, use a folder below the data folder."
    return [(one.file_id, one) for one in upload("Recordings", UPLOAD, about, several=True)]


def list_folder(path: str) -> list[tuple[str, PathOrFile]]:
    """Return the files of a folder or zip in the data folder, without its sheet."""
    found = path_within(data_dir(), path)
    if not found.exists():
        raise DataError(f"{path!r} is not in the data folder, {data_dir()}. Check the spelling.")
    files = cohort_files.list_files(found) if found.is_dir() else [found]
    return [(f"{one}/{one.stat().st_mtime_ns}", one) for one in files if not _is_sheet(one.name)]  # type: ignore[union-attr]


def _is_sheet(name: str) -> bool:
    stem, _, ending = name.lower().rpartition(".")
    return stem in SHEETS and ending in ("csv", "tsv", "xlsx")


def read(files: list[tuple[str, PathOrFile]], options: FileReading) -> Read | None:
    """Return the contents of files once they are read and their questions are answered.

    A cancelled import continues where it was.
    """
    known: dict[Any, Any] = st.session_state.setdefault(_READ, {})
    keys, engine, session = tuple(key for key, _ in files), panels.engine(), f"{live.visitor()}/study"
    answers = reading.ask_all(keys)

    def do(say: Say) -> Read:
        every: dict[Any, PathOrFile] = {}
        made = Read()
        for key, given in files:
            try:
                every |= {(key, i, options): one for i, one in enumerate(cohort_files.list_files(given))}
            except GdmError as error:
                made.troubles[given.name] = str(error)
        if options.hold == "recordings":
            how = options.rate_hz, options.features
            reading.read_on_workers(known, every, answers, *how, engine, session, say)
        for i, (one_key, one) in enumerate(every.items()):
            chosen = reading.find_answers(known, one_key, answers)
            if (one_key, chosen) not in known:
                say(f"Read {i} of {plural(len(every), 'file')}", i / len(every))
                known[one_key, chosen] = _read_states(one, options.rate_hz), []
            found, notes = known[one_key, chosen]
            made.notes += notes
            made.answers |= {one.name: dict(chosen)} if chosen else {}
            _join(made, one, found)
        made.trials = cohort_files.drop_unseen_features(made.trials)
        return made

    key, failed = ("read", keys, options, repr(answers)), "The files could not be read"
    made = work.outcome("study-read", key, do, failed, what="the import", kept="Files read so far are kept.")
    if made is None:
        return None
    if reading.keep_questions(keys, made.unanswered):
        st.rerun()
    n_read = len({id(one) for one in made.sources.values()})
    with st.expander(f"{n_read} of {plural(len(made.listed), 'file')} read", icon=":material/description:"):
        show_table(pd.DataFrame(made.listed, columns=["file", "result"]), 300, "study-read-list")
    if made.unanswered:
        shell.quiet("Answer the questions to continue.")
    return None if made.unanswered else made


def _read_states(one: PathOrFile, rate_hz: float | None) -> Any:
    """Return states by recording, names of states and rates by recording, or the reason why a file cannot be read."""
    if rate_hz is None:
        return "States from another tool have no sampling rate. Set it on the left."
    rates: dict[str, float] = {}
    try:
        return *cohort_files.read_states([one], rate_hz, rates), rates
    except GdmError as error:
        return str(error)


def _join(made: Read, given: PathOrFile, found: Any) -> None:
    file = given.name
    if isinstance(found, UnansweredError):
        made.unanswered.append((file, found))
        made.listed.append((file, "A question is open."))
        return
    if isinstance(found, str):
        made.troubles[file] = found
        made.listed.append((file, found))
        return
    target: dict[str, Any] = made.trials if isinstance(found, dict) else made.states
    content, words, rates = (found, {}, {}) if isinstance(found, dict) else found
    for name, value in content.items():
        if name in made.names:
            made.troubles[f"{name} in {file}"] = "Another recording has the same name; the first one is used."
            continue
        if rates and abs(rates[name] / (made.rate_hz or rates[name]) - 1) > RATES_ALIKE:
            own, usual = (format_rates(rate, rate) for rate in (rates[name], made.rate_hz))
            made.troubles[name] = f"{own.capitalize()}, the first recording {usual}. Give all states the same rate."
            continue
        made.rate_hz = made.rate_hz or rates.get(name, 0.0)
        if words:  # codes of names differ between files
            codes = {word: code for code, word in made.words.items()}
            numbers = np.array([codes.setdefault(word, len(codes)) for word in words.values()] + [UNLABELLED])
            made.words = {code: word for word, code in codes.items()}
            value = numbers[value]
        target[name], made.sources[name] = value, given
        made.listed.append((file, _describe(name, value, rates)))


def _describe(name: str, value: Any, rates: Mapping[str, float]) -> str:
    if isinstance(value, Trial):
        return f"{name}: {value.n_samples:,} samples of {plural(value.n_channels, 'channel')}, {value.rate_hz:.4g} Hz"
    return f"{name}: {plural(len(value), 'sample')} with states, {rates[name]:.4g} Hz"


# ---- the sheet ----------------------------------------------------------------------------------------------------------
def sheet_of(read_: Read, path: str) -> tuple[pd.DataFrame | None, str, str]:
    """Return the uploaded or found sheet, its name, and an error; without one, offer a template."""
    file = next(iter(uploads_of(SHEET)), None)
    named = "" if file is None else file.name
    given: Any = file
    if file is None and path:
        folder = path_within(data_dir(), path)
        given = (
            next((one for one in sorted(folder.iterdir()) if _is_sheet(one.name)), None) if folder.is_dir() else None
        )
        named = "" if given is None else given.name
    if given is not None:
        try:
            return cohort_files.read_sheet(given, named), named, ""
        except GdmError as error:
            return None, named, str(error)
    for source in {id(one): one for one in read_.sources.values()}.values():
        within = cohort_files.extract_sheet(source) if list(read_.sources.values()).count(source) > 1 else None
        if within is not None and within.shape[1] > 1:
            return within, f"in {source.name}", ""
    _offer_template(read_.names)
    return None, "", ""


def _offer_template(names: list[str]) -> None:
    """Ask for a sheet, and offer one with the names of the recordings."""
    shell.empty("Add a sheet", "One row per recording: its name, the animal, and conditions such as group or dose.")
    blank = pd.DataFrame({RECORDING: names}).assign(**{ANIMAL: "", "group": ""})
    download("Sheet to fill in (CSV)", lambda: csv(blank), "sheet.csv", key="study-template")


def offer_suffix(sheet: pd.DataFrame, found: Read, of: str) -> tuple[pd.DataFrame, str]:
    """Offer to ignore an ending in which names differ; return the sheet and the ignored ending."""
    matched = match_by_suffix(sheet, found.names)
    if matched is None or not switch(f"Match names without “{matched[0]}”", False, key="suffix", of=of):
        return sheet, ""
    return matched[1], matched[0]


# ---- what fits ------------------------------------------------------------------------------------------------------------
def misfits(found: Read, sheet: pd.DataFrame) -> dict[str, str]:
    """Return the reason why each unusable recording cannot take part."""
    said: dict[str, str] = {}
    try:
        match_sheet(sheet, found.names, RESERVED)
    except DataError as whole:
        for name in found.names:
            said |= _refused(sheet, [name], name)
        if len(said) == len(found.names):  # no row is usable: show this error alone
            raise whole from None
        good = [name for name in found.names if name not in said]
        for name in list(said)[:MOST_ADVISED]:  # suggest only rows without a recording
            said |= _refused(sheet, [*good, name], name)
    if found.trials:
        rates = {name: one.rate_hz for name, one in found.trials.items()}
        usual = float(np.median(list(rates.values())))
        parts = Counter(tuple(one.channels) for one in found.trials.values()).most_common(1)[0][0]
        for name, one in found.trials.items():
            if abs(one.rate_hz / usual - 1) > RATES_ALIKE:
                said[name] = (
                    f"{format_rates(one.rate_hz, one.rate_hz).capitalize()}, most others {format_rates(usual, usual)}. Is this the "
                    "sheet? Otherwise resample it, or leave it out."
                )
            elif tuple(one.channels) != parts:
                other = sorted(set(one.channels) ^ set(parts))
                said[name] = (
                    f"Different channels ({', '.join(other[:6])}). Upload it with the same body parts, or leave it out."
                )
    return said


def group_by_reason(reasons: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return reason -> names; a reason that many names share is one entry."""
    found: dict[str, list[str]] = {}
    for name, why in reasons:
        whole = rf"(?<!\w){re.escape(name)}(?!\w)"
        found.setdefault(re.sub(whole, "This file", why), []).append(name)
    return found


def _refused(sheet: pd.DataFrame, names: list[str], name: str) -> dict[str, str]:
    """Return the error of a sheet by its name."""
    try:
        match_sheet(sheet, names, RESERVED)
    except DataError as error:
        why = (
            str(error)
            .partition(f" {ROWS_WITHOUT}")[0]
            .replace(f"1 recording is missing from the sheet: {name!r}", "No row")
        )
        return {name: f"{why} Correct the name or add a row, or leave it out."}
    return {}


def show_problems(page: Frame, found: Read, wrong: Mapping[str, str]) -> bool:
    """List problems and return whether to continue without these recordings."""
    lines = [*found.troubles.items(), *wrong.items()]
    if not lines:
        return True
    with page.picture:
        place = st.container()
        leave = bool(wrong) and st.toggle(
            f"Leave out {len(wrong)} of {len(found.names)} recordings and continue", key="leave-out",
            help="Or correct the sheet or files and upload them again.",
        )  # fmt: skip
        if not leave:
            grouped = group_by_reason(lines)
            rows = "".join(
                f"<div><dt>{escape(format_list(names))}</dt><dd>{escape(why)}</dd></div>"
                for why, names in grouped.items()
            )
            title = '<p class="gdm-panel-title">Problems</p>'
            place.html(f'{title}<dl class="gdm-misfits" tabindex="0" aria-label="Problems">{rows}</dl>')
        return leave or not wrong
