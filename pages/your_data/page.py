"""Your data: a file of the visitor's own, understood, checked, fitted, and looked at with the views of Behaviour."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import streamlit as st

from datasets import keypoints, tables
from datasets.readers.deeplabcut import flat_columns
from gdm_core.analysis.bouts import BoutRule
from gdm_core.errors import GdmError
from pages.behaviour import lab
from pages.behaviour.data import Data
from pages.ui import live, settings, shell
from pages.your_data import check, example, intake, pose_check, poses

KINDS = ["csv", "tsv", "txt", "gz", "parquet", "xlsx", "npz", "npy", "h5", "hdf5", "slp"]
LABEL_KINDS = ["annot", "txt", "csv", "tsv"]
GO = f"{intake.KEPT}-go"


def ask_for_file() -> tuple[intake.Opened | None, str]:
    """(the file, what is wrong with it)."""
    shell.section("File")
    sent = st.file_uploader(
        "A recording", type=KINDS, key="upload", help="Up to 200 MB here; larger files by path on the Behaviour page."
    )
    if sent is None and not st.session_state.get(intake.EXAMPLE_ON):
        intake.forget()
        return None, ""
    source, name = (sent, sent.name) if sent is not None else (io.BytesIO(example.content()), example.NAME)
    bar = st.progress(0.0, f"Reading {name}")
    digest = intake.digest_of(source)
    file, trouble = None, ""
    try:
        file = intake.opened(source, name, digest, lambda share, text: bar.progress(min(share, 1.0), text))
    except GdmError as error:
        trouble = str(error)
    finally:
        bar.empty()
    if file is None or not file.tracked:  # of a tracking file every frame is read
        st.number_input(
            "Keep each n-th row", 1, 10_000, 1, key=intake.every_key(digest),
            help="1 keeps all. For text tables beyond five million rows.",
        )  # fmt: skip
    if file is not None and len(file.sheets) > 1:
        assert isinstance(file.content, tables.Table)
        st.selectbox(
            "Sheet", file.sheets, index=file.sheets.index(file.content.sheet), key=file.sheet_key,
            help="At first the first one with a column of numbers.",
        )  # fmt: skip
    return (None if file is None else ask_how_to_read(file)), trouble


def ask_for_labels(rate_hz: float) -> tuple[keypoints.Annotation | None, str]:
    """(what an expert saw in a tracking file, what is wrong with it). Bouts in seconds need the rate as it stands."""
    marks = st.file_uploader(
        "Labels (optional)",
        type=LABEL_KINDS,
        key="marks",
        help="What an expert saw, frame by frame or bout by bout: Bento, BORIS, or a table.",
    )
    if marks is None:
        return None, ""
    try:
        return keypoints.read_annotation(marks, rate_hz=rate_hz, name=marks.name), ""
    except GdmError as error:
        return None, str(error)


def start_over() -> None:
    st.session_state[intake.EXAMPLE_ON] = True


def introduction() -> None:
    """Before there is a file."""
    with page.picture:
        shell.empty(
            "Add a recording at the left",
            "A table with one row a moment (CSV, Parquet, XLSX, NPZ), or a tracking file of DeepLabCut or SLEAP.",
        )
        st.button("Try it with an example", key="example", on_click=start_over, icon=":material/play_arrow:")
        shell.quiet(example.ABOUT)
        shell.quiet(
            "You will see what was understood, column by column, before anything is fitted. The file stays in the memory "
            "of this session: neither it nor what is fitted to it is written to disk, and both go two minutes after "
            "you have left."
        )
    with page.card:
        st.html('<p class="gdm-panel-title">Files to fill in</p>')
        offered: dict[str, Callable[[], bytes]] = {name: partial(tables.template, name) for name in tables.TEMPLATES}
        for name, make in (offered | {example.NAME: example.content}).items():
            st.download_button(
                name,
                data=make,
                file_name=name,
                key=f"template-{name}",
                on_click="ignore",
                icon=":material/download:",
                width="stretch",
            )


def ask_how_to_read(file: intake.Opened) -> intake.Opened:
    """A table whose columns are named like keypoints can be read as keypoints."""
    table = file.content
    if not isinstance(table, tables.Table) or flat_columns(list(table.columns)) is None:
        return file
    wanted = st.toggle(
        "Read as keypoints",
        keypoints.looks_like_keypoints(table),
        key=settings.key("posed", file.of),
        bind="query-params",
        help="Columns such as nose_x and nose_y, or mouse1_nose_x, are parts of a body. Without it, they are channels.",
    )
    return intake.as_poses(file) if wanted else file


def ready(file: intake.Opened) -> tuple[Data | None, str]:
    """(the data, or why there are none); draws what was understood on the way."""
    return posed(file) if file.tracked else tabled(file)


def posed(file: intake.Opened) -> tuple[Data | None, str]:
    """The same for a tracking file."""
    with page.controls:
        options = pose_check.pose_options(file)
        labels, trouble = ask_for_labels(options.rate_hz)
    with understood(file):
        if not pose_check.pose_panel(file, options):
            return None, ""
    if trouble:
        return None, f"The labels cannot be read. {trouble}"
    seen = b"" if labels is None else repr(labels.label_names).encode() + labels.labels.tobytes()
    marked = hashlib.sha256(seen).hexdigest()
    try:
        made = intake.remembered(f"{file.digest}{options}{marked}", lambda: poses.from_poses(file, options, labels))
        return made, ""
    except GdmError as error:
        return None, str(error)


def tabled(file: intake.Opened) -> tuple[Data | None, str]:
    """The same for a table."""
    with page.controls:
        options = check.table_options(file)
    with understood(file):
        if not check.table_panel(file, options):
            return None, ""
    try:
        return intake.remembered(f"{file.digest}{options}", lambda: intake.from_table(file, options)), ""
    except GdmError as error:
        return None, str(error)


@contextmanager
def understood(file: intake.Opened) -> Iterator[None]:
    """The place for what was understood: open until the fit is asked for."""
    going = st.session_state.get(GO) == file.digest
    with page.picture, st.expander("What was understood", expanded=not going, icon=":material/fact_check:"):
        yield


page = shell.frame("your_data")
live.mind_departure()
with page.controls:
    file, trouble = ask_for_file()

data = None
if file is None:
    if trouble:
        with page.picture:
            shell.error("This file cannot be read", trouble)
    page.header("a file of your own")
    introduction()
else:
    data, trouble = ready(file)
    if trouble:
        with page.picture:
            shell.error("This cannot be fitted as it stands", trouble)
    if data is None or st.session_state.get(GO) != file.digest:
        page.header(file.name)
        with page.card:
            st.html('<p class="gdm-panel-title">Next</p>')
            if data is None:
                shell.quiet("Change a role or a setting at the left, then fit.")
            else:
                shell.quiet(
                    f"Trials to fit: {len(data.train)}, with {data.train.n_samples:,} samples. "
                    f"Kept aside as new: {len(data.test)}, with {data.test.n_samples:,}."
                )
                k, d = data.start
                shell.quiet(f"To start with: K {k} and D {d}, as the data suggest.")
            if st.button("Fit it", type="primary", key="fit", disabled=data is None, width="stretch"):
                st.session_state[GO] = file.digest
                st.rerun()

if data is not None and file is not None and st.session_state.get(GO) == file.digest:
    lab.show(
        page,
        "your_data",
        data,
        bout_rule=BoutRule(0.0, 0.0),
        sees="places" if file.tracked else "moves",
        keep=False,
    )
else:
    shell.footer(["Nothing of a file is kept after the session."])
