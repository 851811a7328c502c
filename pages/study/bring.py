"""Where a study comes from: simulated animals, files with a sheet, or a study that was saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd
import streamlit as st

from datasets import cohort
from datasets.cohort_files import Given, read_poses
from datasets.keypoints import KeypointTable
from datasets.storage import data_dir
from datasets.tables import path_within
from gdm_core.errors import GdmError
from gdm_core.study import Study
from gdm_core.trials import Trial
from pages.study import files, fits, work
from pages.ui import exports, settings, shell
from pages.ui.controls import number, one_of, text
from pages.ui.shell import Frame

SOURCES = {
    "simulated": "Simulated animals",
    "files": "Your files",
    "folder": "A folder below the data folder",
    "saved": "A saved study",
}
STATES = {"known": "As simulated", "fitted": "Found by a fit"}

# What the second group of simulated animals does differently, in words.
CHANGES = {
    "Groom half as long again": cohort.Change("groom", times=1.5),
    "Rear more after walking": cohort.Change("walk", "rear", 2.0),
    "Nothing": None,
}
SEEDS, ANIMALS = (0, 9999), (2, 40)
SESSIONS, MINUTES = 2, 4.0


@dataclass(frozen=True, eq=False)
class Brought:
    """A study that is open.

    key      names its content
    of       what its controls belong to; "" of simulated animals
    name     of files that leave the page
    about    it in a line
    private  whether no link can show it to anybody else
    imports, code   how a script makes `study`
    notes    what was understood on the way, besides the study's own notes
    trials   gives the recordings, None where there are states alone
    poses    gives those of one recording, None where it has none
    """

    key: str
    of: str
    name: str
    about: str
    study: Study
    private: bool
    imports: Sequence[str]
    code: Sequence[str]
    notes: Sequence[str] = field(default=())
    trials: Callable[[], Mapping[str, Trial]] | None = None
    poses: Callable[[str], KeypointTable | None] = lambda name: None


@st.cache_resource(max_entries=8, show_spinner=False)
def _cohort(n_animals: int, change: str, seed: int) -> cohort.Cohort:
    return cohort.simulate(n_animals, change=CHANGES[change], n_sessions=SESSIONS, minutes=MINUTES, seed=seed)


@st.cache_resource(max_entries=8, show_spinner=False)
def _true_study(n_animals: int, change: str, seed: int) -> Study:
    made = _cohort(n_animals, change, seed)
    return Study.of_states(made.states, pd.DataFrame(made.sheet), made.rate_hz, cohort.BEHAVIOURS)


def choose(page: Frame) -> Brought | None:
    """The study that the controls speak of. None where there is none yet; what to do then stands in the picture's place."""
    with page.controls:
        shell.section("Study")
        source = one_of("From", SOURCES, key="data")
    if source == "saved":
        return _saved(page)
    if source in ("files", "folder"):
        return _of_files(page, source)
    return _simulated(page)


# ---- simulated animals ---------------------------------------------------------------------------------------------------
def _simulated(page: Frame) -> Brought | None:
    """Animals of which the truth is known, with their controls."""
    with page.controls:
        about = "The one thing in which the second group differs; the answer should name it, and nothing else."
        change = one_of("What the treated do", list(CHANGES), key="change", help=about)
        n = number("Animals a group", *ANIMALS, 10, key="animals")
        seed = number("Simulation (seed)", *SEEDS, 0, key="dice", help="Another number draws others.")
        about = "As they were simulated, or as a model finds them in what a camera would see."
        found = one_of("States", STATES, row=True, key="found", help=about)
    made = CHANGES[change]
    said = "None" if made is None else f"cohort.{made!r}"
    key = f"simulated/{n}/{change}/{seed}"
    imports = ["import pandas as pd", "from gdm_core import Study", "from gdm_studio.datasets import cohort"]
    code = [f"animals = cohort.simulate({n}, change={said}, n_sessions={SESSIONS}, minutes={MINUTES:g}, seed={seed})"]
    about = f"simulated animals, {2 * n} of them in {2 * n * SESSIONS} recordings"
    if found != "fitted":
        code += [
            "study = Study.of_states(animals.states, pd.DataFrame(animals.sheet), animals.rate_hz, cohort.BEHAVIOURS)"
        ]
        return Brought(key, "", "simulated-animals", about, _true_study(n, change, seed), False, imports, code,
                       trials=lambda: _recordings(n, change, seed))  # fmt: skip
    sheet = pd.DataFrame(_cohort(n, change, seed).sheet)
    study, choice, on = fits.choose(page, fits.Wanted(key, _recordings(n, change, seed), sheet, keep=True), "study")
    if study is None:
        return None
    code += ["recordings, sheet = animals.recordings(), pd.DataFrame(animals.sheet)", *fits.code(choice, on)]
    return Brought(
        f"{key}/{choice.family}/{sorted(choice.config.items())}/{on}", settings.of("fitted"), "simulated-animals-fitted",
        f"{about}, {choice.n_states} states found by one model", study, False, [*imports, fits.imports(choice)], code,
        trials=lambda: _recordings(n, change, seed),
    )  # fmt: skip


@st.cache_resource(max_entries=4, show_spinner="Watching the animals")
def _recordings(n_animals: int, change: str, seed: int) -> dict[str, Trial]:
    return _cohort(n_animals, change, seed).recordings()


# ---- a saved study -----------------------------------------------------------------------------------------------------
def _saved(page: Frame) -> Brought | None:
    with page.controls:
        kept = st.query_params.get(files.STAYS, "")
        if kept:
            shell.quiet(f"Kept on this server as {kept}. The address of this page opens it again.")
            st.button("Open another", key="study-open-another", on_click=_let_go, width="stretch")
        else:
            st.file_uploader(
                "A study that was saved", key=files.SAVED, on_change=files.keep_sent, args=(files.SAVED,),
                help="The one file that the tab Take along gives; it opens with names, marks, question and states.",
            )  # fmt: skip
    file = None if kept else files.sent(files.SAVED)
    if file is None and not kept:
        with page.picture:
            shell.empty("No study yet", "Choose the file at the left. It stays in this session.")
        return None
    name, key = (kept, kept) if file is None else (file.name, file.file_id)

    def read(say: work.Say) -> Study:
        return Study.open(path_within(data_dir(), kept)) if file is None else Study.from_bytes(file.getvalue(), name)

    failed, words = "This study cannot be opened", f"Opening {name}"
    with page.picture:
        study = work.outcome("study-opening", ("saved", key), read, failed, words=words)
    if study is None:
        return None
    stem = exports.slug(name.rpartition("/")[2].rpartition(".")[0] or name)
    return Brought(
        f"saved/{key}", settings.of(key), stem, f"{name}, as it was saved", study, True,
        ["from gdm_core import Study"], [f"study = Study.open({name!r})"],
    )  # fmt: skip


def _let_go() -> None:
    """The study stays where it is kept; the page forgets it."""
    del st.query_params[files.STAYS]


# ---- files and a sheet ---------------------------------------------------------------------------------------------------
def _of_files(page: Frame, source: str) -> Brought | None:
    path, trouble = "", ""
    given: list[tuple[str, Given]] = []
    with page.controls:
        options = files.how()
        if source == "folder":
            path = text("Folder or zip", key="path", placeholder="below the data folder", help=f"Below {data_dir()}.")
            try:
                given = files.below(path) if path else []
            except GdmError as error:
                trouble = str(error)
        else:
            given = files.uploaded()
        st.file_uploader(
            "Sheet (CSV, XLSX)", ["csv", "tsv", "txt", "xlsx", "parquet"], key=files.SHEET, on_change=files.keep_sent,
            args=(files.SHEET,), help="A row a recording: file, animal, and any columns (group, dose, day, batch, exclude).",
        )  # fmt: skip
    with page.picture:
        if trouble:
            shell.error("There is no such folder", trouble)
            return None
        if not given:
            shell.empty(
                "Bring recordings and a sheet",
                "Recordings: poses of DeepLabCut or SLEAP, tables, or states of another tool; any number at once, or a zip. "
                "The sheet: a row for each, with its file, its animal and whatever was done. They are matched by name.",
            )
            shell.quiet("What you send stays in the memory of this session; what a folder holds is read there.")
            return None
        found = files.read(given, options)
        if found is None:
            return None
        if not found.names:
            files.listed(page, found, {})
            shell.error("None of these files can be read", next(iter(found.troubles.values()), "They hold nothing."))
            return None
        of = settings.of(sorted(key for key, _ in given))
        sheet, named, trouble = files.sheet_of(found, path, of)
        wrong: dict[str, str] = {}
        if sheet is not None and not trouble:
            try:
                wrong = files.misfits(found, sheet)
            except GdmError as error:
                trouble = str(error)
        if trouble:
            files.listed(page, found, {})
            shell.error(f"The sheet{f' {named}' if named else ''} cannot be used as it is", trouble)
            return None
        leave = files.listed(page, found, wrong)
        if sheet is None:
            return None
        if wrong and not leave:
            shell.quiet("The study opens once everything fits, or what does not is left out.")
            return None
    kept = found.without(wrong)
    digest = settings.of(sheet.to_json(), sorted(wrong))
    notes = [f"{name} is left out: {why}" for name, why in wrong.items()]
    notes += [f"{name} could not be read: {why}" for name, why in found.troubles.items()]
    return _studied(page, kept, sheet, options, f"files/{of}/{digest}/{options}", settings.of(of, digest), path, notes)


def _studied(
    page: Frame, found: files.Read, sheet: pd.DataFrame, options: files.Reading, key: str, of: str, path: str, notes: list[str]
) -> Brought | None:  # fmt: skip
    """The study of files: of states at once, of recordings once a model has been fitted to them."""
    name = exports.slug(path) if path else "study"
    where = path or "recordings"
    imports = ["from pathlib import Path", "from gdm_core import Study", "from gdm_studio.datasets import cohort_files"]
    code = [
        "# sheet.csv and the folder of recordings have to lie here.",
        'sheet = cohort_files.read_sheet("sheet.csv")',
        f'files = cohort_files.files_in(Path("{where}"))',
    ]
    if found.states:
        rate = options.rate_hz or 1.0
        code += [
            f"states, words = cohort_files.read_states(files, {rate:g})",
            f"study = Study.of_states(states, sheet, {rate:g}, words)",
        ]
        with page.picture:
            made = work.outcome(
                "study-making", ("states", key), lambda say: Study.of_states(found.states, sheet, rate, found.words),
                "This is no study yet", words="Counting",
            )  # fmt: skip
        if made is None:
            return None
        about = f"{len(found.states)} recordings, in states of another tool"
        return Brought(key, of, name, about, made, True, imports, code, notes)
    study, choice, on = fits.choose(page, fits.Wanted(key, found.trials, sheet, keep=False), of)
    if study is None:
        return None
    code += [
        f"recordings = cohort_files.read_recordings(files, {options.rate_hz}, {options.features!r})",
        *fits.code(choice, on),
    ]
    return Brought(
        f"{key}/{choice.family}/{sorted(choice.config.items())}/{on}", of, name,
        f"{len(found.trials)} recordings, {choice.n_states} states found by one model", study, True,
        [*imports, fits.imports(choice)], code, notes, lambda: found.trials,
        lambda one: read_poses(found.sources[one], one, options.rate_hz),
    )  # fmt: skip
