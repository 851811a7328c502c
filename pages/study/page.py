"""Study: many recordings and their conditions, compared with animals as the unit."""

from __future__ import annotations

import streamlit as st

from gdm_core.study.sheet import RECORDING
from pages.study import answer, bring, files, labels, leave, names, questions, robust, tabs
from pages.ui import navigation, shell
from pages.ui.theme import ASSETS

st.html(ASSETS / "study.css")
page = shell.frame("study", card_share=0.34)
brought = bring.choose(page)
navigation.warn_on_every_page(files.unsaved() or (brought is not None and leave.is_unsaved(brought)))
brought = brought and labels.with_labels(page, brought)
if brought is None:
    page.header("compare recordings between conditions")
    with page.card:
        st.html('<p class="gdm-panel-title">What you get</p>')
        shell.quiet(
            "All recordings side by side, and tests of differences between groups, doses or sessions, with the animal as the "
            "unit."
        )
    shell.footer(["Uploads stay in this session."])
    shell.end_page()
brought = names.with_names(brought)
with page.controls:
    asked = questions.choose(brought, page)
study = brought.study
answers = None
if asked is not None:
    with page.card:
        answers = questions.answers(brought, asked)
        if answers is not None:
            answer.card(brought, asked, answers, robust.caution(brought, asked))
            robust.show(brought, asked, answers)
n = len(study.sheet.frame)  # with excluded recordings
compared = (
    len(study.sheet.names) if answers is None or answers.table is None else len(answers.table.attrs["recordings"])
)
page.header(brought.about, [("compared", f"{compared} of {n} recordings"), ("states", str(len(study.states)))])
with page.picture:
    answer.draw(brought, asked, answers)
with page.below:
    tabs.show(brought, asked, answers)
shell.footer([f"The {study.sheet.subject if study.sheet.animal else RECORDING} is the statistical unit."])
