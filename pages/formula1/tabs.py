"""Tabs of the page: Compare, Corners, Laps, States, Field and Export."""

from __future__ import annotations

from typing import Any

import streamlit as st

from datasets.f1.laps import is_race
from pages.formula1 import compare, corner_panel, field, history, tyres, weekend
from pages.formula1.data import Race
from pages.ui import controls, settings

COMPARE, CORNERS, LAPS, STATES, FIELD, EXPORT = NAMES = ("Compare", "Corners", "Laps", "States", "Field", "Export")
FITTED = (STATES, EXPORT)  # tabs with a fit, and controls of its model
OF_A_FIT = ("K", "K-map", "tau", "watch", "who")  # links of earlier versions have these without a tab


def choose() -> tuple[str, Any]:
    """Show the tabs; return the name and the container of the open one."""
    first_run = settings.widget_key("view") not in st.session_state
    if first_run and settings.text("view") is None and any(name in st.query_params for name in OF_A_FIT):
        settings.keep("view", STATES)
    places = controls.tabs(NAMES)
    return next(((name, place) for name, place in places if place.open), places[0])


def show(name: str, race: Race) -> None:
    """Show an open tab that needs no fit."""
    {COMPARE: compare.tab, CORNERS: show_corners, LAPS: show_laps, FIELD: show_field}[name](race)


def show_corners(race: Race) -> None:
    corner_panel.tab(race)
    corner_panel.show_pedals(race)


def show_laps(race: Race) -> None:
    """Show pace, long runs and strategy; without a race, the improvement through the session."""
    if is_race(race.session):
        history.panel(race)
    else:
        weekend.show_improvement(race)
    tyres.tab(race)


def show_field(race: Race) -> None:
    """Show the fastest driver per minisector, and the lap times of all drivers."""
    field.panel(race)
    if not is_race(race.session):
        weekend.show_best_laps(race)
    field.show_lap_times(race)
