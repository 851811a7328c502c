"""The frame of every page: header, controls, picture, score card, tabs and footer.

page = shell.frame("nascar")                 # page.controls, page.advanced, page.picture, page.card, page.below
with page.controls:
    shell.section("Model")
page.header("One simulated lap", [("K", "4"), ("temperature τ", "0.99")])
shell.footer(["..."])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Any, NoReturn

import streamlit as st
from streamlit.components.v2 import component

from gdm_core import __version__
from gdm_core.errors import GdmError
from gdm_studio.plot import palette
from pages.ui import navigation

_SHARE = """
export default function ({ parentElement }) {
  const button = parentElement.querySelector("button");
  const label = button.querySelector("span");
  const say = (text) => {
    label.textContent = text;
    setTimeout(() => (label.textContent = "Copy link"), 1600);
  };
  // Over plain http, except on localhost, browsers give scripts no clipboard.
  const refused = () => say("Copy it from the address bar");
  button.onclick = () =>
    navigator.clipboard ? navigator.clipboard.writeText(location.href).then(() => say("Link copied"), refused) : refused();
}
"""
BUTTON_LOOK = """
button { font: inherit; font-size: 0.85rem; cursor: pointer; padding: 0.3rem 0.75rem;
  border-radius: var(--st-button-radius); border: 1px solid var(--st-border-color); background: transparent;
  color: var(--st-text-color); white-space: nowrap; }
button:hover, button:focus-visible { border-color: var(--st-primary-color); color: var(--st-primary-color); }
"""

FADED = "--gdm-faded: 0.6; --gdm-good: var(--gdm-muted);"  # used by styles.css
_made_for: ContextVar[str | None] = ContextVar("made_for", default=None)

_share = component(
    "gdm_share", html="<button type='button'><span>Copy link</span></button>", css=BUTTON_LOOK, js=_SHARE
)


@dataclass(frozen=True)
class Frame:
    """The containers of a page, to be filled in any order."""

    folder: str
    title: str
    head: Any
    controls: Any
    picture: Any
    card: Any
    below: Any
    rare: Any = None
    curves: dict[str, Any] = field(default_factory=dict)  # places below the sliders of model_controls

    @cached_property
    def advanced(self) -> Any:
        """The rarely used controls, folded below the others."""
        return self.rare.expander("Advanced", icon=":material/tune:")

    def header(self, about: str = "", facts: Sequence[tuple[str, str]] = (), *, wanted: str = "") -> None:
        """Show the title, a line about the data, and the main settings (name, value).

        wanted  number of the current settings; text made for others fades (`made_for`)
        """
        shown = "".join(f"<div><dt>{escape(n)}</dt><dd>{escape(v)}</dd></div>" for n, v in facts)
        with self.head, made_for(wanted or None):
            if wanted:
                st.html(f'<style>.gdm-of:not([data-of="{wanted}"]) {{{FADED}}}</style>')
            html(
                f'<header class="gdm-head"><h1>{escape(self.title)}</h1><p>{escape(about)}</p>'
                f'<dl class="gdm-facts">{shown}</dl></header>'
            )


def frame(
    folder: str, *, title: str | None = None, card_share: float = 0.30, share: Callable[[], None] | None = None
) -> Frame:
    """Lay out a page: controls at the left (a sheet on a phone), picture, card at its right, tabs below.

    share  draws a replacement for the button that copies the link
    """
    return lay_out(folder, show_top(folder, share), title=title, card_share=card_share)


def show_top(folder: str, share: Callable[[], None] | None = None) -> Any:
    """Show the button that copies the link and return the container of the header."""
    with st.container(key=f"gdm-top-{folder}", horizontal=True, vertical_alignment="center", wrap=False):
        head = st.container()  # not st.empty, which would clear the line at the start of every run
        if share is None:
            _share(key=f"share-{folder}", width="content")
        else:
            share()
    return head


def lay_out(folder: str, head: Any, *, title: str | None = None, card_share: float = 0.30) -> Frame:
    """Return the containers of a page below its header."""
    picture, card = st.columns([1 - card_share, card_share], gap="small")
    return Frame(
        folder=folder,
        title=title or navigation.info(folder).title,
        head=head,
        controls=st.sidebar.container(),
        rare=st.sidebar.container(),
        picture=picture.container(key=f"gdm-panel-picture-{folder}"),
        card=card.container(key=f"gdm-panel-card-{folder}"),
        below=st.container(key=f"gdm-below-{folder}"),
    )


@contextmanager
def made_for(settings: str | None) -> Iterator[None]:
    """Mark text as made for the settings of this number; "" for none, None for any.

    It fades when a header shows other settings, even in a run that ends before it is drawn again.
    """
    before = _made_for.set(settings)
    try:
        yield
    finally:
        _made_for.reset(before)


def html(body: str) -> None:
    """Show HTML, marked with the settings of `made_for`."""
    settings = _made_for.get()
    st.html(body if settings is None else marked(body, settings))


def marked(body: str, settings: str) -> str:
    """Return HTML marked with the settings that it was made for."""
    return f'<div class="gdm-of" data-of="{escape(settings)}">{body}</div>'


def panel(key: str, title: str = "") -> Any:
    """Return a container with a border; `key` is unique on the page."""
    box = st.container(key=f"gdm-panel-{key}")
    if title:
        box.html(f'<p class="gdm-panel-title">{escape(title)}</p>')
    return box


def section(title: str) -> None:
    """Show a heading among the controls."""
    st.html(f'<p class="gdm-section">{escape(title)}</p>')


def quiet(text: str) -> None:
    """Show a remark in small muted letters."""
    html(quiet_html(text))


def quiet_html(text: str) -> str:
    return f'<p class="gdm-quiet">{escape(text)}</p>'


def finding(text: str) -> None:
    """Show a result in a sentence."""
    html(f'<p class="gdm-finding">{escape(text)}</p>')


def state_key(n_states: int, names: Sequence[str] | None = None) -> None:
    """Show the colour of each state; a click explains it (pages/lab/explain.py)."""
    shown = names or [f"S{k + 1}" for k in range(n_states)]
    html(key_html("States", zip(palette.colours(n_states), shown, strict=True), numbers=range(1, n_states + 1)))


def key_html(label: str, items: Iterable[tuple[str, str]], head: str = "", numbers: Sequence[int] | None = None) -> str:
    """Return a colour key: (colour, name) in order, after a word for all of them.

    numbers   of states, which buttons explain
    """
    parts = [f"{escape(head)}:"] if head else []
    for place, (colour, name) in enumerate(items):
        entry = f'<i style="background:{colour}"></i>{escape(name)}'
        if numbers is not None:
            about = f'title="Explain {escape(name)}" data-state-number="{numbers[place]}"'
            entry = f'<button type="button" {about}>{entry}</button>'
        parts.append(entry)
    shown = "".join(f'<span role="listitem">{part}</span>' for part in parts)
    return f'<div class="gdm-key" role="list" aria-label="{escape(label)}">{shown}</div>'


def empty(title: str, advice: str) -> None:
    """Show that there is nothing yet, and advice."""
    st.html(f'<div class="gdm-message"><strong>{escape(title)}</strong>{escape(advice)}</div>')


def error(title: str, message: str, *, retry: str = "", again: Callable[[], Any] | None = None) -> None:
    """Show an error; a key in `retry` adds a button that calls `again` and reruns the page."""
    st.html(f'<div class="gdm-message error" role="alert"><strong>{escape(title)}</strong>{escape(message)}</div>')
    if retry:
        st.button("Try again", key=retry, icon=":material/refresh:", on_click=again)


def begin_button(
    label: str, begin: Callable[[], Any], refused: str = "", *, key: str, place: Any = st, **more: Any
) -> None:
    """Show a button that calls `begin` with the objects of the run after the click; the page then reruns.

    `on_click` sees objects of the previous run, and the button's value is lost if a run is interrupted: it sets a flag. A
    GdmError of `begin` is shown under `refused`.
    """
    pressed = f"pressed-{key}"
    place.button(label, key=key, on_click=st.session_state.update, args=({pressed: True},), **more)
    if not st.session_state.pop(pressed, False):
        return
    try:
        begin()
    except GdmError as why:
        error(refused, str(why))
    else:
        st.rerun()


def running_html(text: str, share: float) -> str:
    """Return a progress bar; `share` is 0 to 1."""
    done = min(max(share, 0.0), 1.0) * 100
    return (
        f'<div class="gdm-running" role="status"><span>{escape(text)}</span>'
        f'<span class="track"><i style="width:{done:.0f}%"></i></span><span>{done:.0f}%</span></div>'
    )


def end_page() -> NoReturn:
    """End the page; unlike `st.stop`, this still draws the live channel."""
    raise navigation.EndOfPage


def footer(licences: Sequence[str] = ()) -> None:
    """Show the version, and source and licence of the data."""
    lines = [f"GDM Studio {__version__}", *licences]
    st.html('<footer class="gdm-foot">' + "".join(f"<span>{escape(line)}</span>" for line in lines) + "</footer>")
