"""Files and sheet of a study: read in the background and matched by name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
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
from gdm_core.study.sheet import ANIMAL, RECORDING, find_unlisted, match_by_suffix, match_sheet, read_names
from gdm_core.study.text import format_items, format_list, format_rates
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
HOLD = {"recordings": "Poses or tables", "states": "States from another tool"}
FEATURES: dict[FeatureSet, str] = {"egocentric": "Egocentric features", "keypoints": "Raw keypoints"}


@dataclass
class Read:
    """Contents of uploaded files.

    trials    recordings by name; empty if the files contain states
    states    states by recording
    words     names of states
    troubles  file -> error
    unread    files with an error
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
    unread: list[PathOrFile] = field(default_factory=list)
    sources: dict[str, PathOrFile] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rate_hz: float = 0.0
    answers: dict[str, Answers] = field(default_factory=dict)
    unanswered: list[tuple[str, UnansweredError]] = field(default_factory=list)
    listed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [*self.trials, *self.states]

    def without(self, left_out: Collection[str]) -> Read:
        """Return a copy without some recordings."""
        trials = {name: one for name, one in self.trials.items() if name not in left_out}
        return replace(self, trials=trials, states={n: one for n, one in self.states.items() if n not in left_out})


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
        label, usual = "Sampling rate (Hz; 0 = from file)", 0.0
        if hold == "states":
            label, usual = "Sampling rate (Hz) without a time column", 25.0
        about = "0 reads the rate from each file. States with a time column keep its rate."
        rate = number(
            label, 0.0, 10_000.0, usual, format="%g", key=settings.key("rate", settings.scope(hold)), help=about
        )
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
        made.trials = cohort_files.align_features(made.trials)
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
        made.unread.append(given)
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
@dataclass(frozen=True, eq=False)
class Matched:
    """A sheet that matches the recordings: its rows, an ignored ending of names, recordings to leave out, and notes."""

    frame: pd.DataFrame
    suffix: str
    left_out: Mapping[str, str]
    notes: tuple[str, ...]


def match(page: Frame, found: Read, path: str, scope: str) -> Matched | None:
    """Return the sheet of the recordings; None, with instructions or problems, if there is none or they do not match.

    path   of the folder, which may contain a sheet
    scope  of the controls
    """
    if not found.names:
        _show_problems(page, found, {})
        if not _offer_states(found):
            shell.error("None of these files can be read", next(iter(found.troubles.values()), "They are empty."))
        return None
    named, suffix, wrong = "", "", dict[str, str]()
    try:
        named, sheet = _find_sheet(found, path)
        if sheet is not None:
            suffix_of = match_by_suffix(sheet, found.names)
            if suffix_of and switch(f"Match names without “{suffix_of[0]}”", False, key=settings.key("suffix", scope)):
                suffix, sheet = suffix_of
            wrong = find_misfits(found, sheet)
    except GdmError as error:
        _show_problems(page, found, {})
        shell.error(f"The sheet{f' {named}' if named else ''} cannot be used", str(error))
        return None
    leave = _show_problems(page, found, wrong)
    if sheet is None or (wrong and not leave):
        if wrong:
            shell.quiet("Correct the problems above, or leave these recordings out.")
        return None
    notes = [f"Names were matched without “{suffix}”."] if suffix else []
    for status, reasons in (("left out", wrong), ("not read", found.troubles)):
        for why, names in group_by_reason(reasons.items()).items():
            notes.append(f"{format_items(names, 'recording', status)} {why}")
    return Matched(sheet, suffix, wrong, tuple(notes))


def _offer_states(found: Read) -> bool:
    """Offer to use the files as states of another tool if they contain only states; return whether they do."""
    try:
        cohort_files.read_states(found.unread[:1], 1.0)
    except GdmError:
        return False
    shell.empty("Only states found", "No column can be modelled. Use them as states from another tool?")
    st.button("Use as states", key="study-use-states", on_click=settings.change, args=("hold", HOLD["states"]))
    return True


def _find_sheet(found: Read, path: str) -> tuple[str, pd.DataFrame | None]:
    """Return the name and rows of the uploaded or found sheet; without one, offer a template."""
    given: Any = next(iter(uploads_of(SHEET)), None)
    if given is None and path and (folder := path_within(data_dir(), path)).is_dir():
        given = next((one for one in sorted(folder.iterdir()) if _is_sheet(one.name)), None)
    if given is not None:
        return given.name, cohort_files.read_sheet(given, given.name)
    sources = list(found.sources.values())
    for source in {id(one): one for one in sources if sources.count(one) > 1}.values():
        within = cohort_files.extract_sheet(source)
        if within is not None and within.shape[1] > 1:
            return f"in {source.name}", within
    shell.empty("Add a sheet", "One row per recording: its name, the animal, and conditions such as group or dose.")
    blank = pd.DataFrame({RECORDING: found.names}).assign(**{ANIMAL: "", "group": ""})
    download("Sheet to fill in (CSV)", lambda: csv(blank), "sheet.csv", key="study-template")
    return "", None


def find_misfits(found: Read, sheet: pd.DataFrame) -> dict[str, str]:
    """Return the reason why each unusable recording cannot take part; raise DataError if the sheet is unusable."""
    unlisted, _ = find_unlisted(read_names(sheet), found.names)
    advice = "Correct the name or add a row, or leave it out."
    reasons = {name: f"No row{hint}. {advice}" for name, hint in unlisted.items()}
    usable = [name for name in found.names if name not in reasons] or found.names
    match_sheet(sheet, usable)
    if found.trials:
        usual = float(np.median([one.rate_hz for one in found.trials.values()]))
        channels = Counter(tuple(one.channels) for one in found.trials.values()).most_common(1)[0][0]
        for name, one in found.trials.items():
            if abs(one.rate_hz / usual - 1) > RATES_ALIKE:
                rate = format_rates(one.rate_hz, one.rate_hz).capitalize()
                reasons[name] = (
                    f"{rate}, most others {format_rates(usual, usual)}. Is this the sheet? Otherwise resample it, or leave it out."
                )
            elif tuple(one.channels) != channels:
                other = ", ".join(sorted(set(one.channels) ^ set(channels))[:6])
                reasons[name] = f"Different channels ({other}). Upload it with the same body parts, or leave it out."
    return reasons


def group_by_reason(reasons: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return reason -> names; a reason that many names share is one entry."""
    found: dict[str, list[str]] = {}
    for name, why in reasons:
        whole = rf"(?<!\w){re.escape(name)}(?!\w)"
        found.setdefault(re.sub(whole, "This file", why), []).append(name)
    return found


def _show_problems(page: Frame, found: Read, wrong: Mapping[str, str]) -> bool:
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
