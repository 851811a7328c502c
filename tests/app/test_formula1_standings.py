"""All drivers in one table."""

from __future__ import annotations

import numpy as np
import pytest

from pages.formula1 import standings
from tests.support.formula1 import ring_driver, ring_session
from tests.support.formula1_page import PAPER, arrange, visit


@pytest.fixture
def feed(monkeypatch, tmp_path):
    return arrange(monkeypatch, tmp_path)


def test_drivers_stand_by_their_best_lap_with_gap_and_use_of_states():
    from dataclasses import replace

    def timed(code, *seconds):
        driver = ring_driver(code, n_laps=len(seconds))
        return replace(
            driver, laps=replace(driver.laps, seconds=np.array(seconds), accurate=np.arange(len(seconds)) > 0)
        )

    session = ring_session(
        timed("AAA", 90.0, 82.5, 83.5), timed("BBB", 81.25, 84.0, 85.0), timed("CCC", np.nan, np.nan, np.nan)
    )
    table = standings.rows_of(session, {"BBB": np.array([0.25, 0.75])}, ["S1", "S2"])
    assert table["Driver"].tolist() == ["BBB", "AAA", "CCC"]
    np.testing.assert_allclose(table["Gap"][:2], [0, 1.25])
    assert table["On lap"][:2].tolist() == [1, 2]
    np.testing.assert_allclose(table["Mean of clean laps"][:2], [84.5, 83.0])
    np.testing.assert_allclose(table.loc[0, ["S1", "S2"]].to_numpy(float), [25, 75])
    assert np.isnan(table.loc[1:, ["S1", "S2"]].to_numpy(float)).all()
    assert np.isnan(table["Best lap"][2])
    assert (standings._gap(0.0), standings._gap(0.3), standings._gap(np.nan)) == ("leads", "+0.300", "–")


def test_use_is_the_drivers_own_mean_over_the_lap_in_the_order_of_colours():
    profiles = np.full((2, 2, 2, 3, 2), np.nan, np.float32)
    profiles[0, 0, :, :2] = [0.2, 0.8]
    profiles[0, 1] = 0.5  # the first driver's, on the same laps
    found = standings.usage_of(["AAA", "BBB"], profiles, (1, 0))
    assert set(found) == {"AAA"}
    np.testing.assert_allclose(found["AAA"], [0.8, 0.2], rtol=1e-6)


def test_the_table_is_there_at_once_and_has_states_once_the_model_is_applied(feed):
    app = visit(source="real", view="All twenty drivers", **PAPER)
    assert not app.exception
    assert "Best lap" in app.dataframe[-1].value
    assert not any(name.startswith("S1") for name in app.dataframe[-1].value)
    app.button(key="f1-apply").click().run()
    app.run()
    assert not app.exception
    table = app.dataframe[-1].value
    shares = table[[name for name in table if name.startswith("S")]].to_numpy(float)
    np.testing.assert_allclose(shares.sum(axis=1), 100, atol=0.5)
