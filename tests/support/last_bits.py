"""Simulations as on a different processor: every float differs in its last bit."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from datasets import mice, nascar, regimes
from datasets.f1 import race
from datasets.f1 import trials as laps
from datasets.readers import pose
from gdm_core.trials import with_recipe

SIMULATORS = (nascar, regimes, mice, race, pose, laps)  # modules that name recipes


def every_optional_feature() -> list[str]:
    """Return the optional processor features that NumPy uses."""
    return list(np.show_config("dicts")["SIMD Extensions"].get("found", []))  # type: ignore[index,call-overload]


def nudge(value: Any) -> Any:
    """Return `value` with every float moved by one step, up and down in turn."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        up = np.arange(value.size).reshape(value.shape) // value[:1].size % 2 == 0  # [T, ...] by samples
        return np.nextafter(value, np.where(up, np.inf, -np.inf).astype(value.dtype))
    if isinstance(value, tuple):
        return tuple(nudge(part) for part in value)
    if isinstance(value, Mapping):
        return MappingProxyType({name: nudge(part) for name, part in value.items()})
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: nudge(getattr(value, one.name)) for one in fields(value) if one.init})
    return value


@contextmanager
def other_last_bits() -> Iterator[list[str]]:
    """Make simulators round differently; yield the list of recipes used."""
    changed = []

    def nudge_and_record(recipe: str, made: Any) -> Any:
        changed.append(recipe)
        return with_recipe(recipe, nudge(made))

    with pytest.MonkeyPatch.context() as patch:
        for module in SIMULATORS:
            patch.setattr(module, "with_recipe", nudge_and_record)
        yield changed
