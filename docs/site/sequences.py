"""Sequence diagrams of the docs (Mermaid's notation) as pictures that follow the page's theme, drawn when the site is built.

What the docs use is understood: participants, arrows (solid ->>, dashed -->>), notes over one participant, and loops. Anything
else is refused, so that no diagram is drawn with a part missing.
"""

from __future__ import annotations

import re
from html import escape
from textwrap import wrap

_COLUMN, _LINE, _TOP, _CHARS = 210, 17, 64, 34
_ARROW = re.compile(r"^(\w+)(-{1,2})>>(\w+): (.+)$")


def svg(text: str) -> str:
    """The picture of a diagram, as SVG to stand in a page."""
    rows = [row.strip() for row in text.strip().splitlines() if row.strip()]
    if rows[0] != "sequenceDiagram":
        raise ValueError(f"{rows[0]!r} is no sequence diagram, the one kind that the docs draw.")
    names: dict[str, str] = {}
    drawn: list[str] = []
    loops: list[tuple[int, str]] = []
    y = _TOP + 14
    for row in rows[1:]:
        if found := re.match(r"^participant (\w+) as (.+)$", row):
            names[found[1]] = found[2]
        elif found := _ARROW.match(row):
            made, y = _arrow(names, found, y)
            drawn.append(made)
        elif found := re.match(r"^Note over (\w+): (.+)$", row):
            x = _at(names, found[1])
            drawn.append(f'<rect class="note" x="{x - 90}" y="{y}" width="180" height="26" rx="4"/>')
            drawn.append(_text(x, y + 17, found[2]))
            y += 40
        elif found := re.match(r"^loop (.+)$", row):
            loops.append((y, found[1]))
            y += 26
        elif row == "end":
            begun, words = loops.pop()
            width = _COLUMN * len(names) - 8
            drawn.append(f'<rect class="loop" x="4" y="{begun}" width="{width}" height="{y - begun}" rx="6"/>')
            drawn.append(f'<text class="about" x="14" y="{begun + 17}">{escape(words)}</text>')
            y += 14
        else:
            raise ValueError(f"{row!r} is not understood in a sequence diagram; docs/site/sequences.py says what is.")
    width, height = _COLUMN * len(names), y + 10
    lives = []
    for i, name in enumerate(names.values()):
        x = _COLUMN * i + _COLUMN // 2
        lives.append(f'<line class="life" x1="{x}" y1="{_TOP - 8}" x2="{x}" y2="{height}"/>')
        lives.append(f'<rect class="who" x="{x - 98}" y="6" width="196" height="{_TOP - 14}" rx="6"/>')
        lines = wrap(name, 28)
        lives += [_text(x, 6 + 25 - 8 * (len(lines) - 1) + 16 * j + 4, line) for j, line in enumerate(lines)]
    head = (
        '<marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto-start-reverse">'
        '<path d="M0,0 L10,5 L0,10 z"/></marker>'
    )
    words = escape("; ".join(names.values()), quote=True)
    return (
        f'<div class="gdm-sequence" tabindex="0" role="img" aria-label="Sequence diagram between {words}">'
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}"><defs>{head}</defs>'
        + "".join(lives + drawn)
        + "</svg></div>"
    )


def _at(names: dict[str, str], who: str) -> int:
    return _COLUMN * list(names).index(who) + _COLUMN // 2


def _text(x: float, y: float, words: str) -> str:
    return f'<text x="{x:g}" y="{y:g}">{escape(words)}</text>'


def _arrow(names: dict[str, str], found: re.Match[str], y: int) -> tuple[str, int]:
    """(the arrow with its words above it, where the next row begins)."""
    start, end = _at(names, found[1]), _at(names, found[3])
    dashed = " dashed" if found[2] == "--" else ""
    if start == end:
        lines = wrap(found[4], 26)
        made = "".join(
            f'<text class="own" x="{start + 34}" y="{y + 12 + _LINE * i}">{escape(line)}</text>'
            for i, line in enumerate(lines)
        )
        low = y + max(22, _LINE * len(lines) - 2)
        path = f"M{start},{y + 4} h24 V{low} H{start + 2}"
        return made + f'<path class="call{dashed}" d="{path}" marker-end="url(#tip)"/>', low + 16
    lines = wrap(found[4], _CHARS * abs(end - start) // _COLUMN)
    made = "".join(_text((start + end) / 2, y + 10 + _LINE * i, line) for i, line in enumerate(lines))
    low = y + 10 + _LINE * (len(lines) - 1) + 9
    stop = end - 2 if end > start else end + 2
    return (
        made + f'<line class="call{dashed}" x1="{start}" y1="{low}" x2="{stop}" y2="{low}" marker-end="url(#tip)"/>',
        low + 16,
    )
