"""Race weekends of a season."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SessionSlot:
    """Scheduled session.

    name        such as "Sprint Qualifying"
    start_utc   start time in ISO 8601; "" if unknown
    """

    name: str
    start_utc: str


@dataclass(frozen=True)
class Event:
    """Race weekend.

    year, round, name   season, number in the season and name
    country, location   country and town
    date                last day, in ISO 8601; "" if unknown
    sessions            scheduled sessions
    """

    year: int
    round: int
    name: str
    country: str
    location: str
    date: str
    sessions: tuple[SessionSlot, ...]
