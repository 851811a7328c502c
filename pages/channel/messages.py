"""Messages of the live channel: JSON with the fields below. components/channel.js says how the browser uses them."""

from __future__ import annotations

import json
from typing import Any

from gdm_core.errors import DataError

Field = type | tuple[type, ...]
Kinds = dict[str, dict[str, Field]]

VERSION = 1  # a page that was opened before an update of the server may speak another one
MAX_LENGTH = 2_000  # characters of a message from a browser
MAX_NUMBER = 2**53  # above it, a browser's integers are inexact

TO_BROWSER: Kinds = {
    # Panels that changed, by key. Per panel the highest number wins; `run` counts script runs.
    "parts": {"number": int, "run": int, "parts": dict},
    # Whether anything after the script run of this number may still change or need another one.
    "moves": {"run": int, "moves": bool},
    # Request for one script run.
    "run": {"number": int, "why": str},
    # States at values of a slider. Tables of another fit (`source`) replace earlier ones; their first message has `how` to draw.
    "tables": {"slider": str, "source": str, "tables": list, "how": dict, "more": bool},
}
TO_SERVER: Kinds = {
    # The connection is new: send every panel.
    "present": {},
    # The panels of this number are on the screen.
    "drawn": {"number": int},
    # The pointer is near a slider or drags it (`held`), repeated every second. The browser has tables of the fit `source`.
    "near": {"slider": str, "held": bool, "value": (int, float), "source": str},
}


def to_browser(kind: str, **fields: Any) -> str:
    """Return a message for the browser; raise DataError if its fields are wrong."""
    _check(kind, fields, TO_BROWSER)
    return json.dumps({"v": VERSION, "type": kind, **fields}, separators=(",", ":"))


def from_browser(text: str) -> tuple[str, dict[str, Any]]:
    """Return the kind and the fields of a message; raise DataError if it is invalid."""
    if len(text) > MAX_LENGTH:
        raise DataError(f"A message has {len(text):,} characters; at most {MAX_LENGTH:,} are allowed.")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError("A message is not JSON.") from None
    if not isinstance(message, dict) or message.pop("v", None) != VERSION:
        raise DataError(f"A message is not of version {VERSION}.")
    kind = message.pop("type", None)
    _check(kind, message, TO_SERVER)
    return kind, message


def _check(kind: Any, fields: dict[str, Any], kinds: Kinds) -> None:
    expected = kinds.get(kind) if isinstance(kind, str) else None
    if expected is None:
        raise DataError(f"A message has an unknown kind; known are {', '.join(kinds)}.")
    if set(fields) != set(expected):
        raise DataError(f"A message {kind!r} has the fields {sorted(fields)[:9]} instead of {sorted(expected)}.")
    for name, value in fields.items():
        field = expected[name]
        if not isinstance(value, field) or isinstance(value, bool) != (field is bool):
            raise DataError(f"The field {name!r} of a message {kind!r} has the wrong type.")
        if isinstance(value, int | float) and not abs(value) <= MAX_NUMBER:  # also not NaN
            raise DataError(f"The field {name!r} of a message {kind!r} is not a number up to {MAX_NUMBER:,}.")
