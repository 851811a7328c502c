"""Home: what a soft state is, and three precomputed results."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

import streamlit as st
from streamlit.components.v2 import component

from pages.home.pictures import animation_html, score_html
from pages.ui import navigation, shell
from pages.ui.images import strip_image, track_image
from pages.ui.shipped import Card, load_card
from pages.ui.theme import ASSETS


@dataclass(frozen=True)
class Entry:
    """A card: the folder of its page, its texts, and the name of its result.

    claim  what the score says, with "{value}", and "{guess}" for the majority class
    """

    folder: str
    title: str
    about: str
    claim: str
    result: str


ENTRIES = (
    Entry(
        "formula1",
        "Formula 1",
        "Simulated laps of Shanghai, coloured by inferred state.",
        "Identifies braking, cornering and full throttle with {value} accuracy, unsupervised",
        "formula1",
    ),
    Entry(
        "nascar",
        "NASCAR lab",
        "A simulated track whose true states are known.",
        "Recovers the true states with {value} accuracy, unsupervised",
        "nascar-soft",
    ),
    Entry(
        "behaviour",
        "Mice",
        "The path of a simulated mouse, coloured by inferred state.",
        "Expert labels: {value} accuracy (10-NN); always guessing the most common label: {guess}",
        "behaviour",
    ),
)


_LAPS_JS = (Path(__file__).parent / "laps.js").read_text(encoding="utf-8")
_laps = component("gdm_laps", html=animation_html(), js=_LAPS_JS, isolate_styles=False)


def show_introduction() -> None:
    """Show the headline, the first links and the animation."""
    text, picture = st.columns([1, 1.25], gap="large", vertical_alignment="center")
    with text:
        st.html(
            '<div class="gdm-hero"><h1>Find the states hidden in a recording, and see how they blend.</h1>'
            "<p>Most switching models assign each time step to one state. The Gumbel Dynamical Model infers "
            "<em>proportions</em> of its states instead, drawn as mixed colours.</p></div>"
        )
        with st.container(key="home-first", horizontal=True):
            st.page_link(
                navigation.page("nascar"),
                label="Try a simulated track",
                icon=":material/arrow_forward:",
                query_params=_query(load_card("nascar-soft")),
            )
            st.page_link(navigation.page("your_data"), label="Upload data", icon=":material/upload_file:")
            st.page_link(navigation.page("study"), label="Compare groups", icon=":material/groups:")
    with picture, shell.panel("home-animation"):
        _laps(key="home-laps")


def _query(card: Card | None) -> dict[str, str] | None:
    return {name: str(value) for name, value in card.query.items()} if card else None


def show_results() -> None:
    """Show the cards."""
    for column, entry in zip(st.columns(len(ENTRIES), gap="small"), ENTRIES, strict=True):
        card = load_card(entry.result)
        with column, shell.panel(f"home-{entry.folder}"):
            st.html(_card_html(entry, card))
            page = navigation.info(entry.folder)
            st.page_link(navigation.page(entry.folder), label=f"Open {page.title}", query_params=_query(card))


def _card_html(entry: Entry, card: Card | None) -> str:
    head = f"<h2>{escape(entry.title)}</h2><p>{escape(entry.about)}</p>"
    if card is None:
        return f'<div class="gdm-result">{head}</div>'
    alt = f"{entry.title}: path in the colours of {card.states.shape[1]} states"
    return (
        f'<div class="gdm-result">{track_image(card.position, card.states, alt)}'
        f"{strip_image(card.states, f'{entry.title}: states over time')}{head}"
        f"<ul>{score_html(entry.claim, card.score)}</ul></div>"
    )


st.html(ASSETS / "home.css")
show_introduction()
show_results()
shell.footer()
