"""Where one driver gains time on another, and how a driver drives."""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from datasets.f1.corners import Corners
from datasets.f1.time_won import MINISECTOR_M, By, Estimate, TimeWon
from gdm_core.analysis.repeatable import repeatable_states
from gdm_studio.plot.figures.base import untyped
from pages.formula1 import corners, data, differences, pairs, sessions, time_gained
from pages.formula1.circuit import open_circuit
from pages.formula1.comparison import Between, Gain
from pages.formula1.driver_states import DriverReading
from pages.formula1.selection import CAR_CHANNELS, Pick, Place, Selection
from pages.formula1.teams import LineStyle
from pages.lab import live
from tests.support.drawn import record
from tests.support.formula1_page import one_of, visit, words
from tests.support.patience import patience_s
from tests.support.recording import reading_of

PLACE = Place(circuit="shanghai")


pytestmark = pytest.mark.usefixtures("feed")


LOOKS = (LineStyle("#2f6fd0", "solid"), LineStyle("#d9771e", "dash"))


def _between(first: int = 0, second: int = -1, by: By = "tyre age") -> Between:
    session = sessions.open_session(PLACE)
    found = pairs.between(session, (session.codes[first], session.codes[second]), Selection(), by)
    assert found is not None
    return found


def _gain(names: Sequence[str], mean: Sequence[float], error: float, edges: np.ndarray | None = None) -> Gain:
    many = np.full(len(mean), np.inf)
    return Gain(np.array(mean), np.full(len(mean), error), many, tuple(names), edges)


def _say(mean: list[float], error: float, whole: tuple[float, float] | None = None, reason: str = "") -> str:
    """Return the sentence about three corners."""
    gain = _gain(("T1–T2", "T3", "T4"), mean, error)

    class Won(TimeWon):
        @property
        def whole(self) -> Estimate:
            return given

    given = Estimate(*map(np.array, (*(whole or (sum(mean), error)), np.inf)))
    won = Won(((1, 1), (2, 2)), "tyre age", np.zeros(2), np.zeros((6, 1)), 0.0, None, ())
    return time_gained.sentence(Between(("PIA", "VER"), ("PIA", "VER"), won, {"joint": gain}, ""), reason)


def test_finding_names_gain_beyond_its_uncertainty():
    gain = _say([0.2, 0.06, 0.04], 0.03, reason="later braking")
    assert gain.startswith("PIA ")
    for part in ("0.30", "±0.06", "VER", "T1–T2", "PIA 0.200 s (±0.059)", "later braking"):
        assert part in gain
    assert _say([-0.2, -0.06, -0.04], 0.03).startswith("VER ")
    close = _say([0.2, 0.06, 0.04], 0.2)
    assert close.startswith("Too close to call: PIA 0.30 s/lap")
    assert "T1" not in close, "no corner differs"
    assert "VER 0.210 s (±0.059) in T3" in _say([0.2, -0.21, 0.0], 0.03)


def test_corners_minisectors_and_states_add_up_to_one_gain():
    found, circuit = _between(), open_circuit(sessions.open_session(PLACE))
    assert found.gains["corner"].mean.sum() == pytest.approx(found.won.whole.mean)
    assert found.gains["joint"].mean.sum() == pytest.approx(found.won.whole.mean)
    assert found.gains["minisector"].mean.sum() == pytest.approx(found.won.whole.mean)
    assert len(found.gains["minisector"].names) == round(circuit.length / MINISECTOR_M)
    assert found.gains["minisector"].edges is not None
    assert found.gains["minisector"].edges[-1] == pytest.approx(circuit.length)
    back = _between(-1, 0)
    np.testing.assert_allclose(back.gains["corner"].mean, -found.gains["corner"].mean, atol=1e-3)
    # A state that is active in the first half of the lap gains the delta there.
    drivers = []
    for code in found.codes:
        laps = data.laps_of(sessions.open_session(PLACE), code, Selection())
        first = (laps.distance < circuit.length / 2).astype(np.float32)
        halves = np.column_stack([first, 1 - first])
        drivers.append(reading_of(laps.trials[0], halves, kind=DriverReading, laps=laps))
    states = time_gained.in_states(circuit, found.won, drivers, ["S1 first", "S2 second"])
    half = found.won.won[:, found.won.edges[1:] <= 0.5].sum(axis=1).mean()
    assert states.mean[0] == pytest.approx(half, abs=0.005)
    assert states.mean.sum() == pytest.approx(found.won.whole.mean)


def test_uncertain_gain_is_pale():
    found, circuit = _between(), open_circuit(sessions.open_session(PLACE))
    mean = np.zeros(len(found.gains["minisector"].names))
    mean[[2, 5, 7]] = 0.06, -0.04, 0.019
    gain = _gain(found.gains["minisector"].names, mean, 0.01, found.gains["minisector"].edges)
    wanted = [LOOKS[0].colour] * len(mean)
    wanted[5] = LOOKS[1].colour
    figure = time_gained.gain_map(circuit, ("AAA", "BBB"), gain, LOOKS)
    assert [trace["line"]["color"] for trace in figure["data"]] == wanted
    assert figure["data"][2]["opacity"] == 1
    assert 1 > figure["data"][5]["opacity"] > figure["data"][7]["opacity"] == time_gained.PALE
    assert "AAA faster in 1 of" in figure["alt"]
    assert "AAA faster by 0.060 ± 0.020 s/lap" in figure["data"][2]["hovertemplate"]
    assert "BBB faster by 0.040 ± 0.020 s/lap" in figure["data"][5]["hovertemplate"]
    ends = [(untyped(trace["x"])[[0, -1]], untyped(trace["y"])[[0, -1]]) for trace in figure["data"]]
    for (x, y), (next_x, next_y) in pairwise(ends):
        assert np.hypot(x[1] - next_x[0], y[1] - next_y[0]) < 0.1, "no gap between stretches"
    marker = time_gained.bars(("AAA", "BBB"), gain, "minisector", LOOKS)["data"][0]["marker"]
    assert marker["color"] == wanted
    assert [k for k, shape in enumerate(marker["pattern"]["shape"]) if shape] == [5], "colour is not the only cue"
    assert figure["data"][5]["line"]["dash"] != figure["data"][2]["line"]["dash"]


def test_state_names_are_escaped_in_bars():
    gain = _gain(("S1 <b>%{x}</b> of the long &", "S2"), [0.1, 0.0], 0.01)
    figure = time_gained.bars(("AAA", "BBB"), gain, "state", LOOKS)
    (trace,) = figure["data"]
    assert figure["layout"]["yaxis"]["ticktext"][0] == "S1 &lt;b&gt;%&#123;x}&lt;/b&gt; of the…", "no entity is cut"
    assert "<b>" not in trace["customdata"][0]
    assert trace["hovertemplate"] == "%{customdata}<extra></extra>"


def test_page_shows_findings_and_keeps_choices_in_the_address(feed):
    app = visit(**{"won-by": "sector"})
    (top,) = [element.proto.body for element in app.get("html") if 'class="gdm-finding"' in element.proto.body]
    found = pairs.usual(sessions.open_session(PLACE), ("FLT", "RGL"), Selection())
    assert found is not None
    assert f"{found.won.whole.mean:.2f} s/lap" in top
    assert found.gains["sector"].names == ("Sector 1", "Sector 2", "Sector 3")
    for parts in found.gains.values():
        assert parts.mean.sum() == pytest.approx(found.won.whole.mean, abs=1e-6)
    app.segmented_control(key="pair").set_value("lap number").run()
    assert one_of(app.query_params["pair"]) == "lap number"


def test_race_with_few_laps_has_no_finding(feed):
    assert "timing error only" in words(visit(source="real")), "one lap each, instead of three pairs"


@pytest.mark.parametrize(("longer", "told"), [(20.0, "BBB lifts 20 m earlier into T2 (±"), (0.0, "")])
def test_longer_coast_before_braking_is_told(longer, told):
    """The second driver brakes at the same point, and lifts earlier before T2."""
    numbers, rng = tuple(range(1, 13)), np.random.default_rng(0)

    def measured(code: str, coast: float) -> Corners:
        lift = np.column_stack([np.zeros(12), coast + rng.normal(0, 0.2, 12)])
        values = {"braking point": np.full((12, 2), 80.0), "lift and coast": lift, "lift point": 80.0 + lift}
        return Corners(code, numbers, values, ("T1", "T2"))

    found = replace(_between(), names=("AAA", "BBB"))
    words = corners.lifting(found, (measured("AAA", 10.0), measured("BBB", 10.0 + longer)))
    assert words[: len(told)] == told
    assert bool(words) == bool(told)


def test_corners_compare_the_pairs_of_compare(feed):
    """The time in the table of corners is the delta of Compare, and other measures are paired as well."""
    app = visit(view="Corners", corner="time")
    found = pairs.usual(sessions.open_session(PLACE), ("FLT", "RGL"), Selection("racing", CAR_CHANNELS))
    assert found is not None
    (table,) = [frame.value for frame in app.dataframe if "Corner" in frame.value]
    np.testing.assert_allclose(table["Difference"], -found.gains["corner"].mean)
    assert len(found.won.pairs) < 20, "not all clean laps"
    (style,) = [frame.value.set_index("Measure") for frame in app.dataframe if "Unit" in frame.value]
    one, other = (corners.measure_pedals(sessions.open_session(PLACE), *side) for side in found.sides)
    apart = one.difference(other, "full throttle")
    assert style.loc["Full throttle", "Difference"] == pytest.approx(apart.mean)
    assert style.loc["Full throttle", "95% interval ±"] == pytest.approx(apart.margin)
    assert apart.mean == pytest.approx((one.values["full throttle"] - other.values["full throttle"]).mean())
    assert "Speed trap" not in style.index, "simulated races have none"
    laps = corners.lap_by_lap([one])
    assert laps["full throttle (% of time)"].mean() == pytest.approx(one.mean("full throttle").mean)


def test_picture_to_share_has_finding_tyres_and_link(feed, monkeypatch):
    shown = record(monkeypatch)
    app = visit()
    figure = shown["share"][0]
    text = " ".join(mark["text"] for mark in figure["layout"]["annotations"]).replace("<br>", " ")
    found = pairs.usual(sessions.open_session(PLACE), ("FLT", "RGL"), Selection())
    assert found is not None
    assert "FLT vs RGL" in text
    assert f"{found.won.whole.mean:.2f} s/lap" in text
    assert "Tyre degradation (ms/lap" in text
    lines = [part for trace in figure["data"] if trace["type"] == "bar" for part in trace["customdata"]]
    assert len(lines) == len(found.gains["phase"].names)
    narrow, wide = figure["widths"]
    assert narrow["height"] > wide["height"], "shorter lines"
    assert not app.exception


@pytest.mark.parametrize(("way", "how"), [("stint", "first and second half"), ("stop", "before and after stops")])
def test_driver_is_compared_with_himself(feed, way, how):
    app = visit(train="FLT", test="FLT", shown=way)
    assert how in words(app)
    assert "FLT late" in words(app) or "FLT after" in words(app)
    assert not app.exception


def _wait_for_differences(app: AppTest) -> None:
    until = time.monotonic() + patience_s()
    while "K = " not in words(app) and time.monotonic() < until:  # fits in a thread
        time.sleep(0.5)
        app.run()
    assert "K = " in words(app)


def test_job_of_differences_belongs_to_its_visitor(feed, monkeypatch):
    monkeypatch.setattr(live.panels, "visitor", lambda: "anna")
    _wait_for_differences(visit(view="Differences"))
    assert "anna/differences" in [job.session for job in feed.jobs]


def test_differences_have_cards_that_add_up(feed):
    _wait_for_differences(visit(view="Differences"))
    session = sessions.open_session(PLACE)
    race = data.open_race(Pick(PLACE, "FLT", "RGL", Selection("racing", CAR_CHANNELS)), session)
    found = pairs.usual(session, race.codes, race.pick.selection)
    apart = differences.measure(session, found.codes, found.won)
    habits = differences.Habits(race, found, apart, repeatable_states(apart.trials, n_states=(2,)))
    table = habits.table()
    assert table["Cost (s/lap)"].sum() == pytest.approx(found.won.whole.mean)
    assert table["Share of lap (%)"].sum() == pytest.approx(100)
    assert table["Difference"].iloc[-1] == "Rest"
