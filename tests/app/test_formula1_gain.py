"""Where time is won and where a driver brakes, turns and pushes: in numbers, in pictures, and on the page."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from datasets.f1.driving import describe
from datasets.f1.time_won import By, TimeWon
from gdm_studio.plot.figures.base import untyped
from pages.formula1 import data, findings, gain_panel, time_gained
from pages.formula1.data import DriverReading, Observation, Place
from pages.formula1.teams import LineStyle
from pages.formula1.time_gained import Between, Gain
from tests.support.formula1_page import box, one_of, visit, words
from tests.support.recording import reading_of

PLACE = Place(circuit="shanghai")


pytestmark = pytest.mark.usefixtures("feed")


LOOKS = (LineStyle("#2f6fd0", "solid"), LineStyle("#d9771e", "dash"))


def _between(first: int = 0, second: int = -1, by: By = "tyre age") -> Between:
    codes = data.open_session(PLACE).codes
    found = time_gained.between(PLACE, (codes[first], codes[second]), Observation(), by, 0)
    assert found is not None
    return found


def _said(mean: list[float], error: float, states: Gain | None = None, whole: tuple[float, float] | None = None) -> str:
    """The finding for three segments."""
    gain = Gain(("T1-T2", "T2-T3", "T3-T1"), np.array(mean), np.full(3, error))

    class Won(TimeWon):
        @property
        def whole(self) -> tuple[float, float]:
            return given

    given = whole or (float(sum(mean)), error)
    nothing = np.zeros((6, 1))
    won = Won((), "tyre age", np.zeros(2), nothing, 0.0, None, ())
    gains = {"segment": gain, "minisector": gain}
    return time_gained.finding(
        Between(("PIA", "VER"), won, gains), gains if states is None else gains | {"state": states}
    )


def test_the_finding_says_who_gains_where_and_nothing_within_its_uncertainty():
    states = Gain(("S1 flat out", "S5 braking"), np.array([0.09, 0.21]), np.array([0.02, 0.02]))
    assert _said([0.2, 0.06, 0.04], 0.03, states) == (
        "PIA gains 0.30 ± 0.06 s a lap on VER, two thirds of it in S5 braking, most of all in T1-T2 (0.20 ± 0.06 s)."
    )
    back = Gain(states.names, -states.mean, states.error)
    assert _said([-0.2, -0.06, -0.04], 0.03, back).startswith(
        "VER gains 0.30 ± 0.06 s a lap on PIA, two thirds of it in S5"
    )
    assert _said([0.2, 0.06, 0.04], 0.2, states) == ""
    assert _said([0.1, 0.1, 0.1], 0.05) == "PIA gains 0.30 ± 0.10 s a lap on VER, spread over the lap."
    lost = Gain(states.names, np.array([-0.5, 0.02]), states.error)
    assert "S1" not in _said([0.2, 0.06, 0.04], 0.03, lost), "what the winner loses there is not where he wins"


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.3, "more than all of it"), (0.9, "nearly all of it"), (0.52, "half of it"), (0.7, "two thirds of it")],
)
def test_shares_are_said_in_words(share, text):
    assert time_gained._part(share) == text


def test_segments_minisectors_and_states_share_one_gain():
    found, circuit = _between(), data.circuit(PLACE)
    assert found.gains["segment"].mean.sum() == pytest.approx(found.won.whole[0])
    assert found.gains["minisector"].mean.sum() == pytest.approx(found.won.whole[0])
    assert len(found.gains["minisector"].names) == round(circuit.length / time_gained.MINISECTOR_M)
    assert found.gains["minisector"].edges is not None
    assert found.gains["minisector"].edges[-1] == pytest.approx(circuit.length)
    back = _between(-1, 0)
    np.testing.assert_allclose(back.gains["segment"].mean, -found.gains["segment"].mean, atol=1e-3)
    # A state that stands in the first half of the lap alone wins what is won there.
    drivers = []
    for code in found.codes:
        laps = data.laps_of(PLACE, code, Observation())
        first = (laps.distance < circuit.length / 2).astype(np.float32)
        halves = np.column_stack([first, 1 - first])
        drivers.append(reading_of(laps.trials[0], halves, kind=DriverReading, laps=laps))
    states = time_gained.in_states(circuit, found.won, drivers, ["S1 first", "S2 second"])
    half = found.won.won[:, found.won.edges[1:] <= 0.5].sum(axis=1).mean()
    assert states.mean[0] == pytest.approx(half, abs=0.005)
    assert states.mean.sum() == pytest.approx(found.won.whole[0])


def test_what_lies_within_its_uncertainty_stays_grey():
    found, circuit = _between(), data.circuit(PLACE)
    error = np.full(len(found.gains["minisector"].names), 0.01)
    mean = np.zeros(len(error))
    mean[[2, 5, 7]] = 0.06, -0.04, 0.029
    gain = Gain(found.gains["minisector"].names, mean, error, found.gains["minisector"].edges)
    wanted = [gain_panel.UNSURE] * len(error)
    wanted[2], wanted[5] = (look.colour for look in LOOKS)
    assert gain_panel.colours(gain, LOOKS) == wanted
    figure = gain_panel.gain_map(circuit, ("AAA", "BBB"), gain, LOOKS)
    assert [trace["line"]["color"] for trace in figure["data"]] == wanted
    assert figure["data"][2]["opacity"] == 1
    assert figure["data"][5]["opacity"] < 1
    assert "AAA wins in 1 of" in figure["alt"]
    assert "+0.060 ± 0.020 s a lap" in figure["data"][2]["hovertemplate"]
    ends = [(untyped(trace["x"])[[0, -1]], untyped(trace["y"])[[0, -1]]) for trace in figure["data"]]
    for (x, y), (next_x, next_y) in pairwise(ends):
        assert np.hypot(x[1] - next_x[0], y[1] - next_y[0]) < 0.1, "no gap between stretches"
    marker = gain_panel.bars(("AAA", "BBB"), gain, "minisector", LOOKS)["data"][0]["marker"]
    assert marker["color"] == wanted
    assert [k for k, shape in enumerate(marker["pattern"]["shape"]) if shape] == [5], "not by hue alone"
    assert figure["data"][5]["line"]["dash"] != figure["data"][2]["line"]["dash"]


def test_names_of_states_are_text_in_bars_too():
    gain = Gain(("S1 <b>%{x}</b> of the long &", "S2"), np.array([0.1, 0.0]), np.array([0.01, 0.01]))
    figure = gain_panel.bars(("AAA", "BBB"), gain, "state", LOOKS)
    (trace,) = figure["data"]
    assert figure["layout"]["yaxis"]["ticktext"][0] == "S1 &lt;b&gt;%&#123;x}&lt;/b&gt; of the…", "no entity is cut"
    assert "<b>" not in trace["customdata"][0]
    assert trace["hovertemplate"] == "%{customdata}<extra></extra>"


def test_where_a_driver_brakes_turns_and_pushes_is_told_from_the_pedals():
    circuit, laps = data.circuit(PLACE), data.laps_of(PLACE, "FLT", Observation())
    states = np.column_stack([laps.car["brake"] > 0.5, laps.car["brake"] <= 0.5]).astype(np.float32)
    found = describe(states, laps.car, circuit.curvature_at(laps.distance))
    said = findings.driving(circuit, laps, found)
    braking = (laps.car["brake"] > 0.5).mean()
    assert said.startswith(f"FLT brakes {braking:.0%} of the time, most into T14, ")
    assert "(S1); turns" in said
    assert "pushes flat out" in said
    assert "T13-T14" in said, "the long straight"
    silent = replace(laps, car={"speed": laps.car["speed"]})
    assert findings.driving(circuit, silent, found) == ""
    nowhere = replace(laps, segment=None)
    assert "most on" not in findings.driving(circuit, nowhere, found)


def test_the_page_says_it_on_top_and_in_its_panel(feed):
    app = visit(**{"won-by": "state", "view": "Drivers compared"})
    top = [element.proto.body for element in app.get("html") if 'class="gdm-finding"' in element.proto.body]
    assert len(top) == 2
    assert "FLT brakes" in top[0]
    found = time_gained.usual(PLACE, ("FLT", "RGL"), Observation())
    assert found is not None
    assert f"FLT gains {found.won.whole[0]:.2f} ± " in top[1]
    assert found.gains["sector"].names == ("Sector 1", "Sector 2", "Sector 3")
    for parts in found.gains.values():
        assert parts.mean.sum() == pytest.approx(found.won.whole[0], abs=1e-6)
    text = words(app)
    assert "pairs of undisturbed laps on tyres of the same compound and age" in text
    app.segmented_control(key="f1-pair").set_value("lap number").run()
    assert "of the same number that both drove undisturbed" in words(app)
    assert one_of(app.query_params["pair"]) == "lap number"
    box(app, "Stint of FLT").set_value("1").run()
    assert one_of(app.query_params["stint"]) == "1"


def test_a_race_without_enough_laps_says_so_in_place_of_a_finding(feed):
    app = visit(source="real")
    assert 'class="gdm-finding"' not in words(app), "three laps, and no pedals"
    assert "fewer than 5 undisturbed laps" in words(app)
