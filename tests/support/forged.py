"""Random malicious text, JSON values and slider messages for tests of pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

Rng = np.random.Generator
T = TypeVar("T")
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"
FORMULA = '=HYPERLINK("http://example.org","click")'
LONG = 100_000
WORDS = (
    "", " ", "0", "-1", "1e308", "-1e309", "1e-400", "nan", "NaN", "inf", "-inf", "Infinity", "None", "null", "true", "[]", "{}",
    "0x10", "1_000", "1,5", "1.5.5", "+-3", "²", "½", "٣", "Ⅷ", "１２", "१-३", "1-²", "²-³", "-", "--", "1-2-3", "9-1", "0-0",
    "1-1", "1-99999999999999999999", "a-b", "~", "~~~", "x~1~a", "\x00", "a\x00b", "\ud83d\ude00".encode("utf-16", "surrogatepass")
    .decode("utf-16"), "\u202egnp.exe", "\ufeff3", "a\nb", "%00", "%s%n", "{0}", "${7*7}", "../../etc/passwd", "/etc/passwd",
    "C:\\boot.ini", "file:///etc/passwd", MARKUP, FORMULA, "+1+1", "@SUM(1)", "$x^2$", ":material/home:", "**bold**",
    "[a](javascript:b)", "9" * LONG, "A" * LONG, "1-" * (LONG // 2), "[" * LONG, "9" * 400, "9" * 5000, "1e" + "9" * 400,
)  # fmt: skip


def one_of(rng: Rng, things: Sequence[T]) -> T:
    return things[int(rng.integers(len(things)))]


def text(rng: Rng) -> str:
    """Return text for a query parameter."""
    kind = rng.integers(6)
    if kind < 3:
        return one_of(rng, WORDS)
    if kind == 3:
        return repr(float(rng.normal() * 10.0 ** rng.integers(-320, 308)))
    if kind == 4:
        return str(int(rng.integers(-(2**62), 2**62)))
    return "".join(chr(int(code)) for code in rng.integers(1, 0x2FFF, int(rng.integers(1, 60))))


def value(rng: Rng, depth: int = 2) -> Any:
    """Return a JSON value of any type."""
    kind = int(rng.integers(9 if depth else 7))
    if kind == 7:
        return [value(rng, depth - 1) for _ in range(int(rng.integers(4)))]
    if kind == 8:
        return {text(rng)[:20]: value(rng, depth - 1) for _ in range(int(rng.integers(4)))}
    simple = (None, True, False, 10**400, float("nan"), float("inf"), -1, 0, 2**63, -(2**63), 1e308, -0.0)
    return text(rng) if kind < 3 else one_of(rng, simple)


def message(rng: Rng) -> Any:
    """Return the message of a slider with some fields wrong or missing."""
    if rng.random() < 0.3:
        return value(rng)
    good: dict[str, Any] = {
        "value": float(rng.normal(0, 10)),
        "held": bool(rng.integers(2)),
        "number": int(rng.integers(99)),
    }
    for name in rng.choice(list(good), int(rng.integers(1, 4)), replace=False):
        if rng.random() < 0.2:
            del good[name]
        else:
            good[name] = value(rng)
    return good
