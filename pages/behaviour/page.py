"""Behaviour: poses of animals, expert labels and inferred states."""

from __future__ import annotations

import streamlit as st

from gdm_core.errors import GdmError
from pages.behaviour import recordings
from pages.lab.recording import recording_page
from pages.lab.upload.file import take_arrival
from pages.ui import navigation, shell

page = shell.frame("behaviour")
if take_arrival():
    st.switch_page(navigation.page("your_data"))
with page.controls:
    try:
        chosen = recordings.choose(page.advanced)
        data = recordings.load(chosen)
    except GdmError as error:
        page.header("no recording")
        with page.picture:
            shell.error("The recording cannot be loaded", str(error), retry="behaviour-again")
        with page.card:
            st.html('<p class="gdm-panel-title">Recordings</p>')
            shell.quiet("Choose another source on the left, or upload a tracking file there.")
        shell.end_page()

recording_page(page, data)
