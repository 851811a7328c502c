"""Checks of parameters, with messages that name the field, the value and the range."""

from __future__ import annotations

from typing import Any, get_args

from gdm_core.errors import ConfigError


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def require(condition: bool, name: str, value: Any, expected: str) -> None:
    """Refuse a parameter."""
    if not condition:
        raise ConfigError(f"{name} is {value!r}; expected {expected}.")


def require_count(name: str, value: Any, low: int = 1, high: int | None = None) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    expected = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"
    require(whole and value >= low and (high is None or value <= high), name, value, expected)


def require_choice(name: str, value: Any, choices: Any) -> None:
    options = get_args(choices)
    require(value in options, name, value, "one of " + ", ".join(repr(option) for option in options))
