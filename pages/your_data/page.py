"""Your data: a file of the visitor's own, understood, checked, fitted, and looked at with the views of Behaviour."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import BinaryIO

import streamlit as st

from datasets import keypoints, tables
from datasets.readers.deeplabcut import flat_columns
from gdm_core.errors import DataError, GdmError
from pages.lab import Dataset
from pages.lab.recording import EXPORT, recording_page
from pages.ui import navigation, settings, shell
from pages.ui.controls import switch
from pages.ui.downloads import download
from pages.ui.uploads import uploader
from pages.your_data import check, example, intake, poses

KINDS = ["csv", "tsv", "txt", "gz", "parquet", "xlsx", "npz", "npy", "h5", "hdf5", "slp"]


def ask_for_file() -> intake.OpenFile | None:
    """The file. Where there is none, the place to drop one is the picture's. Raises what is wrong with it."""
    source, name = intake.source()
    with page.controls if source is not None else page.picture:
        if source is not None:
            shell.section("File")
            shell.quiet(name)
            st.button("Remove it", key="leave", on_click=intake.leave, icon=":material/close:", width="stretch")
        said = f"{', '.join(KINDS)}; up to 200 MB here, larger files by path on the Behaviour page."
        uploader("A recording" if source is None else "Another one", intake.received, key=intake.UPLOAD, help=said)
    if source is None:
        return None
    with page.controls:
        return read(source, name)


def read(source: BinaryIO, name: str) -> intake.OpenFile:
    """The same, with the controls that say how it is read: they stand there also where that went wrong."""
    bar = st.progress(0.0, f"Decoded {name}")

    def say(share: float, text: str) -> None:
        bar.progress(min(share, 1.0), text)

    digest = intake.digest_of(source)
    file = None
    try:
        file = intake.open_file(source, name, digest, say)
    finally:
        bar.empty()
        if file is None or not file.tracked:  # of a tracking file every frame is read
            st.number_input(
                "Keep each n-th row", 1, 10_000, 1, key=intake.every_key(digest), persist_state="session",
                help="1 keeps all. For text tables beyond five million rows.",
            )  # fmt: skip
    if len(file.sheets) > 1:
        assert isinstance(file.content, tables.Table)
        st.selectbox(
            "Sheet", file.sheets, index=file.sheets.index(file.content.sheet), key=intake.sheet_key(digest),
            persist_state="session", help="At first the first one with a column of numbers.",
        )  # fmt: skip
    return ask_how_to_read(file)


def ask_for_labels(rate_hz: float) -> tuple[keypoints.Annotation | None, str]:
    """(what an expert saw in a tracking file, what is wrong with it). Bouts in seconds need the rate as it stands."""
    marks = intake.labels()
    if marks is not None:
        shell.quiet(f"Labels: {marks.name}")
        st.button("Leave the labels out", key="no-marks", on_click=intake.leave_labels, width="stretch")
    said = "What an expert saw, frame by frame or bout by bout: a table (CSV, TSV), such as BORIS exports."
    uploader(
        "Labels (optional)" if marks is None else "Other labels", intake.received_labels, key=intake.MARKS, help=said
    )
    if marks is None:
        return None, ""
    try:
        return keypoints.read_annotation(marks, rate_hz=rate_hz, name=marks.name), ""
    except GdmError as error:
        return None, str(error)


def introduction() -> None:
    """Before there is a file."""
    with page.picture:
        shell.quiet(
            "A table with one row a moment (CSV, Parquet, XLSX, NPZ), or a tracking file of DeepLabCut or SLEAP. Drop it "
            "here, or choose it."
        )
        st.page_link(
            navigation.page("study"), label="Many recordings and their conditions: Study", icon=":material/groups:",
            query_params={"data": "Your files"},
        )  # fmt: skip
        st.button("Try it with an example", key="example", on_click=intake.try_example, icon=":material/play_arrow:")
        shell.quiet(example.ABOUT)
        shell.quiet(
            "You will see what was understood, column by column, before anything is fitted. The file stays in the memory "
            "of this session, also while you look at other pages: neither it nor what is fitted to it is written to disk, "
            "and both go when you reload or close the page. The browser asks before that."
        )
    with page.card:
        st.html('<p class="gdm-panel-title">Files to fill in</p>')
        offered: dict[str, Callable[[], bytes]] = {name: partial(tables.template, name) for name in tables.TEMPLATES}
        for name, make in (offered | {example.NAME: example.content}).items():
            download(name, make, name, key=f"template-{name}")


def ask_how_to_read(file: intake.OpenFile) -> intake.OpenFile:
    """A table whose columns are named like keypoints can be read as keypoints."""
    table = file.content
    if not isinstance(table, tables.Table) or flat_columns(list(table.columns)) is None:
        return file
    said = "Columns such as nose_x and nose_y, or mouse1_nose_x, are parts of a body. Without it, they are channels."
    start = keypoints.looks_like_keypoints(table)
    wanted = switch("Read as keypoints", start, key="posed", of=file.of, help=said)
    return intake.as_poses(file) if wanted else file


def pose_data(file: intake.OpenFile) -> Dataset | None:
    """What can be fitted of a tracking file, and what was understood of it; None where that says why not. Raises why else."""
    with page.controls:
        options = poses.pose_options(file)
        labels, trouble = ask_for_labels(options.rate_hz)
    marks = "" if (sent := intake.labels()) is None else str(sent.name)
    with understood(file):
        if not poses.pose_panel(file, options):
            return None
    if trouble:
        raise DataError(f"The labels cannot be read. {trouble}")
    seen = b"" if labels is None else repr(labels.label_names).encode() + labels.labels.tobytes()
    marked = hashlib.sha256(seen).hexdigest()
    made = f"{file.digest}{options}{marked}"
    return intake.remembered(made, lambda: poses.from_poses(file, options, labels, marks))


def table_data(file: intake.OpenFile) -> Dataset | None:
    """The same for a table."""
    with page.controls:
        options = check.table_options(file)
    with understood(file):
        if not check.table_panel(file, options):
            return None
    return intake.remembered(f"{file.digest}{options}", lambda: intake.from_table(file, options))


@contextmanager
def understood(file: intake.OpenFile) -> Iterator[None]:
    """The place for what was understood: open until the fit is asked for."""
    going = intake.is_fitted(file)
    with page.picture, st.expander("What was understood", expanded=not going, icon=":material/fact_check:"):
        yield


def no_link() -> None:
    """In place of the button that copies a link: what a link cannot do here, and what can be sent instead."""
    with st.popover("Share", icon=":material/share:"):
        shell.quiet(
            "A link cannot carry this file, which stays in this session: whoever opened it would find an empty page. The "
            "report holds the settings, scores, figures and the script in one file that needs nothing else."
        )
        ready = intake.GO in st.session_state
        st.button("Go to the report", key="to-report", on_click=to_report, disabled=not ready, width="stretch",
                  help=None if ready else "There is one as soon as something is fitted.")  # fmt: skip


def to_report() -> None:
    settings.change("view", EXPORT)


intake.from_address()
page = shell.frame("your_data", share=no_link if intake.private() else None)
if intake.private():
    navigation.warn_before_unload()
file, data = None, None
try:
    file = ask_for_file()
except GdmError as error:
    with page.picture:
        shell.error("This file cannot be read", str(error))

if file is None:
    page.header("a file of your own")
    introduction()
else:
    try:
        data = pose_data(file) if file.tracked else table_data(file)
    except GdmError as error:
        with page.picture:
            shell.error("This cannot be fitted as it stands", str(error))
    if data is None or not intake.is_fitted(file):
        page.header(file.name)
        if data is not None:
            with page.picture:
                check.label_panel(data)
        with page.card:
            st.html('<p class="gdm-panel-title">Next</p>')
            if data is None:
                shell.quiet("Change a role or a setting at the left, then fit.")
            else:
                shell.quiet(
                    f"Trials to fit: {len(data.train)}, with {data.train.n_samples:,} samples. "
                    f"Kept aside as new: {len(data.test)}, with {data.test.n_samples:,}."
                )
                if data.missing:
                    shell.quiet(data.missing)
                k, d = data.start
                shell.quiet(
                    f"It starts with K {k} and D {d}, from a first look: {data.suggestion.why_states}; {data.why_latent}. "
                    "Which K the data speak for is asked after the fit, under Suggest settings."
                )
            st.button("Fit it", type="primary", key="fit", disabled=data is None, width="stretch", on_click=intake.fit_it,
                      args=(file,))  # fmt: skip

if data is not None and file is not None and intake.is_fitted(file):
    recording_page(page, data, defined_by="position" if file.tracked else "dynamics")
else:
    shell.footer(["Nothing of a file is kept after the session."])
