"""The public surface: names of `gdm_core` and their signatures, as docs/public_surface.txt records them.

`python -m docs.surface` records it anew, and refuses while CHANGELOG.md says nothing of a name that changed: people read
there what they have to change. tests/unit/test_api_reference.py fails while the record is not what the library offers.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gdm_core

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "docs" / "public_surface.txt"
CHANGES = ROOT / "CHANGELOG.md"


def surface() -> list[str]:
    """A line for each name: function, class, method, property or value of an enumeration."""
    return sorted(line for name in gdm_core.__all__ if name != "__version__" for line in _lines(name))


def _lines(name: str) -> Iterator[str]:
    value = getattr(gdm_core, name)
    if not inspect.isclass(value):
        yield f"{name}{inspect.signature(value)}"
        return
    if issubclass(value, enum.Enum):
        yield from (f"{name}.{member.name} = {member.value!r}" for member in value)
        return
    yield name if issubclass(value, Exception) else f"{name}{inspect.signature(value)}"
    fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
    for part, member in inspect.getmembers_static(value):
        if part.startswith("_") or part in fields or issubclass(value, Exception):
            continue
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        if inspect.isfunction(member):
            yield f"{name}.{part}{inspect.signature(member)}"
        elif isinstance(member, property):
            yield f"{name}.{part}: {inspect.signature(member.fget or part).return_annotation}"  # type: ignore[arg-type]


def changed(recorded: list[str], now: list[str]) -> set[str]:
    """Names in lines that are in one of the two alone: "GDM.fit", "suggest"."""
    return {re.split(r"[(:= ]", line)[0] for line in set(recorded) ^ set(now)}


def unnamed(names: set[str], changes: str) -> list[str]:
    """Those that the newest section of the changelog does not name, by their last part: `fit`, `suggest`."""
    newest = re.split(r"^## ", changes, flags=re.M)[1]
    said: set[str] = set()
    for quoted in re.findall(r"`([^`]+)`", newest):
        said.update(re.findall(r"\w+", quoted))
    return sorted(name for name in names if name.rpartition(".")[2] not in said)


def main() -> int:
    now = surface()
    recorded: list[Any] = RECORD.read_text(encoding="utf-8").splitlines() if RECORD.exists() else now
    if silent := unnamed(changed(recorded, now), CHANGES.read_text(encoding="utf-8")):
        print(f"Say in CHANGELOG.md what changed for users of: {', '.join(silent)}", file=sys.stderr)
        return 1
    RECORD.write_text("\n".join(now) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
