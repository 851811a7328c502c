"""Study: many recordings and their conditions, compared with animals as the unit."""

from __future__ import annotations

import streamlit as st

from gdm_core.study.methods import make_record
from gdm_core.study.sheet import RECORDING
from pages.study import answer, explain, export, files, questions, robust, sources, states, tabs
from pages.ui import navigation, shell
from pages.ui.theme import ASSETS

st.html(ASSETS / "study.css")
page = shell.frame("study", card_share=0.34)
is_planned = questions.ask(page)
opened = sources.choose(page)
navigation.warn_on_every_page(files.unsaved() or (opened is not None and export.is_unsaved(opened)))
if opened is None:
    page.header("compare recordings between conditions")
    with page.card:
        st.html('<p class="gdm-panel-title">What you get</p>')
        shell.quiet(
            "All recordings side by side, and tests of differences between groups, doses or sessions, with the animal as the "
            "unit."
        )
    shell.footer(["Uploads stay in this session."])
    shell.end_page()
opened = states.with_names(opened)
with page.controls:
    question = questions.choose(opened, page)
followed = opened if question is None else questions.follow(opened, question, is_planned, page)
if followed is None:
    page.header(opened.about, [("states", str(len(opened.study.states)))])
    shell.end_page()
opened, finding = followed, None
study = opened.study
if question is not None:
    with page.card:
        finding = questions.find(opened, question)
        if finding is not None:
            answer.card(opened, question, finding, robust.caution(opened, question))
            robust.show(opened, question, finding)
n = len(study.sheet.frame)  # with excluded recordings
record = make_record(study, finding.tests if finding else ())
page.header(
    opened.about, [("compared", f"{record.n_recordings} of {n} recordings"), ("states", str(len(study.states)))]
)
with page.picture:
    answer.draw(opened, question, finding)
    explain.show_key(opened)
explain.show_card(opened, page)
with page.below:
    tabs.show(opened, question, finding)
shell.footer([f"The {study.sheet.subject if study.sheet.animal else RECORDING} is the statistical unit."])
