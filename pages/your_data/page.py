"""Your data: upload a file, check it, fit it, and see it in the views of Behaviour."""

from __future__ import annotations

from functools import partial
from io import BytesIO

import streamlit as st

from datasets import keypoints, tables
from datasets.readers.flat import SWAP, flat_columns
from gdm_core.errors import DataError, GdmError
from pages.lab import Dataset
from pages.lab.recording import recording_page
from pages.lab.upload import file as files
from pages.lab.upload import poses, table
from pages.lab.upload.questions import ask
from pages.ui import navigation, settings, shell
from pages.ui.controls import switch
from pages.ui.downloads import download
from pages.ui.uploads import uploader
from pages.your_data import intake

KINDS = ["csv", "tsv", "txt", "gz", "parquet", "xlsx", "npz", "npy", "h5", "hdf5", "nwb"]


def choose_file() -> files.OpenFile | None:
    """Show the uploader and return the file; raise GdmError if it cannot be read."""
    source, name = intake.source()
    text = f"{', '.join(KINDS)}; up to 200 MB. The Behaviour page reads larger files from the data folder."
    with page.picture, st.container(key="first-file"):  # stays, hidden: it may still receive a file
        uploader("Recording", intake.receive, key="upload", help=text)
        if source is not None:
            st.html("<style>.st-key-first-file {display: none}</style>")
    if source is None:
        return None
    with page.controls:
        shell.section("File")
        shell.quiet(name)
        st.button("Remove", key="leave", on_click=intake.remove_file, icon=":material/close:", width="stretch")
        uploader("Another file", intake.receive, key="upload-another", help=text)
        return read(source, name)


def read(source: BytesIO, name: str) -> files.OpenFile:
    """Read the file and show the controls for reading it."""
    with st.spinner(f"Reading {name}"):
        digest = files.digest_of(source)
        file = intake.open_file(source, name, digest)
    if file.tracked:
        return file
    if asked := file.content.doubts:
        with questions:
            answers = ask(lambda _: asked, [digest])  # names of columns may depend on the answer
        file = intake.open_file(source, name, digest, answers)
    return file if file.tracked else choose_reading(file)


def choose_labels() -> None:
    """Show the control of a file of labels for a tracking file."""
    labels = intake.labels()
    with st.container():  # always there: the control below keeps its place
        if labels is not None:
            shell.quiet(f"Labels: {labels.name}")
            remove = partial(st.session_state.pop, intake.LABELS)
            st.button("Remove labels", key="no-marks", on_click=remove, width="stretch")
    text = "Expert labels by frame or by bout (CSV, TSV), such as BORIS exports."
    label = "Labels (optional)" if labels is None else "Other labels"
    uploader(label, lambda files: st.session_state.update({intake.LABELS: files[0]}), key="marks", help=text)


def show_introduction() -> None:
    """Show what can be uploaded, the example and the templates."""
    with page.picture:
        shell.quiet(
            "A table with one row per time step (CSV, Parquet, XLSX, NPZ), or a tracking file of DeepLabCut or SLEAP. "
            "It stays in this session and is never written to disk."
        )
        with st.container(horizontal=True, vertical_alignment="center"):
            begin = partial(settings.change, intake.EXAMPLE, "open")
            st.button("Try an example", key="example", on_click=begin, icon=":material/play_arrow:")
            st.page_link(
                navigation.page("study"), label="Compare groups of recordings", icon=":material/groups:",
                query_params={"data": "Your files"},
            )  # fmt: skip
    with page.card:
        st.html('<p class="gdm-panel-title">Templates</p>')
        for name in tables.TEMPLATES:
            download(name, partial(tables.template, name), name, key=f"template-{name}")


def choose_reading(file: files.OpenFile) -> files.OpenFile:
    """Show the choice of a sheet, and offer to read a table as keypoints."""
    sheets = file.as_table.sheets
    if len(sheets) > 1:
        first, key = sheets.index(file.as_table.sheet), files.sheet_key(file.source)
        st.selectbox("Sheet", sheets, index=first, key=key, persist_state="session")
    narrow = files.get_narrow(file)
    try:
        file = files.widen_file(narrow, table.edited_roles(narrow))
    except GdmError:  # the data check shows the message
        file = narrow
    content = file.as_table
    if flat_columns(content.columns, content.answers, content.animals) is None:
        return file
    text = "Columns such as nose_x and nose_y are body parts instead of channels."
    start = keypoints.looks_like_keypoints(content)
    if not switch("Read as keypoints", start, key=settings.key("posed", file.scope), help=text):
        return file
    text = "Check the picture of one frame."
    swapped = switch("Swap animals and parts", False, key=settings.key("swapped", file.scope), help=text)
    posed, known = partial(files.as_poses, file), {SWAP.key: "yes"} if swapped else {}
    with questions:
        return posed(ask(lambda found: files.new_doubts(file, posed(found).content.doubts), content.columns, known))


def load(file: files.OpenFile) -> Dataset | None:
    """Show the check of a file and return its data; None if nothing can be fitted."""
    fitted = intake.is_fitted(file)
    with page.advanced if fitted else page.controls:
        if file.tracked:
            posed = poses.pose_options(file, page.advanced)
            choose_labels()
        else:
            options = table.table_options(file, page.advanced, questions)
    with page.picture.expander("Data check", expanded=not fitted, icon=":material/fact_check:"):
        if file.narrow is not None:
            table.columns_panel(file.narrow)
        if not file.tracked:
            table.columns_panel(file)
        if not (poses.pose_panel(file, posed) if file.tracked else table.table_panel(file, options)):
            return None
    if not file.tracked:
        return files.remember(f"{file.digest}{options}", lambda: files.from_table(file, options))
    sent = intake.labels()
    if sent is None:
        return files.remember(f"{file.digest}{posed}", lambda: poses.from_poses(file, posed))
    try:
        labels = keypoints.read_annotation(sent, posed.rate_hz, sent.name)
    except GdmError as error:
        raise DataError(f"The labels cannot be read. {error}") from error
    key = f"{file.digest}{posed}{sent.file_id}"
    return files.remember(key, lambda: poses.from_poses(file, posed, labels, sent.name))


def show_summary(file: files.OpenFile, data: Dataset | None) -> None:
    """Show what a fit would use, and the button that starts it."""
    st.html('<p class="gdm-panel-title">Fit</p>')
    if data is None:
        shell.quiet("Answer the questions, or correct the columns or settings first.")
    else:
        shell.quiet(
            f"Trials: {len(data.train)} training, {len(data.test)} held-out. "
            f"Samples: {data.train.n_samples:,} and {data.test.n_samples:,}."
        )
        if data.quality:
            shell.quiet(data.quality)
        k, d = data.start
        shell.quiet(f"First guess: K {k} ({data.suggestion.why_states}), D {d} ({data.why_latent}).")
    st.button("Fit", type="primary", key="fit", disabled=data is None, width="stretch", on_click=intake.request_fit,
              args=(file,))  # fmt: skip


def show_no_link() -> None:
    """Show a disabled button instead of "Copy link"."""
    st.button("Copy link", disabled=True, help="A link cannot contain your file. Export a report instead.")


page = shell.frame("your_data", share=show_no_link if intake.is_private() else None)
if intake.is_private():
    navigation.warn_before_unload()
questions = page.picture.container()
file, data = None, None
try:
    file = choose_file()
except GdmError as error:
    with page.picture:
        shell.error("This file cannot be read", str(error))

if file is None:
    page.header("upload a recording")
    show_introduction()
else:
    try:
        data = load(file)
    except GdmError as error:
        with page.picture:
            shell.error("These data cannot be fitted", str(error))
    if data is None or not intake.is_fitted(file):
        page.header(file.name)
        if data is not None:
            with page.picture:
                table.label_panel(data)
        with page.card:
            show_summary(file, data)

if data is not None and file is not None and intake.is_fitted(file):
    recording_page(page, data, defined_by="position" if file.tracked else "dynamics", sources=intake.sources())
else:
    shell.footer()
