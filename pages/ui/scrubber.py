"""A slider over the training steps of a fit, whose states the browser draws."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pages.ui.component import component

KEY = "replay"  # of its events, and of the cursor over the ELBO curve


@dataclass(frozen=True)
class Scrubber:
    """Training steps of a fit.

    fit    name of the finished fit; "" while one runs
    at     step of the latest snapshot
    total  last step of the fit; 0 if there is no snapshot
    """

    fit: str = ""
    at: int = 0
    total: int = 0
    key: str = f"slider-{KEY}"

    def message(self) -> dict[str, Any]:
        return asdict(self) | {"options": {"key": self.key}}

    def same(self, other: Any) -> bool:
        return self == other

    def draw(self) -> None:
        """Draw it, or update the scrubber of this key."""
        component("scrubber")(key=self.key, data=self.message(), height="content")
