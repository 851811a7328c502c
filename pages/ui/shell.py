"""The skeleton that every page shares: header, controls, picture, honest card, depth below, footer.

page = shell.frame("nascar")                 # page.controls, page.picture, page.card, page.below
with page.controls:
    shell.section("Model")
    k, held = slider(...)
with page.picture:
    plot(...)
with page.card:
    st.html(card.scores_html([...]))
page.header("One simulated lap", [("states K", "4"), ("softness τ", "0.99")])
shell.footer(["..."])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
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
_SHARE_LOOK = """
button { font: inherit; font-size: 0.85rem; cursor: pointer; padding: 0.3rem 0.75rem;
  border-radius: var(--st-button-radius); border: 1px solid var(--st-border-color); background: transparent;
  color: var(--st-text-color); white-space: nowrap; }
button:hover, button:focus-visible { border-color: var(--st-primary-color); color: var(--st-primary-color); }
"""

FADED = "--gdm-faded: 0.6; --gdm-good: var(--gdm-muted);"  # styles.css says what becomes of it
_made_for: ContextVar[str | None] = ContextVar("made_for", default=None)

_share = component(
    "gdm_share", html="<button type='button'><span>Copy link</span></button>", css=_SHARE_LOOK, js=_SHARE
)


@dataclass(frozen=True)
class Frame:
    """The places of a page. Fill them in any order, with `with page.picture:` and so on."""

    folder: str
    title: str
    head: Any
    controls: Any
    picture: Any
    card: Any
    below: Any

    def header(
        self, about: str = "", facts: Sequence[tuple[str, str]] = (), *, wanted: str = "", waits: str = ""
    ) -> None:
        """The first line: title, what is shown, and the model's key facts (name, value).

        wanted  number of the settings that are wanted from here on: all that was said `of` others fades at once
        waits   what has to come before the rest of the page is of these settings, "" where it is
        """
        shown = "".join(f"<div><dt>{escape(n)}</dt><dd>{escape(v)}</dd></div>" for n, v in facts)
        waiting = f'<p class="gdm-waiting" role="status">{escape(waits)}</p>' if waits else ""
        with self.head, of(wanted or None):
            if wanted:  # an element of its own: a style sheet takes no room on the page
                st.html(f'<style>.gdm-of:not([data-of="{wanted}"]) {{{FADED}}}</style>')
            say(
                f'<header class="gdm-head"><h1>{escape(self.title)}</h1><p>{escape(about)}</p>'
                f'<dl class="gdm-facts">{shown}</dl>{waiting}</header>'
            )


def frame(
    folder: str, *, title: str | None = None, card_share: float = 0.30, share: Callable[[], None] | None = None
) -> Frame:
    """Lay out a page: controls at the left (a drawer on a phone), the picture, the card at its right, tabs below.

    share  draws what stands in place of the button that copies the link, where a link would not show the same page
    """
    with st.container(key=f"gdm-top-{folder}", horizontal=True, vertical_alignment="center", wrap=False):
        head = st.container()  # not st.empty, which would clear the line at the start of every run
        if share is None:
            _share(key=f"share-{folder}", width="content")
        else:
            share()
    picture, card = st.columns([1 - card_share, card_share], gap="small")
    return Frame(
        folder=folder,
        title=title or navigation.info(folder).title,
        head=head,
        controls=st.sidebar,
        picture=picture.container(key=f"gdm-panel-picture-{folder}"),
        card=card.container(key=f"gdm-panel-card-{folder}"),
        below=st.container(key=f"gdm-below-{folder}"),
    )


@contextmanager
def of(settings: str | None) -> Iterator[None]:
    """What is said inside was made for the settings of that number, "" for none that could be wanted, None for any.

    It fades wherever a header says that others are wanted, whichever run of the page drew it: a run that another one
    overtakes never comes to what stands further down.
    """
    before = _made_for.set(settings)
    try:
        yield
    finally:
        _made_for.reset(before)


def say(body: str) -> None:
    """HTML, made for the settings that `of` names."""
    settings = _made_for.get()
    st.html(body if settings is None else marked(body, settings))


def marked(body: str, settings: str) -> str:
    """HTML that says for which settings it was made, for words that move."""
    return f'<div class="gdm-of" data-of="{escape(settings)}">{body}</div>'


def panel(key: str, title: str = "") -> Any:
    """A surface of its own, to be used with `with`; `key` must be unique on the page."""
    box = st.container(key=f"gdm-panel-{key}")
    if title:
        box.html(f'<p class="gdm-panel-title">{escape(title)}</p>')
    return box


def section(title: str) -> None:
    """A heading among the controls."""
    st.html(f'<p class="gdm-section">{escape(title)}</p>')


def quiet(text: str) -> None:
    """A remark in small muted letters."""
    say(quiet_html(text))


def quiet_html(text: str) -> str:
    """The same, for words that move."""
    return f'<p class="gdm-quiet">{escape(text)}</p>'


def finding(text: str) -> None:
    """What was found, in a sentence that stands out."""
    say(f'<p class="gdm-finding">{escape(text)}</p>')


def state_key(n_states: int, names: Sequence[str] | None = None) -> None:
    """Which colour is which state."""
    say(state_key_html(n_states, names))


def state_key_html(n_states: int, names: Sequence[str] | None = None) -> str:
    """The same, for words that move."""
    shown = names or [f"S{k + 1}" for k in range(n_states)]
    return key_html("States", zip(palette.colours(n_states), shown, strict=True))


def key_html(of: str, items: Iterable[tuple[str, str]], head: str = "") -> str:
    """Which colour is what, as HTML: (colour, name) in order, after a word that names all of them."""
    parts = [f"{escape(head)}:"] if head else []
    parts += [f'<i style="background:{colour}"></i>{escape(name)}' for colour, name in items]
    shown = "".join(f'<span role="listitem">{part}</span>' for part in parts)
    return f'<div class="gdm-key" role="list" aria-label="{escape(of)}">{shown}</div>'


def empty(title: str, what_to_do: str) -> None:
    """Nothing to show yet, and what would change that."""
    st.html(f'<div class="gdm-message"><strong>{escape(title)}</strong>{escape(what_to_do)}</div>')


def error(title: str, message: str, *, retry: str = "", again: Callable[[], Any] | None = None) -> None:
    """What went wrong and what to do. With a key in `retry` a button beside it calls `again`, and has the page run once more."""
    st.html(f'<div class="gdm-message error" role="alert"><strong>{escape(title)}</strong>{escape(message)}</div>')
    if retry:
        st.button("Try again", key=retry, icon=":material/refresh:", on_click=again)


def begin_button(
    label: str, begin: Callable[[], Any], refused: str = "", *, key: str, at: Any = st, **more: Any
) -> None:
    """Show a button that calls `begin` with the settings of the run after the click; the page then runs once more.

    The click is kept until a run gets here, because a run that another one overtakes loses it. A GdmError of `begin` is shown
    under `refused`.
    """
    pressed = f"pressed-{key}"
    at.button(label, key=key, on_click=st.session_state.update, args=({pressed: True},), **more)
    if not st.session_state.pop(pressed, False):
        return
    try:
        begin()
    except GdmError as why:
        error(refused, str(why))
    else:
        st.rerun()


def running_html(text: str, share: float) -> str:
    """Something under way, for words that move: what it does, and how far it is (0 to 1)."""
    done = min(max(share, 0.0), 1.0) * 100
    return (
        f'<div class="gdm-running" role="status"><span>{escape(text)}</span>'
        f'<span class="track"><i style="width:{done:.0f}%"></i></span><span>{done:.0f} %</span></div>'
    )


def end_page() -> NoReturn:
    """The page has no more to show. After `st.stop` nothing could be drawn, and the live channel is drawn last."""
    raise navigation.EndOfPage


def footer(licences: Sequence[str] = ()) -> None:
    """Version, and where the data of this page comes from and under which terms."""
    lines = [f"GDM Studio {__version__}", *licences]
    st.html('<footer class="gdm-foot">' + "".join(f"<span>{escape(line)}</span>" for line in lines) + "</footer>")
