"""Figures and whole reports as HTML files that need nothing else."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape

from plotly.io.json import to_json_plotly
from plotly.offline import get_plotlyjs
from streamlit.components.v2 import component

from gdm_studio.plot.figures.base import Figure, at_width
from pages.ui import theme
from pages.ui.card import WORDS, Score, explained

CONFIG = {"displaylogo": False, "responsive": True}
PAGE_WIDTH = 900  # pixels of a figure in a file, as the sheet below leaves them

_LOOK = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d1f27; background: #fff; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 0.4rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { text-align: left; padding: 0.25rem 1.2rem 0.25rem 0; border-bottom: 1px solid #dfe1e8; vertical-align: top; }
figure { margin: 1rem 0; } figcaption, .quiet { color: #5d6172; font-size: 0.85rem; }
a { overflow-wrap: anywhere; }
pre { background: #f0f1f5; padding: 0.9rem; border-radius: 8px; overflow-x: auto; }
"""


def _drawn(figures: Mapping[str, Figure]) -> tuple[list[str], str]:
    """(each figure as HTML, what draws them)."""
    shown, calls = [], []
    for number, figure in enumerate(at_width(figure, PAGE_WIDTH) for figure in figures.values()):
        resolved = theme.resolve({"data": figure["data"], "layout": figure["layout"]}, "light")
        layout = resolved["layout"] | {"height": figure["height"], "paper_bgcolor": theme.TOKENS["light"]["surface"]}
        shown.append(
            f'<figure role="img" aria-label="{escape(figure["alt"])}"><div id="figure-{number}"></div>'
            f"<figcaption>{escape(figure['caption'])}</figcaption></figure>"
        )
        what = to_json_plotly({"data": resolved["data"], "layout": layout, "config": CONFIG})
        calls.append(f'Plotly.newPlot("figure-{number}", {what});')
    return shown, "\n".join(calls)


def _page(title: str, body: str, calls: str) -> bytes:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_LOOK}</style></head><body>{body}{scripts([calls])}</body></html>"
    ).encode()


def figure_html(figure: Figure, title: str) -> bytes:
    """One figure, to open anywhere without a network."""
    (shown,), calls = _drawn({title: figure})
    return _page(title, f"<h1>{escape(title)}</h1>{shown}", calls)


def report_html(
    title: str,
    about: str,
    facts: Sequence[tuple[str, str]],
    scores: Sequence[tuple[str, str, str, str]],
    figures: Mapping[str, Figure],
    code: str,
    link: str = "",
) -> bytes:
    """Everything of a view in one file: settings, scores beside what they have to beat, figures, and the script."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
    body = [f"<h1>{escape(title)}</h1><p>{escape(about)}</p><h2>Settings</h2><table>{rows}</table>"]
    if scores:
        lines = "".join(
            f"<tr><td>{escape(n)}</td><td><b>{escape(v)}</b></td><td>{escape(w)}</td><td>{escape(b)}</td></tr>"
            for n, v, w, b in scores
        )
        head = "<tr><th>Score</th><th>Model</th><th>Verdict</th><th>To beat</th></tr>"
        body.append(f"<h2>How good is it</h2><table>{head}{lines}</table>")
    shown, calls = _drawn(figures)
    body += [f"<h2>{escape(name)}</h2>{figure}" for name, figure in zip(figures, shown, strict=True)]
    body.append(f"<h2>To reproduce it</h2><pre>{escape(code)}</pre>")
    if link:
        body.append(f'<p class="quiet">The view itself: <a href="{escape(link)}">{escape(link)}</a></p>')
    return _page(title, "".join(body), calls)


def plain_score(score: Score) -> tuple[str, str, str, str]:
    """A row of the card as words: name, value with its spread, the card's verdict, what it has to beat."""
    value = f"{score.value:.{score.digits}f}{score.unit}" if score.value == score.value else "not measured"
    if score.spread is not None:
        value += f" ± {score.spread:.{score.digits}f}"
    said = WORDS[score.verdict] if score.verdict else ""
    beat = "" if score.line is None else f"{explained(score.line_name)[0]} {score.line:.{score.digits}f}{score.unit}"
    more = [f"{explained(name)[0]} {number:.{score.digits}f}{score.unit}" for name, number in score.others]
    return score.name, value, said, " · ".join(part for part in (beat, *more) if part)


# ---- SVG and PNG, which the browser draws from what stands there ----------------------------------------------------
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
_BUTTONS_LOOK = """
div { display: flex; gap: 0.5rem; flex-wrap: wrap; }
button { font: inherit; cursor: pointer; padding: 0.42rem 0.8rem; border-radius: var(--st-button-radius);
  border: 1px solid var(--st-border-color); background: transparent; color: var(--st-text-color); white-space: nowrap; }
button:hover, button:focus-visible { border-color: var(--st-primary-color); color: var(--st-primary-color); }
"""
_buttons = component(
    "gdm_save",
    html="<div><button type='button' data-format='svg'>SVG</button><button type='button' data-format='png'>PNG</button></div>",
    css=_BUTTONS_LOOK,
    js=_JS,
)


def save_picture(key: str, name: str, figure: Figure, *, least: int = LEAST_WIDTH) -> None:
    """Buttons for what `plot(figure, key=key)` has drawn; `name` is that of the file, without its ending."""
    _buttons(key=f"save-{key}", data={"figure": key, "name": name, "least": least, "height": figure["height"]})


# ---- scripts in an HTML file at a third of their size: deflated, and unpacked by the browser that opens it ----------
# The drawing library is 4.8 of the 5 MB that a report had. Base 85 takes a quarter more than the bytes themselves, base 64 a third.
_STOPS, _OURS = "<", "."  # what could end a script in HTML, and a letter that base 85 does not have

_UNPACK = """
const ALPHABET =
  "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;.=>?@^_`{|}~";
async function unpacked(place) {
  const value = new Uint8Array(128);
  [...ALPHABET].forEach((letter, i) => (value[letter.charCodeAt(0)] = i));
  const text = place.textContent;
  const bytes = new DataView(new ArrayBuffer((text.length / 5) * 4));
  for (let i = 0, at = 0; i < text.length; i += 5, at += 4) {
    let word = 0;
    for (let j = 0; j < 5; j++) word = word * 85 + value[text.charCodeAt(i + j)];
    bytes.setUint32(at, word);
  }
  const whole = new Blob([new Uint8Array(bytes.buffer, 0, Number(place.dataset.bytes))]);
  return new Response(whole.stream().pipeThrough(new DecompressionStream("deflate"))).text();
}
Promise.all([...document.querySelectorAll("script[data-bytes]")].map(unpacked)).then(
  (sources) => {
    for (const source of sources) {
      const script = document.createElement("script");
      script.textContent = source;
      document.head.append(script);
    }
  },
  (error) => {
    const said = `This browser cannot draw the figures (${error.message}); any of 2023 or later can.`;
    for (const figure of document.querySelectorAll("figure > div")) figure.textContent = said;
  },
);
"""


def scripts(sources: Sequence[str]) -> str:
    """The drawing library and `sources`, which run in their order once all are unpacked (HTML)."""
    return "".join([_library(), *map(_packed, sources), f"<script>{_UNPACK}</script>"])


@cache
def _library() -> str:
    return _packed(get_plotlyjs())


def _packed(source: str) -> str:
    small = zlib.compress(source.encode(), 9)
    text = base64.b85encode(small, pad=True).decode("ascii").replace(_STOPS, _OURS)
    return f'<script type="text/plain" data-bytes="{len(small)}">{text}</script>'
