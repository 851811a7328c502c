"""The engine that tests of pages use is asked as the real one is: the same methods, the same parameters, the same defaults."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from gdm_core.engine import Engine, ResultCache
from tests.support.live_engine import Kept, QuickEngine


def methods(kind: type) -> list[str]:
    return [name for name, member in vars(kind).items() if inspect.isfunction(member) and not name.startswith("_")]


def asked(kind: type, name: str) -> dict[str, tuple[Any, Any]]:
    """Name, kind and default of each parameter."""
    return {p.name: (p.kind, p.default) for p in inspect.signature(getattr(kind, name)).parameters.values()}


@pytest.mark.parametrize(("real", "double"), [(Engine, QuickEngine), (ResultCache, Kept)])
def test_the_double_takes_what_the_real_one_takes(real, double):
    shared = [name for name in methods(double) if hasattr(real, name)]
    assert shared
    for name in shared:
        theirs, ours = asked(real, name), asked(double, name)
        assert ours.items() <= theirs.items(), name
        left_out = [theirs[parameter] for parameter in theirs.keys() - ours.keys()]
        assert all(default is not inspect.Parameter.empty for _, default in left_out), name


def test_what_the_double_has_of_its_own_is_for_tests_alone():
    """A page that called these would work in tests and fail in the browser."""
    assert {name for name in methods(QuickEngine) if not hasattr(Engine, name)} == {
        "waiting",
        "run",
        "run_all",
        "report",
    }
