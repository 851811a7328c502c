"""Buttons that save a figure of the page as SVG or PNG. The browser draws the file from what stands there."""

from __future__ import annotations

from streamlit.components.v2 import component

from gdm_studio.plot.figures.base import Figure

LEAST_WIDTH = 900  # a file is read elsewhere: it is as wide as a page of text, however narrow the window is

_JS = """
export default function ({ data, parentElement }) {
  parentElement.querySelectorAll("button").forEach((button) => {
    button.onclick = () => {
      const plot = document.querySelector(`.st-key-${data.figure} .gdm-plot`);
      plot?.gdm?.save(button.dataset.format, data.name, data);
    };
  });
}
"""
_LOOK = """
div { display: flex; gap: 0.5rem; flex-wrap: wrap; }
button { font: inherit; cursor: pointer; padding: 0.42rem 0.8rem; border-radius: var(--st-button-radius);
  border: 1px solid var(--st-border-color); background: transparent; color: var(--st-text-color); white-space: nowrap; }
button:hover, button:focus-visible { border-color: var(--st-primary-color); color: var(--st-primary-color); }
"""
_buttons = component(
    "gdm_save",
    html="<div><button type='button' data-format='svg'>SVG</button><button type='button' data-format='png'>PNG</button></div>",
    css=_LOOK,
    js=_JS,
)


def save_picture(key: str, name: str, figure: Figure, *, least: int = LEAST_WIDTH) -> None:
    """Buttons for what `plot(figure, key=key)` has drawn; `name` is that of the file, without its ending."""
    _buttons(key=f"save-{key}", data={"figure": key, "name": name, "least": least, "height": figure["height"]})
