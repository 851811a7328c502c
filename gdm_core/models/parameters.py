"""Parameters once: the fields of a model's configuration are the signature of its constructor, and their one sentence
each is its documentation. Checks of them name the field, the value and the range."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from functools import wraps
from textwrap import fill
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

import numpy as np

from gdm_core.errors import ConfigError

Value = TypeVar("Value")
P = ParamSpec("P")


def parameter(default: Value, about: str) -> Value:
    """A field of a configuration: its default, and what it means in one sentence."""
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True)
class Configuration:
    """Parameters of a model. Numbers of NumPy, as `np.arange` gives them, become Python's, which files can hold."""

    def __post_init__(self) -> None:
        for one in fields(self):
            if isinstance(value := getattr(self, one.name), np.generic):
                object.__setattr__(self, one.name, value.item())


def parameters_of(
    config: Callable[P, Any],
) -> Callable[[Callable[[Any, Any], None]], Callable[Concatenate[Any, P], None]]:
    """Turns an `__init__` that takes a configuration into one that takes its fields.

    The signature is the configuration's own, for type checkers and editors as for `inspect.signature`.
    """
    wanted = inspect.signature(config).replace(return_annotation=None)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)

    def decorate(init: Callable[[Any, Any], None]) -> Callable[Concatenate[Any, P], None]:
        @wraps(init)
        def __init__(self: Any, *args: P.args, **kwargs: P.kwargs) -> None:
            try:
                wanted.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{type(self).__name__}() {error}") from None
            init(self, config(*args, **kwargs))

        __init__.__doc__ = described(config)
        __init__.__signature__ = wanted.replace(parameters=[itself, *wanted.parameters.values()])  # type: ignore[attr-defined]
        return __init__

    return decorate


def described(config: Any) -> str:
    """A list of parameters for a docstring, each beside what it means."""
    lines = []
    for one in fields(config):
        assert one.default is not MISSING
        text = f"{one.name}   {one.metadata['about']} Default: {one.default!r}."
        lines.append(fill(text, 116, subsequent_indent=" " * (len(one.name) + 3)))
    return "\n".join(lines)


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
