"""What the library offers is what is recorded, and nothing of it changes without a word in the changelog."""

from __future__ import annotations

import pytest

from docs.surface import CHANGES, RECORD, changed, surface, unnamed
from gdm_core.deprecation import deprecated
from gdm_core.errors import DataError


def test_the_record_is_what_the_library_offers():
    recorded = RECORD.read_text(encoding="utf-8").splitlines()
    names = changed(recorded, surface())
    silent = unnamed(names, CHANGES.read_text(encoding="utf-8"))
    assert not names, (
        f"The public surface changed in {sorted(names)}. Say so in CHANGELOG.md"
        f"{' (missing: ' + ', '.join(silent) + ')' if silent else ''}, then run: python -m docs.surface"
    )


def test_a_change_is_found_and_has_to_be_named():
    before = ["GDM.fit(self, trials)", "evaluate(model)", "Trial.seconds: float", "Status.CONVERGED = 'converged'"]
    after = ["GDM.fit(self, trials, labels)", "evaluate(model)", "Status.CONVERGED = 'converged'"]
    assert changed(before, after) == {"GDM.fit", "Trial.seconds"}
    log = "# Changes\n\n## 1.1\n- `GDM.fit(labels=...)` takes words.\n\n## 1.0\n- `seconds` of a trial.\n"
    assert unnamed({"GDM.fit", "Trial.seconds"}, log) == ["Trial.seconds"]


def test_what_is_deprecated_works_and_says_what_to_use():
    @deprecated("old.double", since="1.0", use="new.double")
    def double(n: int) -> int:
        """Twice."""
        return 2 * n

    with pytest.warns(DeprecationWarning, match=r"old.double goes \(since 1.0\); use new.double") as told:
        assert double(4) == 8
    assert told[0].filename == __file__
    assert double.__doc__ == "Twice."
    from gdm_core.metrics import evaluate

    with pytest.warns(DeprecationWarning, match=r"use gdm_core\.evaluate"), pytest.raises(DataError):
        evaluate(None, None, None)
