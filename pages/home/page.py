"""Home: what a soft state is, and three finished results."""

from __future__ import annotations

from html import escape

import streamlit as st

from pages.home.pictures import animation, score_line, strip_svg, track_svg
from pages.ui import navigation, shell
from pages.ui.result_files import Card, load_card
from pages.ui.theme import ASSETS

CARDS = (
    (
        "formula1",
        "Formula 1",
        "Where does a driver brake, turn and push? States of a whole race, drawn on the circuit.",
    ),
    (
        "nascar",
        "NASCAR lab",
        "A simulated track whose true states are known: change the model and see how close it comes.",
    ),
    ("behaviour", "Mice", "Two mice meet. States found in their poses, beside what an expert wrote down."),
)
RESULTS = {"nascar": "nascar-soft"}  # the result behind a card, where it is not called like the page


def introduction() -> None:
    """The headline, the paragraph and the animation."""
    words, picture = st.columns([1, 1.25], gap="large", vertical_alignment="center")
    with words:
        st.html(
            '<div class="gdm-hero"><h1>Find the states hidden in a recording, and see how they blend.</h1>'
            "<p>A car does not stop driving straight and start to turn from one moment to the next, and a mouse drifts "
            "from exploring to attacking. Most models of switching force every moment into one state. The Gumbel "
            "Dynamical Model gives each moment <em>shares</em> of its states instead: a soft state, drawn here as a "
            "mixed colour. Sharp where the data are sharp, blended where they blend, learned from the recording "
            "alone.</p></div>"
        )
        with st.container(key="home-first", horizontal=True):
            first = load_card(RESULTS["nascar"])
            st.page_link(
                navigation.page("nascar"),
                label="Start here: drag “States (K)” on a simulated track",
                icon=":material/arrow_forward:",
                query_params={k: str(v) for k, v in first.query.items()} if first else None,
            )
            st.page_link(navigation.page("your_data"), label="Bring a recording", icon=":material/upload_file:")
            st.page_link(navigation.page("study"), label="Bring many, and ask what differs", icon=":material/groups:")
    with picture, shell.panel("home-animation"):
        st.html(animation())


def _card_html(title: str, about: str, card: Card | None) -> str:
    head = f"<h2>{escape(title)}</h2><p>{escape(about)}</p>"
    if card is None:
        return f'<div class="gdm-result">{head}</div>'
    alt = f"{card.title}: path in the colours of {card.states.shape[1]} states"
    facts = " · ".join(f"{escape(n)} {escape(v)}" for n, v in card.facts.items())
    scores = "".join(score_line(score) for score in card.scores[:2])
    return (
        f'<div class="gdm-result">{track_svg(card.position, card.states, alt)}'
        f"{strip_svg(card.states, f'{card.title}: states over time')}{head}"
        f'<p class="gdm-quiet">{escape(card.about)}</p><p class="gdm-quiet">{facts}</p><ul>{scores}</ul></div>'
    )


def results() -> list[str]:
    """The three cards; returns the licences of the data shown."""
    licences = []
    for column, (folder, title, about) in zip(st.columns(3, gap="small"), CARDS, strict=True):
        card = load_card(RESULTS.get(folder, folder))
        with column, shell.panel(f"home-{folder}"):
            st.html(_card_html(title, about, card))
            entry = navigation.info(folder)
            if entry.path.is_file():
                query = {k: str(v) for k, v in card.query.items()} if card else None
                st.page_link(navigation.page(folder), label=f"Open {entry.title}", query_params=query)
            else:
                shell.quiet("This page is not part of this installation.")
        if card and card.licence and card.licence not in licences:
            licences.append(card.licence)
    return licences


st.html(ASSETS / "home.css")
introduction()
shell.footer(results())
