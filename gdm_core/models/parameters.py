"""Configurations of models. Each field defines a constructor parameter with its default, description and allowed values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import wraps
from textwrap import fill
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, get_args

import numpy as np

from gdm_core.errors import ConfigError

Value = TypeVar("Value")
P = ParamSpec("P")
Outliers = Literal["keep", "ignore"]
Repeated = Literal["auto", "keep"]


@dataclass(frozen=True)
class Allowed:
    """A condition on a parameter, and its wording in messages."""

    holds: Callable[[Any], bool]
    expected: str

    def require(self, name: str, value: Any) -> None:
        """Raise ConfigError for a value that is not allowed."""
        if not self.holds(value):
            raise ConfigError(f"{name} is {value!r}; expected {self.expected}.")


def whole(least: int = 1, most: int | None = None) -> Allowed:
    """Allow whole numbers in a range."""

    def holds(value: Any) -> bool:
        counts = isinstance(value, int) and not isinstance(value, bool)
        return counts and value >= least and (most is None or value <= most)

    return Allowed(
        holds, f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"
    )


def number(holds: Callable[[float], bool], expected: str, word: str | None = None) -> Allowed:
    """Allow numbers that meet a condition, or one word."""

    def either(value: Any) -> bool:
        counts = isinstance(value, int | float) and not isinstance(value, bool)
        return holds(float(value)) if counts else word is not None and value == word

    return Allowed(either, expected)


def one_of(choices: Any) -> Allowed:
    """Allow the options of a `Literal`."""
    options = get_args(choices)
    return Allowed(options.__contains__, "one of " + ", ".join(repr(option) for option in options))


def parameter(default: Value, about: str, allowed: Allowed | None = None, symbol: str = "") -> Value:
    """Define a field of a configuration.

    about    description in one sentence
    allowed  condition on values other than the default; None for no condition
    symbol   symbol in formulas
    """
    return field(default=default, metadata={"about": about, "allowed": allowed, "symbol": symbol})


@dataclass(frozen=True)
class Configuration:
    """Checked parameters of a model. NumPy scalars, as in a grid from `np.arange`, become Python numbers for files."""

    def __post_init__(self) -> None:
        for one in fields(self):
            if isinstance(value := getattr(self, one.name), np.generic):
                object.__setattr__(self, one.name, value := value.item())
            allowed, symbol = one.metadata.get("allowed"), one.metadata.get("symbol")
            if allowed is not None and not (value is None and one.default is None):
                allowed.require(f"{one.name} ({symbol})" if symbol else one.name, value)


@dataclass(frozen=True)
class FamilyConfig(Configuration):
    """Parameters of every model of the library."""

    n_states: int = parameter(4, "Number of states (K).", whole(most=64), "K")
    n_latent: int | Literal["auto"] = parameter(
        "auto",
        "Dimensions of the latent path (D): 'auto' takes the number of channels up to 4; of more, components that explain "
        "95% of the variance, 2 to 8.",
        Allowed(lambda d: d == "auto" or whole().holds(d), "'auto' or a whole number of at least 1"),
        "D",
    )
    _: KW_ONLY
    outliers: Outliers = parameter(
        "keep",
        "'ignore' counts isolated values far from their neighbours in time as missing. Scores of the two settings are not "
        "comparable.",
        one_of(Outliers),
    )
    repeats: Repeated = parameter(
        "auto",
        "'auto' leaves repeated values out: rows that repeat regularly are thinned, held values count as missing, and the "
        "noise of channels with few values has a floor.",
        one_of(Repeated),
    )
    seed: int = parameter(0, "Seed of all random numbers.", whole(0))

    @property
    def n_dimensions(self) -> int:
        """Latent dimensions (D) of a fit, which has replaced 'auto'."""
        return vars(self)["n_latent"]


def parameters_of(config: Callable[P, Any]) -> Callable[[Callable[[Any], None]], Callable[Concatenate[Any, P], None]]:
    """Make an `__init__` that stores the fields of a configuration as attributes, as scikit-learn expects.

    Values are checked when the configuration is first used. Type checkers, editors and `inspect.signature` see the
    signature of the configuration.
    """
    wanted = inspect.signature(config).replace(return_annotation=None)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)

    def decorate(init: Callable[[Any], None]) -> Callable[Concatenate[Any, P], None]:
        @wraps(init)
        def __init__(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> None:
            try:
                given = wanted.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{type(self).__name__}() {error}") from None
            given.apply_defaults()
            vars(self).update(given.arguments)

        __init__.__doc__ = described(config)
        __init__.__signature__ = wanted.replace(parameters=[itself, *wanted.parameters.values()])  # type: ignore[attr-defined]
        return __init__

    return decorate


def described(config: Any) -> str:
    """Return the parameters with their descriptions, for a docstring."""
    lines = []
    for one in fields(config):
        text = f"{one.name}   {one.metadata.get('about', '')} Default: {one.default!r}."
        lines.append(fill(text, 116, subsequent_indent=" " * (len(one.name) + 3)))
    return "\n".join(lines)
