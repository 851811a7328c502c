"""What the user selects: session, drivers, laps and channels. No part of it needs Streamlit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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

    about   in words
    where   arguments of `laps_where`; {} for all laps, racing laps and a range
    span    first and last lap of a range
    drop    kinds of laps that `to_trials` drops
    """

    about: str
    where: Mapping[str, Any] = field(default_factory=dict)
    span: tuple[int, int] | None = None
    drop: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> WhichLaps:
        """Parse "all", "racing", "quick", "first-last", "stint=2", "compound=HARD", "age=5-15" or "part=Q1"."""
        kind, equals, value = text.partition("=")
        if kind == "age" or (not equals and "-" in text):
            first, last = map(int, (value or text).split("-"))
            if equals:
                return cls(f"laps on {first} to {last}-lap-old tyres", {"tyre_age": (first, last)})
            return cls(f"laps {first} to {last}", span=(first, last))
        part = {} if value in ("", "all") else {"part": value}
        ways = {
            "all": cls("all laps"),
            "racing": cls("racing laps", drop=RACING),
            "stint": cls(f"stint {value}", {"stint": int(value or 0)} if kind == "stint" else {}),
            "compound": cls(f"laps on {value.lower()} tyres", {"compound": value}),
            "quick": cls("fast laps", {"quick": True}),
            "part": cls(f"fast laps of {'qualifying' if value == 'all' else value}", part | {"quick": True}),
        }
        return ways[kind]


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
        return found | ({"drop": self.which.drop} if self.which.drop else {})

    def options(self, session: Session, code: str) -> dict[str, object]:
        found, which = self.same_for_all, self.which
        if which.where:
            found["laps"] = laps_where(session, code, **which.where)
        elif which.span is not None:
            (first, last), numbers = which.span, session.driver(code).laps.number.tolist()
            found["laps"] = tuple(n for n in numbers if first <= n <= last)
            if not found["laps"]:
                raise DataError(f"{code} drove no lap from {first} to {last}; choose laps up to {max(numbers)}.")
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
        which = self.selection.which
        given = [f"{name}={value!r}" for name, value in self.selection.same_for_all.items()]
        if which.span is not None:
            given.append(f"laps=range({which.span[0]}, {which.span[1] + 1})")
        where = ", ".join(f"{name}={value!r}" for name, value in which.where.items())

        def trials(name: str, code: str) -> str:
            laps = [f"laps=formula1.laps_where(session, {code!r}, {where})"] if where else []
            return f"{name} = formula1.to_trials(session, {code!r}, {', '.join([*given, *laps])})"

        return [self.place.call, trials("train", self.train), trials("test", self.test)]
