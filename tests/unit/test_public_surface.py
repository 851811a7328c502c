"""The recorded public surface is what the library offers."""

from __future__ import annotations

from docs.surface import CHANGES, RECORD, changed, surface, unnamed


def test_recorded_surface_is_current():
    names = changed(RECORD.read_text(encoding="utf-8").splitlines(), surface())
    missing = unnamed(names, CHANGES.read_text(encoding="utf-8"))
    assert not names, f"{sorted(names)} changed. Add {missing} to CHANGELOG.md, then run: python -m docs.surface"
