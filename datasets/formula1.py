"""Formula 1 laps, from FastF1 or simulated, as trials with track segments as labels.

events = formula1.schedule(2025)
session = formula1.load_session(2025, "Chinese Grand Prix", "Race")     # or formula1.simulate_race("shanghai")
train = formula1.to_trials(session, "PIA", preset="paper")
test = formula1.to_trials(session, "VER", preset="paper")
"""

from __future__ import annotations

from .f1.clock import LapClock, SectorLines, lap_clock, sector_lines
from .f1.laps import PARTS, Stint, laps_on_like_tyres, laps_where, stints
from .f1.loader import Event, SessionSlot, is_stored, load_session, schedule, stored_sessions, years
from .f1.race import simulate_race
from .f1.session import CHANNELS, UNITS, Corner, Driver, FeedError, LapTable, Reason, Session
from .f1.time_won import LapTrend, TimeWon, lap_trend, time_won
from .f1.trials import DROPS, STEP_S, chosen_laps, lap_distance, paper_emission, segment_names, segment_of, to_trials

__all__ = [
    "CHANNELS", "DROPS", "PARTS", "STEP_S", "UNITS", "Corner", "Driver", "Event", "FeedError", "LapClock",
    "LapTable", "LapTrend", "Reason", "SectorLines", "Session", "SessionSlot", "Stint", "TimeWon",
    "chosen_laps", "is_stored", "lap_clock", "lap_distance", "lap_trend", "laps_on_like_tyres",
    "laps_where", "load_session", "paper_emission", "schedule", "sector_lines", "segment_names", "segment_of",
    "simulate_race", "stints", "stored_sessions", "time_won", "to_trials", "years",
]  # fmt: skip
