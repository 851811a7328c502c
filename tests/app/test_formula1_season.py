"""Teams over sessions, on the page."""

from __future__ import annotations

import pandas as pd
import pytest

from datasets import formula1
from gdm_core import Study
from pages.formula1 import season_panel
from tests.support.formula1_page import arrange, driven_race, visit, words


def test_teams_are_held_against_the_best_of_each_session():
    sheet = pd.DataFrame(
        {
            "team": ["A", "A", "B", "B", "A", "B"],
            "session": ["one"] * 4 + ["two"] * 2,
            "straights (s a lap)": [40.0, 40.2, 40.5, 40.7, 30.0, 29.8],
            "low speed (s a lap)": [20.0, 20.0, 20.4, 20.4, 15.0, 15.0],
            "medium speed (s a lap)": [float("nan")] * 6,
            "high speed (s a lap)": [5.0] * 6,
        }
    )
    table = season_panel.teams_of(sheet).set_index("Team")
    assert list(table.index) == ["A", "B"]
    assert table["Straights"].to_dict() == pytest.approx({"A": (-0.1 + 0.1 + 0.2) / 3, "B": (0.4 + 0.6 + 0.0) / 3})
    assert table["Low speed"].to_dict() == pytest.approx({"A": 0.0, "B": 0.8 / 3})
    assert table["High speed"].to_dict() == {"A": 0.0, "B": 0.0}
    assert "Medium speed" not in table, "no circuit of these has such a corner"


def test_the_tab_has_teams_drivers_and_a_study_that_opens(monkeypatch, tmp_path):
    arrange(monkeypatch, tmp_path, driven_race)
    app = visit(source="real", view="Teams and seasons")
    assert not app.exception
    assert "All drivers by team" in words(app)
    rows = season_panel.study_rows([driven_race()])
    study = Study.from_bytes(season_panel.as_study(rows).to_bytes())
    assert len(study.sheet.names) == 3


def test_a_session_that_cannot_be_had_is_named_and_the_others_stay(monkeypatch, tmp_path):
    arrange(monkeypatch, tmp_path, driven_race)
    other = (2024, "Lost Grand Prix", "Race")
    known = formula1.stored_sessions()
    monkeypatch.setattr(formula1, "stored_sessions", lambda: (*known, other))

    def load(*where, **more):
        if where == other:
            raise formula1.FeedError(formula1.Reason.NO_LAPS, "Lost Grand Prix has no laps.")
        return driven_race()

    monkeypatch.setattr(formula1, "load_session", load)
    app = visit(source="real", view="Teams and seasons")
    box = next(one for one in app.multiselect if one.label == "Sessions")
    box.select("Lost Grand Prix 2024 · Race").run()
    app.run()
    assert not app.exception
    assert "Lost Grand Prix 2024 · Race is left out: Lost Grand Prix has no laps." in words(app)
    assert "All drivers by team" in words(app)
