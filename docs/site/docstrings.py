"""Convert this project's docstrings to reStructuredText: aligned name columns become lists, code stays verbatim."""

from __future__ import annotations

import re

# "name, other (symbol)   meaning", continued on indented lines
_ENTRY = re.compile(
    r"^(?P<names>[a-zA-Z_]\w*(?: \(\w+\))?(?:, \w+(?: \(\w+\))?)*) {2,}(?P<words>\S.*(?:\n {4,}\S.*)*)$", re.M
)
_CODE = re.compile(r"(`[^`\n]+`)")


def _escape(text: str) -> str:
    """Escape reStructuredText markup in prose; keep `code` as code."""

    def one(part: str) -> str:
        if part.startswith("`") and part.endswith("`") and len(part) > 2:
            return f"``{part[1:-1]}``"
        return re.sub(r"([\\*|`])|(\w)_(?=\W|$)", lambda m: f"\\{m[1]}" if m[1] else f"{m[2]}\\_", part)

    return "".join(one(part) for part in _CODE.split(text))


def _item(match: re.Match[str]) -> str:
    names = re.sub(r"(?<!\()\b(\w+)\b", r"``\1``", match["names"])
    return f"* {names}: {_escape(' '.join(match['words'].split()))}"


def _paragraph(text: str) -> str:
    lines = text.split("\n")
    if all(line.startswith("    ") for line in lines if line.strip()):
        return "::\n\n" + "\n".join(lines)
    parts, at = [], 0
    for match in _ENTRY.finditer(text):
        if before := text[at : match.start()].strip("\n"):
            parts.append(_escape(before))
        parts.append(_item(match))
        at = match.end()
    if after := text[at:].strip("\n"):
        parts.append(_escape("\n".join(line.strip() for line in after.split("\n"))))
    return "\n\n".join(parts)


def as_rst(docstring: str) -> str:
    """Return a cleaned docstring as reStructuredText."""
    return "\n\n".join(_paragraph(part) for part in re.split(r"\n\s*\n", docstring.strip("\n"))) + "\n"
