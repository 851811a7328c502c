"""The messages of the live channel: `messages.json` names them all, for Python here and for components/channel.js."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from gdm_core.errors import DataError

NAMES = Path(__file__).with_name("messages.json")
LONGEST = 2_000  # letters of what a browser may say at once
LARGEST = 2**53  # up to there a browser's numbers are whole ones
_KINDS: dict[str, type | tuple[type, ...]] = {
    "integer": int, "number": (int, float), "string": str, "object": dict, "array": list, "boolean": bool,
}  # fmt: skip


@cache
def known() -> dict[str, Any]:
    """Every message with its fields, as the file has it."""
    found: dict[str, Any] = json.loads(NAMES.read_text(encoding="utf-8"))
    return found


def version() -> int:
    """Of both ends: a page that was opened before the server was renewed speaks another one."""
    return int(known()["version"])


def to_browser(kind: str, **fields: Any) -> str:
    """A message in the letters that travel. One that the file does not know is a defect of ours."""
    _check(kind, fields, "to_browser")
    return json.dumps({"v": version(), "type": kind, **fields}, separators=(",", ":"))


def from_browser(text: str) -> tuple[str, dict[str, Any]]:
    """(which message, its fields). Anybody may send anything: what is no message of ours is refused in words."""
    if len(text) > LONGEST:
        raise DataError(f"A message of {len(text):,} letters; at most {LONGEST:,} are taken.")
    try:
        said = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise DataError("A message that is not JSON.") from None
    if not isinstance(said, dict) or said.get("v") != version():
        raise DataError(f"A message of another version than {version()}.")
    kind = said.get("type")
    fields = {name: value for name, value in said.items() if name not in ("v", "type")}
    _check(kind, fields, "to_server")
    return str(kind), fields


def _check(kind: Any, fields: dict[str, Any], way: str) -> None:
    wanted = known()[way].get(kind) if isinstance(kind, str) else None
    if wanted is None:
        raise DataError(f"A message of unknown kind; known are {', '.join(known()[way])}.")
    named: dict[str, str] = wanted["fields"]
    if set(fields) != set(named):
        raise DataError(f"A message {kind!r} has the fields {sorted(named)}, not {sorted(fields)[:9]}.")
    for name, value in fields.items():
        if not isinstance(value, _KINDS[named[name]]) or isinstance(value, bool) != (named[name] == "boolean"):
            raise DataError(f"The field {name!r} of a message {kind!r} is no {named[name]}.")
        if isinstance(value, (int, float)) and not abs(value) <= LARGEST:
            raise DataError(f"The field {name!r} of a message {kind!r} is beyond {LARGEST:,}.")


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
