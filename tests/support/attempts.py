"""One forged input after the other, for benchmarks/hostile.py and the part of it that runs inside a page: what became of each."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from gdm_core.errors import GdmError

MESSAGE = (15, 3000)  # letters


@dataclass
class Found:
    """What became of the inputs of one kind."""

    taken: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    failures: list[str] = field(default_factory=list)


def attempt(found: Found, what: str, do: Callable[[], object]) -> None:
    """Count what becomes of one input."""
    began = time.process_time()
    try:
        do()
        found.taken += 1
    except GdmError as error:
        said = str(error)
        if MESSAGE[0] <= len(said) <= MESSAGE[1] and "Traceback" not in said:
            found.refused += 1
        else:
            found.failures.append(f"{what[:300]!r}: a message of {len(said)} letters: {said[:200]!r}")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        where = traceback.extract_tb(error.__traceback__)[-1]
        found.failures.append(
            f"{what[:300]!r}: {type(error).__name__}: {str(error)[:200]} ({where.filename}:{where.lineno})"
        )
    found.slowest_s = max(found.slowest_s, time.process_time() - began)
