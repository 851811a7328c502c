"""Small hand-made Formula 1 sessions, in our format and in that of FastF1."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fastf1.events import EventSchedule

from datasets.f1.session import Corner, Driver, FeedError, LapTable, Reason, Session

RADIUS = 200.0
LAP_S = 40.0


def ring(turn: np.ndarray) -> np.ndarray:
    """Return positions [T, 2] on a circle, clockwise from the top; `turn` counts laps."""
    angle = np.pi / 2 - 2 * np.pi * np.asarray(turn)
    return RADIUS * np.column_stack([np.cos(angle), np.sin(angle)])


def ring_driver(
    code: str = "AAA", n_laps: int = 4, step: float = 0.25, holes: tuple[tuple[float, float], ...] = ()
) -> Driver:
    """Return a driver at constant speed, without samples in the holes (start, stop in seconds)."""
    time = 100.0 + np.arange(step / 2, n_laps * LAP_S, step)
    for start, stop in holes:
        time = time[(time <= 100 + start) | (time >= 100 + stop)]
    turn = (time - 100) / LAP_S
    number = np.arange(1, n_laps + 1)
    start = 100.0 + LAP_S * (number - 1)
    no = np.zeros(n_laps, dtype=bool)
    return Driver(
        code=code,
        number=str(sum(map(ord, code))),
        name=f"Driver {code}",
        team="",
        colour="",
        time=time,
        position=ring(turn).astype(np.float32),
        lap=np.floor(turn).astype(np.int64) + 1,
        channels={
            "speed": np.full(time.size, 113.0, np.float32),
            "gear": (np.floor(turn * 4) % 4 + 2).astype(np.float32),
        },
        laps=LapTable(
            number=number,
            start=start,
            end=start + LAP_S,
            seconds=np.full(n_laps, LAP_S),
            sectors=np.tile(np.array([0.25, 0.35, 0.4]) * LAP_S, (n_laps, 1)),
            pit_in=no.copy(),
            pit_out=no.copy(),
            neutralised=no.copy(),
            accurate=number > 1,
            compound=("SOFT",) * n_laps,
            stint=np.ones(n_laps, np.int64),
            tyre_age=number.astype(np.float64),
            part=np.zeros(n_laps, np.int64),
            deleted=no.copy(),
            speed_trap=np.full(n_laps, np.nan),
        ),
    )


def ring_corners(turns: tuple[float, ...] = (0.125, 0.375, 0.625, 0.875)) -> tuple[Corner, ...]:
    length = 2 * np.pi * RADIUS
    return tuple(
        Corner(i + 1, "", *map(float, place), float(turn * length), 0.0)
        for i, (turn, place) in enumerate(zip(turns, ring(np.array(turns)), strict=True))
    )


def ring_session(*drivers: Driver, corners: tuple[Corner, ...] | None = None) -> Session:
    return Session(
        year=2031,
        event="Ring Grand Prix",
        name="Race",
        circuit="Ring",
        rotation=0.0,
        corners=ring_corners() if corners is None else corners,
        drivers=drivers or (ring_driver(),),
    )


SPRINT = ("Practice 1", "Sprint Qualifying", "Sprint", "Qualifying", "Race")
NORMAL = ("Practice 1", "Practice 2", "Practice 3", "Qualifying", "Race")


def feed_schedule(year: int = 2024) -> EventSchedule:
    """Return a FastF1 calendar of two weekends, the second with a sprint."""
    rows: dict[str, list[Any]] = {
        "RoundNumber": [1, 2],
        "Country": ["Ringland", "Ringland"],
        "Location": ["Ringtown", "Ovalbury"],
        "EventName": ["Ring Grand Prix", "Oval Grand Prix"],
        "OfficialEventName": ["", ""],
        "EventDate": [pd.Timestamp(f"{year}-03-10"), pd.Timestamp(f"{year}-03-17")],
        "EventFormat": ["conventional", "sprint_qualifying"],
        "F1ApiSupport": [True, True],
    }
    for i in range(5):
        rows[f"Session{i + 1}"] = [NORMAL[i], SPRINT[i]]
        rows[f"Session{i + 1}DateUtc"] = [pd.Timestamp(f"{year}-03-{day}T0{i}:00") for day in (10, 17)]
    return EventSchedule(pd.DataFrame(rows), year=year, _force_default_cols=True)


class FeedSession(SimpleNamespace):
    """The parts of a loaded FastF1 session that the loader reads."""

    def load(self, **wanted: Any) -> None:
        assert wanted == {"laps": True, "telemetry": True, "weather": True, "messages": True}


class RaceLaps(pd.DataFrame):
    """Laps of a session without parts."""

    def split_qualifying_sessions(self) -> None:
        raise ValueError("Session is not a qualifying session!")


def feed_session(n_laps: int = 3, **changes: Any) -> FeedSession:
    """Return a FastF1 session of two drivers on the ring."""
    laps, positions, cars, results = [], {}, {}, []
    for number, code in (("1", "AAA"), ("2", "BBB")):
        driver = ring_driver(code, n_laps)
        laps.append(feed_laps(number, n_laps))
        positions[number] = pd.DataFrame(
            {
                "SessionTime": pd.to_timedelta(driver.time, unit="s"),
                "X": np.round(driver.position[:, 0] * 10),
                "Y": np.round(driver.position[:, 1] * 10),
            }
        )
        cars[number] = feed_car(np.arange(99.9, 100 + LAP_S * n_laps, 0.3))
        results.append(
            {"DriverNumber": number, "Abbreviation": code, "FullName": f"Driver {code}", "TeamColor": "ff0000"}
            | {"ClassifiedPosition": number}
        )
    parts: dict[str, Any] = {
        "name": "Race",
        "event": {"EventName": "Ring Grand Prix", "Location": "Ringtown"},
        "api_path": "/static/2024/ring/race/",
        "session_info": {"Meeting": {"Circuit": {"Key": 7, "ShortName": "Ring"}}},
        "laps": RaceLaps(pd.concat(laps, ignore_index=True)),
        "pos_data": positions,
        "car_data": cars,
        "results": pd.DataFrame(results, index=["1", "2"]),
        "weather_data": None,
        "track_status": None,
    }
    return FeedSession(**(parts | changes))


SECTORS = tuple(enumerate((0.25, 0.35, 0.4)))


def feed_laps(number: str, n_laps: int) -> pd.DataFrame:
    start = 100.0 + LAP_S * np.arange(n_laps)
    return pd.DataFrame(
        {
            "DriverNumber": number,
            "LapNumber": np.arange(1.0, n_laps + 1),
            "LapStartTime": pd.to_timedelta(start, unit="s"),
            "Time": pd.to_timedelta(start + LAP_S, unit="s"),
            "LapTime": pd.to_timedelta(np.full(n_laps, LAP_S), unit="s"),
            **{f"Sector{i + 1}Time": pd.to_timedelta(np.full(n_laps, share * LAP_S), unit="s") for i, share in SECTORS},
            "PitInTime": pd.to_timedelta(np.full(n_laps, np.nan), unit="s"),
            "PitOutTime": pd.to_timedelta(np.full(n_laps, np.nan), unit="s"),
            "TrackStatus": "1",
            "IsAccurate": True,
            "Compound": "HARD",
            "Stint": 1.0,
            "TyreLife": np.arange(4.0, n_laps + 4),
        }
    )


def feed_car(time: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "SessionTime": pd.to_timedelta(time, unit="s"),
            "Speed": time,
            "Throttle": 50.0,
            "Brake": False,
            "nGear": 4,
            "RPM": 9000.0,
        }
    )


def feed_corners(letters: tuple[str, ...] = ("", "", "", "")) -> Any:
    """Return the corners of the ring; a letter marks a repeated number."""
    number = np.cumsum([letter == "" for letter in letters])
    place = ring(np.array([0.125, 0.375, 0.625, 0.875])[: len(letters)]) * 10
    table = pd.DataFrame(
        {"X": place[:, 0], "Y": place[:, 1], "Number": number, "Letter": letters, "Angle": 0.0, "Distance": np.nan}
    )
    return SimpleNamespace(corners=table, rotation=90.0)


def raises(reason: Reason, *words: str) -> pytest.RaisesExc[FeedError]:
    """Expect a FeedError with this reason and these words."""

    def matches(error: FeedError) -> bool:
        return error.reason is reason and all(word in str(error) for word in words)

    return pytest.raises(FeedError, check=matches)


def cut_off(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Use a temporary data folder, no account and no network."""
    monkeypatch.setenv("GDM_DATA_DIR", str(folder))
    for name in ("F1_USERNAME", "F1_PASSWORD", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
