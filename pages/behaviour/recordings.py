"""Recordings of the Behaviour page: simulated mice, CalMS21, or a tracking file in the data folder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from datasets import calms21, keypoints, mice
from datasets.keypoints import FeatureSet, KeypointSet, KeypointTable
from datasets.storage import data_dir, files_below
from datasets.tables import path_within
from gdm_core.errors import DataError, GdmError
from pages.lab import Dataset
from pages.lab.poses.tracking import FEATURES, TrackingFile, choose_rate, choose_repairs, from_recordings, from_tracking
from pages.lab.upload.file import receive_elsewhere
from pages.lab.upload.poses import PoseOptions, select
from pages.lab.upload.questions import ask
from pages.ui import settings, shell
from pages.ui.controls import number, one_of, slide, text
from pages.ui.exports import Recipe
from pages.ui.uploads import uploader

SOURCES = {"simulated": "Simulated mice", "calms21": "CalMS21", "file": "Tracking file"}
N_TRIALS, N_NEW = 12, 4
SHIPPED = "behaviour"  # precomputed result of a first visit


@dataclass(frozen=True)
class ChosenRecordings:
    """Source, features and options of the recordings."""

    source: str
    features: FeatureSet
    options: tuple[tuple[str, Any], ...]

    def option(self, name: str) -> Any:
        return dict(self.options)[name]


def choose(advanced: Any) -> ChosenRecordings:
    """Show the controls and return their values; rare controls go to `advanced`."""
    shell.section("Recording")
    source = one_of("Source", SOURCES, key="source", help="Files are read from the data folder.")
    with advanced:
        shell.section("Recording")
    options = {"simulated": _simulated, "calms21": _calms21, "file": _file}[source](advanced)
    text = "Egocentric: body shape, speeds and relation to the partner. Raw: all coordinates, as in the paper."
    features = one_of("Features", FEATURES, row=True, key="features", place=advanced, help=text)
    return ChosenRecordings(source, features, tuple(options.items()))


def _simulated(advanced: Any) -> dict[str, Any]:
    text = f"{N_TRIALS - N_NEW} training and {N_NEW} held-out trials at 30 Hz."
    with advanced:
        length = slide("Frames per trial", 1000, 6000, 2000, 500, key="frames", help=text)
        seed = number("Simulation seed", 0, 9999, 0, key="mice")
    return {"frames": length, "seed": seed}


def _calms21(advanced: Any) -> dict[str, Any]:
    where = {"placeholder": "searched in the data folder", "help": f"Relative to the data folder, {data_dir()}."}
    path = text("Zip, or folder of both JSON files", key="path", **where)
    note = "All 70 have half a million frames and take one to two minutes to fit."
    with advanced:
        n_train = slide("Training trials", 1, 70, 10, key="ntrain", help=note)
        n_test = slide("Held-out trials", 1, 19, 4, key="ntest")
    return {"path": path, "train": n_train, "test": n_test}


def _file(advanced: Any) -> dict[str, Any]:
    names = files_below(keypoints.READABLE)
    asked = settings.text("file") or (names[0] if names else "")
    name = st.selectbox(
        "File",
        names,
        key=settings.widget_key("file"),
        placeholder="Choose a file" if names else "No tracking file in the data folder",
        index=names.index(asked) if asked in names else None,
        help=f"DeepLabCut CSV, SLEAP analysis h5, or NPZ in {data_dir()}.",
    )
    text = "Opens in Your data, which has the views of this page."
    uploader("Upload a file", receive_elsewhere, key="behaviour-file", help=text)
    settings.keep("file", None if [name] == names[:1] else name or asked or None)
    of = settings.scope("file", name)
    answers, known = dict[str, str](), 30.0
    with suppress(GdmError):  # `load` shows the message
        if name:
            answers = ask(lambda found: _read(name, found).doubts, [name])
            known = _read(name, answers).rate_hz
    with advanced:
        rate = choose_rate(known, settings.key("rate", of))
        repairs = tuple(choose_repairs(of).items())
    given = {"rate": rate, "repairs": repairs, "answers": tuple(answers.items())}
    return {"file": name or "", "missing": "" if name else asked} | given


def _read(name: str, answers: Mapping[str, str]) -> KeypointTable:
    path = path_within(data_dir(), name)
    return _read_once(path, path.stat().st_mtime_ns, tuple(answers.items()))


@st.cache_resource(max_entries=4, show_spinner="Reading the recording")
def _read_once(path: Path, changed: int, answers: tuple[tuple[str, str], ...]) -> KeypointTable:
    return keypoints.read(path, answers=dict(answers))


@st.cache_resource(max_entries=8, show_spinner="Reading the recordings")
def load(chosen: ChosenRecordings) -> Dataset:
    """Return the data, cached to compute fingerprints once."""
    return {"simulated": load_simulated, "calms21": _load_calms21, "file": _load_file}[chosen.source](chosen)


def load_simulated(chosen: ChosenRecordings) -> Dataset:
    frames, seed = chosen.option("frames"), chosen.option("seed")
    whole = mice.simulate_recordings(N_TRIALS, frames, seed)
    train, test = (KeypointSet(part, whole.name) for part in (whole.tables[:-N_NEW], whole.tables[-N_NEW:]))
    recipe = Recipe(
        ["from dataclasses import replace", "from gdm_studio.datasets import mice"],
        [
            f"trials = mice.simulate({N_TRIALS}, {frames}, seed={seed}, features={chosen.features!r})",
            f"train = replace(trials, trials=trials.trials[:-{N_NEW}])",
            f"test = replace(trials, trials=trials.trials[-{N_NEW}:])",
        ],
    )
    about = f"simulated mice, {len(train)} + {N_NEW} trials of {frames:,} frames"
    return from_recordings(
        f"simulated-{frames}-{seed}-{chosen.features}", about, train, test, chosen.features, recipe,
        notes=mice.NOTES, licences=("Simulated mice.",),
    )  # fmt: skip


def _load_calms21(chosen: ChosenRecordings) -> Dataset:
    source = path_within(data_dir(), chosen.option("path")) if chosen.option("path") else data_dir()
    bar = st.progress(0.0, "Looking for CalMS21")

    def report(split: str, share: float, text: str) -> None:
        bar.progress(share, f"{split}: {text}")

    sets: dict[str, KeypointSet] = {}
    refused: dict[str, DataError] = {}
    for split in ("train", "test"):
        try:
            whole = calms21.load_recordings(source, split, progress=partial(report, split))
            sets[split] = KeypointSet(whole.tables[: chosen.option(split)], whole.name)
        except DataError as error:
            refused[split] = error
    bar.empty()
    if len(refused) == 2:
        raise refused["train"]
    for missing, why in refused.items():
        raise DataError(
            f"{source.name} has no {missing} trials of CalMS21 ({str(why).split('. ')[0].rstrip('.')}). Put "
            f"calms21_task1_{missing}.json into the same folder, or use the official zip. {calms21.WHERE_TO_GET}"
        ) from why
    train, test = sets["train"], sets["test"]
    recipe = Recipe(
        ["from dataclasses import replace", "from gdm_studio.datasets import calms21"],
        [
            'source = "task1_classic_classification.zip"  # path of the zip',
            f'train = calms21.load(source, "train", features={chosen.features!r})',
            f"train = replace(train, trials=train.trials[:{len(train)}])",
            f'test = calms21.load(source, "test", features={chosen.features!r})',
            f"test = replace(test, trials=test.trials[:{len(test)}])",
        ],
        note="Download CalMS21 from CaltechDATA, record s0vdx-0k302.",
    )
    about = f"CalMS21, {len(train)} + {len(test)} trials, {train.n_frames + test.n_frames:,} frames"
    return from_recordings(
        f"calms21-{chosen.options}-{chosen.features}", about, train, test, chosen.features, recipe,
        notes=[note for table in (*train, *test) for note in table.notes][:6],
        licences=("CalMS21 task 1 (Sun and others 2021), CaltechDATA record s0vdx-0k302: see its licence.",),
        scope=settings.scope("calms21", chosen.option("path")), name="CalMS21",
    )  # fmt: skip


def _load_file(chosen: ChosenRecordings) -> Dataset:
    name = chosen.option("file")
    if missing := dict(chosen.options).get("missing"):
        raise DataError(
            f"The link opens {missing!r}, which is not in the data folder, {data_dir()}. Put it there and reload, or choose "
            "another file."
        )
    if not name:
        raise DataError(
            f"There is no tracking file in the data folder, {data_dir()}. Put one there, or upload one on the left."
        )
    rate, answers = chosen.option("rate"), dict(chosen.option("answers"))
    table = select(_read(name, answers), PoseOptions(rate, chosen.features, ()))
    if table.doubts:
        raise DataError("Answer the questions on the left. The file leaves them open.")
    changed, given = path_within(data_dir(), name).stat().st_mtime_ns, f", answers={answers!r}" if answers else ""
    return from_tracking(
        f"file-{chosen.options}-{chosen.features}-{changed}",
        TrackingFile(Path(name).name, f"keypoints.read({Path(name).name!r}, rate_hz={rate!r}{given})"),
        table,
        chosen.features,
        dict(chosen.option("repairs")),
        licences=("Your file stays on this machine.",),
        scope=settings.scope("file", name),
        name=Path(name).stem,
    )
