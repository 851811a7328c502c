"""The skeleton that every page shares: header, controls, picture, honest card, depth below, footer.

page = shell.frame("nascar")                 # page.controls, page.picture, page.card, page.below
with page.controls:
    shell.section("Model")
    k, held = slider(...)
with page.picture:
    plot(...)
with page.card:
    card.scores([...])
page.header("One simulated lap", [("states K", "4"), ("softness τ", "0.99")])
shell.footer(["..."])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import streamlit as st
from streamlit.components.v2 import component

from gdm_core import __version__
from pages.ui import navigation, palette

_SHARE = """
export default function ({ parentElement }) {
  const button = parentElement.querySelector("button");
  const label = button.querySelector("span");
  button.onclick = async () => {
    const copied = await copy(window.location.href);
    label.textContent = copied ? "Link copied" : "Copy it from above";
    setTimeout(() => (label.textContent = "Copy link"), 1600);
  };
}

// Over plain http, as in most labs, browsers have no clipboard for scripts: a selected text can still be copied.
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text).then(() => true, () => selected(text));
  return selected(text);
}

function selected(text) {
  const field = Object.assign(document.createElement("textarea"), { value: text, readOnly: true });
  field.style.cssText = "position:fixed;opacity:0";
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  return copied;
}
"""
_SHARE_LOOK = """
button { font: inherit; font-size: 0.85rem; cursor: pointer; padding: 0.3rem 0.75rem;
  border-radius: var(--st-button-radius); border: 1px solid var(--st-border-color); background: transparent;
  color: var(--st-text-color); white-space: nowrap; }
button:hover, button:focus-visible { border-color: var(--st-primary-color); color: var(--st-primary-color); }
"""

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

    def header(self, about: str = "", facts: Sequence[tuple[str, str]] = ()) -> None:
        """The first line: title, what is shown, and the model's key facts (name, value)."""
        shown = "".join(f"<div><dt>{escape(n)}</dt><dd>{escape(v)}</dd></div>" for n, v in facts)
        self.head.html(
            f'<header class="gdm-head"><h1>{escape(self.title)}</h1><p>{escape(about)}</p>'
            f'<dl class="gdm-facts">{shown}</dl></header>'
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
    st.html(f'<p class="gdm-quiet">{escape(text)}</p>')


def state_key(n_states: int, names: Sequence[str] | None = None) -> None:
    """Which colour is which state."""
    shown = names or [f"S{k + 1}" for k in range(n_states)]
    items = "".join(
        f'<span role="listitem"><i style="background:{c}"></i>{escape(n)}</span>'
        for c, n in zip(palette.colours(n_states), shown, strict=True)
    )
    st.html(f'<div class="gdm-key" role="list" aria-label="States">{items}</div>')


def empty(title: str, what_to_do: str) -> None:
    """Nothing to show yet, and what would change that."""
    st.html(f'<div class="gdm-message"><strong>{escape(title)}</strong>{escape(what_to_do)}</div>')


def error(title: str, message: str, *, retry: str | None = None) -> bool:
    """What went wrong and what to do. With a key in `retry` there is a button; True when it was just pressed."""
    st.html(f'<div class="gdm-message error" role="alert"><strong>{escape(title)}</strong>{escape(message)}</div>')
    return st.button("Try again", key=retry, icon=":material/refresh:") if retry else False


def running(text: str, share: float) -> None:
    """A fit under way: what it does, and how far it is (0 to 1)."""
    done = min(max(share, 0.0), 1.0) * 100
    st.html(
        f'<div class="gdm-running" role="status"><span>{escape(text)}</span>'
        f'<span class="track"><i style="width:{done:.0f}%"></i></span><span>{done:.0f} %</span></div>'
    )


def footer(licences: Sequence[str] = ()) -> None:
    """Version, and where the data of this page comes from and under which terms."""
    lines = [f"GDM Studio {__version__}", *licences]
    st.html('<footer class="gdm-foot">' + "".join(f"<span>{escape(line)}</span>" for line in lines) + "</footer>")
