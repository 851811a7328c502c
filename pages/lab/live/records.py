"""What a page remembers beside its fit: typed records, each of which belongs to the module that defines its type."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


class Records:
    """The last record of each type, or of each type and name. Nobody who lacks the type can read or change one."""

    def __init__(self) -> None:
        self._last: dict[tuple[type, str], Any] = {}

    def keep(self, record: T, name: str = "") -> T:
        """Remember `record` in place of the last one like it; gives it back."""
        self._last[type(record), name] = record
        return record

    def last(self, kind: type[T], name: str = "") -> T | None:
        """The last record of that type."""
        found: T | None = self._last.get((kind, name))
        return found
