"""Numbers behind the Formula 1 page: segments, map, laps, sweeps, drivers and the script."""

from dataclasses import replace

import numpy as np
import pytest

from datasets import formula1
from datasets.f1 import loader
from datasets.formula1 import lap_clock
from gdm_core.analysis.segments import composition
from gdm_core.errors import DataError
from gdm_studio.plot.figures.base import untyped
from pages.formula1 import circuit_map, data, field, laps, scores, sessions, tables
from pages.formula1.circuit import Circuit, open_circuit
from pages.formula1.selection import Pick, Selection
from pages.formula1.telemetry import trace
from tests.support.formula1 import LAP_S, ring_driver, ring_session
from tests.support.formula1_page import RING, ring_race

pytestmark = pytest.mark.usefixtures("feed")


def _laps(code: str = "AAA", selection: Selection | None = None) -> tuple[Circuit, data.Laps]:
    load = sessions.request_session(RING)
    assert load.wait(10)
    return open_circuit(load.value), data.laps_of(load.value, code, selection or Selection())


def test_presence_and_weight_follow_the_paper():
    states = np.array([[0.99, 0.01, 0.0], [0.6, 0.4, 0.0], [0.985, 0.015, 0.0], [0.0, 0.1, 0.9]])
    first, second = composition(states, [0, 0, 0, 1], 2, weight=0.01, presence=0.5, complementary=0.05)
    assert [(part.state, part.main) for part in first] == [(0, True), (1, True)]
    assert first[1].presence == pytest.approx(2 / 3), "a share of exactly 1 % does not count"
    assert first[1].weight == pytest.approx((0.01 + 0.4 + 0.015) / 3)
    assert [part.state for part in second] == [2, 1], "for equal presence, the larger weight comes first"
    (strict,) = composition(states[:3], [0, 0, 0], 1, presence=0.9)
    assert [(part.state, part.main) for part in strict] == [(0, True), (1, False)], "the rest is complementary"
    with pytest.raises(DataError, match="4 states but 1"):
        composition(states, [0], 1)


def test_map_holds_every_sample_once(monkeypatch):
    circuit, laps = _laps()
    states = np.eye(4, dtype=np.float32)[laps.segment]
    monkeypatch.setattr(circuit_map, "DOTS_ABOVE", 100)
    figure = circuit_map.circuit_map(circuit, laps, states)
    dots = figure["data"][1:]
    assert sum(len(untyped(trace["x"])) for trace in dots) == len(laps.lap)
    tips = np.concatenate([untyped(trace["customdata"]) for trace in dots])
    places = np.concatenate([np.column_stack([untyped(t["x"]), untyped(t["y"])]) for t in dots])
    # The station that a hover points at is that of the sample.
    stations = np.column_stack([untyped(figure["cursor"]["x"]), untyped(figure["cursor"]["y"])])
    assert np.linalg.norm(stations[tips[:, 0]] - places, axis=1).max() < circuit.length / circuit_map.STATIONS
    np.testing.assert_array_equal(tips[:, 2].astype(int) * 10 + tips[:, 3], 113)
    np.testing.assert_array_equal(tips[:, 5], tips[:, 4], "the state of a corner's segment, by construction")


def test_map_of_a_race_is_smaller_than_its_limit():
    import json

    session = sessions.simulated("shanghai")
    circuit, laps = open_circuit(session), data.laps_of(session, "FLT", Selection())
    states = np.random.default_rng(0).dirichlet(np.full(8, 0.15), len(laps.lap)).astype(np.float32)
    figure = circuit_map.circuit_map(circuit, laps, states)
    assert len(laps.lap) > 20_000
    assert len(json.dumps(figure)) < 700_000


def test_average_lap_is_the_mean_at_each_position():
    distance = np.array([5.0, 5.0, 15.0, 95.0])
    mean = data.along_lap(distance, np.array([[1.0], [3.0], [5.0], [7.0]]), 10, 100.0)
    assert mean[0, 0] == 2.0
    assert mean[1, 0] == 5.0
    assert 5.0 < mean[4, 0] < 7.0, "an empty bin is interpolated"


def test_lap_at_constant_speed_has_a_linear_clock():
    circuit, _ = _laps()
    one = lap_clock(ring_race(), "AAA", 2)
    assert one is not None
    share = np.linspace(0, 1, 50)
    np.testing.assert_allclose(one.seconds_at(share), LAP_S * share, atol=0.05)
    assert trace(circuit, ring_race(), "AAA", [99], "AAA lap 99") is None


def test_lap_times_are_formatted():
    assert tables.clock(95.069) == "1:35.069"
    assert tables.clock(60.0) == "1:00.000"


def test_script_loads_the_same_trials(monkeypatch):
    monkeypatch.setattr(formula1, "load_session", loader.load_session)
    chosen = [Selection("stint=1"), Selection("compound=SOFT"), Selection("age=1-2", ("X", "Y")), Selection("part=all")]
    for selection in (Selection(), Selection("racing", ("X", "Y", "speed")), Selection("2-3", ("X", "Y")), *chosen):
        pick = Pick(RING, "AAA", "BBB", selection)
        _, laps = _laps("AAA", selection)
        scope: dict[str, object] = {"formula1": formula1}
        exec("\n".join(pick.calls), scope)
        assert scope["train"].fingerprint == laps.trials.fingerprint


def test_laps_beyond_the_race_raise_data_error():
    with pytest.raises(DataError, match="no lap from 90 to 99"):
        _laps("AAA", Selection("90-99"))


# ---- many fits ----------------------------------------------------------------------------------------------------
def test_sweep_table_leaves_missing_fits_open():
    from gdm_core.engine.sweep import Record

    records = [
        Record({"n_states": 2}, 0, scores={"paper_accuracy": 0.4}),
        Record({"n_states": 3}, 1, scores={"paper_accuracy": 0.6}),
        Record({"n_states": 4}, 0, message="failed"),
    ]
    found = scores.table(records, "paper_accuracy", 2)
    assert found.shape == (len(scores.STATES), 2)
    assert found[0, 0] == pytest.approx(0.4)
    assert found[1, 1] == pytest.approx(0.6)
    assert np.isfinite(found).sum() == 2


def test_strategy_has_a_bar_for_every_set_of_tyres():
    one, other = ring_driver("AAA"), ring_driver("BBB")
    changed = replace(one.laps, compound=("MEDIUM", "MEDIUM", "HARD", "HARD"), stint=np.array([1, 1, 2, 2]))
    figure = laps.strategy(ring_session(replace(one, laps=changed), other))
    bars = {bar["name"]: bar for bar in figure["data"]}
    assert list(bars) == ["Soft", "Medium", "Hard"]
    drawn = {name: list(zip(bar["y"], bar["base"], bar["x"], bar["text"], strict=True)) for name, bar in bars.items()}
    assert drawn == {"Soft": [(1, 0.5, 4, "S")], "Medium": [(0, 0.5, 2, "M")], "Hard": [(0, 2.5, 2, "H")]}
    assert figure["layout"]["yaxis"]["ticktext"] == ["AAA", "BBB"]
    assert "No flags" in figure["caption"]


# ---- all drivers in one table ---------------------------------------------------------------------------------------
def test_drivers_are_ordered_by_their_best_lap():
    def timed(code, *seconds):
        driver = ring_driver(code, n_laps=len(seconds))
        return replace(
            driver, laps=replace(driver.laps, seconds=np.array(seconds), accurate=np.arange(len(seconds)) > 0)
        )

    session = ring_session(
        timed("AAA", 90.0, 82.5, 83.5), timed("BBB", 81.25, 84.0, 85.0), timed("CCC", np.nan, np.nan, np.nan)
    )
    table = field.lap_times(session)
    assert table["Driver"].tolist() == ["BBB", "AAA", "CCC"]
    np.testing.assert_allclose(table["Gap"][:2], [0, 1.25])
    np.testing.assert_allclose(table["Mean of clean laps"][:2], [84.5, 83.0])
    assert np.isnan(table["Best lap"][2])
