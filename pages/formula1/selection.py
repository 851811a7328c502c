"""What the user selects: session, drivers, laps and channels. No part of it needs Streamlit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from datasets.f1.laps import laps_where
from datasets.formula1 import Session
from gdm_core.errors import DataError

CAR_CHANNELS = ("speed", "throttle", "brake", "gear")
RACING = ("first", "pit", "safety_car")


@dataclass(frozen=True)
class Place:
    """A simulated circuit, or year, event and name of a real session."""

    circuit: str = ""
    year: int = 0
    event: str = ""
    name: str = ""

    @property
    def simulated(self) -> bool:
        return bool(self.circuit)

    @property
    def call(self) -> str:
        """Line of Python that opens the session."""
        if self.simulated:
            return f"session = formula1.simulate_race({self.circuit!r})"
        return f"session = formula1.load_session({self.year}, {self.event!r}, {self.name!r})"


@dataclass(frozen=True)
class WhichLaps:
    """Selection of a driver's laps.

    kind    "all", "racing", "quick", "range", "stint", "compound", "age" or "part" (of qualifying)
    value   stint, compound or part
    first   and last lap or tyre age
    """

    kind: str = "all"
    value: str = ""
    first: int = 0
    last: int = 0

    @classmethod
    def parse(cls, text: str) -> WhichLaps:
        """Parse "all", "racing", "first-last", "stint=2", "compound=HARD", "age=5-15" or "part=Q1"."""
        kind, equals, value = text.partition("=")
        if kind == "age" or (not equals and "-" in text):
            first, _, last = (value or text).partition("-")
            return cls(kind if equals else "range", first=int(first), last=int(last))
        return cls(kind, value)

    @property
    def where(self) -> dict[str, Any]:
        """Arguments of `laps_where`; {} for other selections."""
        if self.kind in ("part", "quick"):
            return ({} if self.value in ("", "all") else {"part": self.value}) | {"quick": True}
        known = {"stint": "stint", "compound": "compound", "age": "tyre_age"}
        value = int(self.value) if self.kind == "stint" else self.value or (self.first, self.last)
        return {known[self.kind]: value} if self.kind in known else {}

    @property
    def about(self) -> str:
        span = f"{self.first} to {self.last}"
        known = {
            "all": "all laps",
            "racing": "racing laps",
            "range": f"laps {span}",
            "stint": f"stint {self.value}",
            "compound": f"laps on {self.value.lower()} tyres",
            "age": f"laps on {span}-lap-old tyres",
            "quick": "fast laps",
            "part": f"fast laps of {'qualifying' if self.value == 'all' else self.value}",
        }
        return known[self.kind]


@dataclass(frozen=True)
class Selection:
    """Laps and channels that become observations.

    laps      selection, parsed by `WhichLaps.parse`
    channels  observed channels; () for ten random mixtures of X and Y, as in the paper
    """

    laps: str = "all"
    channels: tuple[str, ...] = ()

    @property
    def drives(self) -> bool:
        """True if only car telemetry is observed; states are then scored against activities."""
        return bool(self.channels) and not {"X", "Y"} & set(self.channels)

    @property
    def which(self) -> WhichLaps:
        return WhichLaps.parse(self.laps)

    @property
    def same_for_all(self) -> dict[str, object]:
        """Arguments of `to_trials` shared by all drivers."""
        found: dict[str, object] = {"channels": self.channels} if self.channels else {"preset": "paper"}
        if self.drives:
            found["labels"] = "activities"
        return found | ({"drop": RACING} if self.which.kind == "racing" else {})

    def options(self, session: Session, code: str) -> dict[str, object]:
        found, which = self.same_for_all, self.which
        if which.where:
            found["laps"] = laps_where(session, code, **which.where)
        elif which.kind == "range":
            numbers = session.driver(code).laps.number.tolist()
            found["laps"] = tuple(n for n in numbers if which.first <= n <= which.last)
            if not found["laps"]:
                raise DataError(
                    f"{code} drove no lap from {which.first} to {which.last}; choose laps up to {max(numbers)}."
                )
        return found


@dataclass(frozen=True)
class Pick:
    """Selected session, drivers and laps."""

    place: Place
    train: str
    test: str
    selection: Selection

    @property
    def about(self) -> str:
        return f"fitted on {self.train}, applied to {self.test} · {self.selection.which.about}"

    @property
    def calls(self) -> list[str]:
        """Lines of Python that create the trials."""
        given, which = (
            [f"{name}={value!r}" for name, value in self.selection.same_for_all.items()],
            self.selection.which,
        )
        if which.kind == "range":
            given.append(f"laps=range({which.first}, {which.last + 1})")
        where = ", ".join(f"{name}={value!r}" for name, value in which.where.items())

        def trials(name: str, code: str) -> str:
            laps = [f"laps=formula1.laps_where(session, {code!r}, {where})"] if where else []
            return f"{name} = formula1.to_trials(session, {code!r}, {', '.join([*given, *laps])})"

        return [self.place.call, trials("train", self.train), trials("test", self.test)]
