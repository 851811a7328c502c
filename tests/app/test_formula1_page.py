"""The Formula 1 page as a script: the cascade, what a load may run into, and the numbers behind the pictures."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from datasets import formula1
from datasets.formula1 import Event, FeedError, Reason, SessionSlot
from gdm_core.errors import DataError
from pages.formula1 import against_k, cascade, data, drivers, loading, measures, opening, pictures, segments, transfer
from pages.formula1.data import Looked, Place
from pages.formula1.view import Here
from pages.ui import live, navigation
from pages.ui.figures.base import untyped
from tests.support.formula1 import LAP_S, ring_driver, ring_session
from tests.support.live_engine import QuickEngine

APP = str(navigation.ROOT / "app.py")
RING = Place(year=2024, event="Ring Grand Prix", name="Race")
WEEKEND = Event(
    2024, 1, "Ring Grand Prix", "Ringland", "Ringtown", "2024-03-10",
    (SessionSlot("Qualifying", "2024-03-09T10:00"), SessionSlot("Race", "2024-03-10T10:00")),
)  # fmt: skip
FUTURE = Event(2024, 2, "Far Grand Prix", "Ringland", "Ringtown", "2999-03-10", (SessionSlot("Race", "2999-03-10"),))


def _ring():
    return ring_session(ring_driver("AAA"), ring_driver("BBB"), ring_driver("CCC"))


@pytest.fixture(autouse=True)
def feed(monkeypatch, tmp_path):
    """A calendar of one past weekend, one driven session, an engine in this process, and nothing kept from before."""
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(formula1, "schedule", lambda year, **more: (WEEKEND, FUTURE) if year == 2024 else ())
    monkeypatch.setattr(formula1, "stored_sessions", lambda: ((2024, "Ring Grand Prix", "Race"),))
    monkeypatch.setattr(formula1, "load_session", lambda *where, **more: _ring())
    monkeypatch.setattr(loading, "_loads", loading.Loads())
    engine = QuickEngine()
    monkeypatch.setattr(live.screen, "engine", lambda: engine)
    for cached in (data.circuit, data.laps_of):
        cached.clear()
    return engine


def visit(**query: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    return app.run().switch_page(str(navigation.info("formula1").path)).run()


def words(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def box(app: AppTest, label: str):
    return next(one for one in app.selectbox if one.label == label)


# ---- a first visit ------------------------------------------------------------------------------------------------
def test_a_first_visit_shows_the_simulated_race_without_a_fit(feed):
    app = visit()
    assert not app.exception
    text = words(app)
    assert "Simulated race" in text
    assert "Real sessions" in text
    assert "simulated race · fitted on FLT" in text
    assert "One segment a state" in text, "scores come with the bundled result"
    fits = [job for job in feed.jobs if job.slot == "main" and job.poll().result is None]
    assert fits == []
    bundled = opening.bundled()
    assert bundled is not None
    done = next(job for job in feed.jobs if job.slot == "main")
    assert done.poll().result.model_bytes == bundled.model_bytes


def test_the_bundled_states_are_those_of_its_model():
    from gdm_core.metrics import paper_accuracy
    from gdm_core.trials import Trials
    from pages.ui.results import soft_states

    found = opening.bundled()
    assert found is not None
    head = found.header
    place = Place(circuit=opening.CIRCUIT)
    laps = data.laps_of(place, head["test"], Looked())
    train = data.laps_of(place, head["train"], Looked())
    # The start of the race is enough, and quick.
    part = laps.trials[0].slice(0, 1500)
    (states,) = soft_states(found.model_bytes, Trials((part,)))
    # Reading out draws samples; another length draws others.
    kept = found.test[:1490] / 255
    assert np.abs(kept - states[:1490]).mean() < 0.03
    assert (kept.argmax(axis=1) == states[:1490].argmax(axis=1)).mean() > 0.85
    accuracy = paper_accuracy(found.train, train.segment, found.test, laps.segment)
    assert accuracy == pytest.approx(head["scores"]["paper_accuracy"], abs=0.01)
    assert accuracy > 0.8


# ---- the cascade --------------------------------------------------------------------------------------------------
def test_each_step_offers_what_the_step_before_leaves():
    app = visit(source="real")
    assert not app.exception
    assert box(app, "Year").value == "2024", "the season of what is stored"
    assert box(app, "Event").options == ["Ring Grand Prix · stored"], "the future is not offered"
    assert any("1 event of 2024 lies in the future" in caption.value for caption in app.caption)
    assert box(app, "Session").options == ["Qualifying", "Race · stored"]
    assert box(app, "Session").value == "Race"
    assert box(app, "Fit on (train)").value == "AAA"
    assert box(app, "Apply to (test)").value == "CCC", "the fifth, or the last of fewer"
    assert "Ring Grand Prix 2031 · Race · fitted on AAA, applied to CCC" in words(app)


def test_a_link_brings_the_whole_choice():
    app = visit(source="real", year="2024", session="Race", train="BBB", test="AAA", laps_of="x", watch="channels")
    app.query_params["channels"] = "X-Y"
    assert box(app, "Fit on (train)").value == "BBB"
    assert box(app, "Apply to (test)").value == "AAA"
    assert "fitted on BBB, applied to AAA" in words(app)


def test_a_choice_is_kept_in_the_address():
    app = visit(source="real")
    box(app, "Apply to (test)").set_value("BBB").run()
    assert app.query_params["test"] in ("BBB", ["BBB"])
    box(app, "Apply to (test)").set_value("CCC").run()
    assert "test" not in app.query_params, "what anybody finds there needs no word"


def test_a_year_without_events_disables_what_follows():
    app = visit(source="real", year="2019")
    assert box(app, "Event").disabled
    assert not app.exception


def test_laps_and_channels_change_what_is_fitted(feed):
    app = visit(source="real")
    whole = feed.jobs[-1]
    app.segmented_control(key="f1-watch").set_value("channels").run()
    assert not app.exception
    app.multiselect(key="f1-channels").set_value(["X", "Y"]).run()
    app.segmented_control(key="f1-laps-of").set_value("range").run()
    assert not app.exception
    fits = [job.work for job in feed.jobs if job.slot == "main"]
    assert fits[-1].trials.n_channels == 2
    assert fits[0].trials.n_channels == 10
    assert whole is not feed.jobs[-1]
    assert app.query_params["channels"] in ("X-Y", ["X-Y"])


# ---- what a load may run into -------------------------------------------------------------------------------------
@pytest.mark.parametrize("reason", list(Reason))
def test_every_failure_has_a_message_and_a_way_on(monkeypatch, reason):
    tries = []

    def fail(*where, **more):
        tries.append(where)
        raise FeedError(reason, f"It went wrong ({reason.value}).")

    monkeypatch.setattr(formula1, "load_session", fail)
    app = visit(source="real")
    text = words(app)
    assert not app.exception
    assert text.count('role="alert"') == 1
    assert loading.TITLES[reason] in text
    assert loading.WAYS_ON[reason][:40] in text
    assert len(tries) == 1
    monkeypatch.setattr(formula1, "load_session", lambda *where, **more: _ring())
    app.button(key="f1-retry").click().run()
    app.run()
    assert "fitted on AAA" in words(app)


def test_the_account_is_explained_and_no_password_asked_for(monkeypatch):
    monkeypatch.delenv("F1_PASSWORD", raising=False)

    def fail(*where, **more):
        raise FeedError(Reason.ACCOUNT, "The timing service wants an account.")

    monkeypatch.setattr(formula1, "load_session", fail)
    app = visit(source="real")
    assert "F1_USERNAME and F1_PASSWORD" in words(app)
    assert not app.text_input


def test_a_load_under_way_says_how_far_it_is_and_can_be_cancelled(monkeypatch):
    heard = threading.Event()

    def slow(*where, progress, cancel, **more):
        progress(0.4, "reading positions")
        heard.set()
        cancel.wait(20)
        raise FeedError(Reason.CANCELLED, "Cancelled.")

    monkeypatch.setattr(formula1, "load_session", slow)
    app = visit(source="real")
    assert heard.wait(5)
    app.run()
    assert "reading positions" in words(app)
    app.button(key="f1-cancel").click().run()
    load = loading.session(RING.year, RING.event, RING.name)
    assert load.wait(5)
    app.run()
    assert loading.TITLES[Reason.CANCELLED] in words(app)


def test_an_error_that_nobody_foresaw_does_not_hang_the_page(capsys):
    def broken(report, cancel):
        raise RuntimeError("boom")

    threading.excepthook, kept = (lambda arguments: None), threading.excepthook
    try:
        load = loading.Load(broken)
        assert load.wait(5)
    finally:
        threading.excepthook = kept
    assert load.error.reason is Reason.CRASHED


def test_loads_are_shared_and_bounded():
    loads = loading.Loads(limit=2)
    first = loads.get(("a",), lambda report, cancel: 1)
    assert first.wait(5)
    assert loads.get(("a",), lambda report, cancel: 2) is first
    for name in "bcd":
        assert loads.get((name,), lambda report, cancel: 1).wait(5)
    assert loads.get(("a",), lambda report, cancel: 3) is not first


def test_a_driver_without_positions_is_left_out_and_named(monkeypatch):
    empty = ring_driver("NIL")
    object.__setattr__(empty, "time", empty.time[:0])
    object.__setattr__(empty, "position", empty.position[:0])
    monkeypatch.setattr(
        formula1, "load_session", lambda *where, **more: ring_session(ring_driver("AAA"), empty, ring_driver("BBB"))
    )
    app = visit(source="real")
    assert box(app, "Fit on (train)").options == ["AAA · Driver AAA", "BBB · Driver BBB"]
    assert any("NIL" in caption.value for caption in app.caption)


def test_a_session_without_corners_is_drawn_without_segments(monkeypatch):
    monkeypatch.setattr(
        formula1,
        "load_session",
        lambda *where, **more: ring_session(ring_driver("AAA"), ring_driver("BBB"), corners=()),
    )
    app = visit(source="real")
    assert not app.exception
    assert "no segments and no state scores" in words(app)


# ---- numbers ------------------------------------------------------------------------------------------------------
def _laps(monkeypatch, code: str = "AAA", looked: Looked | None = None) -> tuple[data.Circuit, data.Laps]:
    load = loading.session(RING.year, RING.event, RING.name)
    assert load.wait(10)
    return data.circuit(RING), data.laps_of(RING, code, looked or Looked())


def test_presence_and_weight_follow_the_definition_of_the_paper():
    states = np.array([[0.99, 0.01, 0.0], [0.6, 0.4, 0.0], [0.985, 0.015, 0.0], [0.0, 0.1, 0.9]])
    first, second = segments.composition(states, [0, 0, 0, 1], 2, weight=0.01, presence=0.5, complementary=0.05)
    assert [(part.state, part.main) for part in first] == [(0, True), (1, True)]
    assert first[1].presence == pytest.approx(2 / 3), "a share of exactly 1 % does not count"
    assert first[1].weight == pytest.approx((0.01 + 0.4 + 0.015) / 3)
    assert [part.state for part in second] == [2, 1], "equal presence: the heavier first"
    (strict,) = segments.composition(states[:3], [0, 0, 0], 1, presence=0.9)
    assert [(part.state, part.main) for part in strict] == [(0, True), (1, False)], "the rest is complementary"
    with pytest.raises(DataError, match="4 states but 1"):
        segments.composition(states, [0], 1)


def test_labels_keep_clear_of_each_other_and_of_the_track(monkeypatch):
    circuit, _ = _laps(monkeypatch)
    widths = np.full(len(circuit.segments), 50.0)
    shift = segments.placed(circuit, widths)
    scale = min(segments.MAP_PX / np.ptp(circuit.line, axis=0))
    centre = circuit.at(circuit.middles) * scale + shift
    gap = np.abs(centre[:, None] - centre[None])
    apart = (gap[..., 0] >= 50) | (gap[..., 1] >= 18)
    assert apart[~np.eye(len(widths), dtype=bool)].all()
    assert (np.linalg.norm(shift, axis=1) < 120).all()


def test_the_map_holds_every_sample_once_and_says_where_it_is(monkeypatch):
    circuit, laps = _laps(monkeypatch)
    states = np.eye(4, dtype=np.float32)[laps.segment]
    many = {"distance": laps.distance, "lap": laps.lap, "speed": laps.speed, "segment": laps.segment}
    monkeypatch.setattr(pictures, "DOTS_ABOVE", 100)
    figure = pictures.circuit_map(circuit, laps.place, states, **many)
    dots = figure["data"][1:]
    assert sum(len(untyped(trace["x"])) for trace in dots) == len(laps.lap)
    tips = np.concatenate([untyped(trace["customdata"]) for trace in dots])
    places = np.concatenate([np.column_stack([untyped(t["x"]), untyped(t["y"])]) for t in dots])
    # The station that a hover points at lies where the sample is.
    stations = np.column_stack([untyped(figure["cursor"]["x"]), untyped(figure["cursor"]["y"])])
    assert np.linalg.norm(stations[tips[:, 0]] - places, axis=1).max() < circuit.length / pictures.STATIONS
    np.testing.assert_array_equal(tips[:, 2].astype(int) * 10 + tips[:, 3], 113)
    np.testing.assert_array_equal(tips[:, 5], tips[:, 4], "the state of a corner's segment, by construction")


def test_a_race_on_the_map_stays_within_its_weight():
    import json

    place = Place(circuit="shanghai")
    circuit, laps = data.circuit(place), data.laps_of(place, "FLT", Looked())
    states = np.random.default_rng(0).dirichlet(np.full(8, 0.15), len(laps.lap)).astype(np.float32)
    figure = pictures.circuit_map(
        circuit, laps.place, states, distance=laps.distance, lap=laps.lap, speed=laps.speed, segment=laps.segment
    )
    assert len(laps.lap) > 20_000
    assert len(json.dumps(figure)) < 700_000


def test_the_average_lap_is_the_mean_at_each_place():
    distance = np.array([5.0, 5.0, 15.0, 95.0])
    mean = data.along_lap(distance, np.array([[1.0], [3.0], [5.0], [7.0]]), 10, 100.0)
    assert mean[0, 0] == 2.0
    assert mean[1, 0] == 5.0
    assert 5.0 < mean[4, 0] < 7.0, "an empty stretch takes what lies beside it"


def test_two_laps_driven_alike_have_no_gap_and_the_slower_one_falls_behind(monkeypatch):
    circuit, laps = _laps(monkeypatch)
    states = np.eye(4, dtype=np.float32)[laps.segment]
    here = Here(laps, states, "fresh")
    one = drivers.one_lap(circuit, here, 2, LAP_S)
    slower = drivers.one_lap(circuit, here, 3, LAP_S + 0.2)
    assert one is not None
    assert slower is not None
    assert one.clock[0] == 0
    assert np.abs(np.diff(one.clock) - LAP_S * drivers.STEP_M / circuit.length).max() < 0.05
    assert np.abs(slower.clock - one.clock)[:-3].max() < 0.1
    np.testing.assert_allclose(one.states.sum(axis=1), 1, atol=1e-5)
    assert drivers.one_lap(circuit, here, 99, LAP_S) is None


def test_lap_times_read_as_on_a_timing_screen():
    assert drivers.clock(95.069) == "1:35.069"
    assert drivers.clock(60.0) == "1:00.000"


def test_who_drives_unlike_the_winner_is_found_where_it_happens(monkeypatch):
    circuit, laps = _laps(monkeypatch)
    n = 40
    rng = np.random.default_rng(0)
    base = rng.dirichlet(np.ones(3), n)
    profiles = np.stack([np.stack([base, base])] * 3).astype(np.float32)  # [D, 2, stations, K]
    profiles[2, :, 12:18] = profiles[2, :, 12:18][..., ::-1]
    profiles[1, 0, 5] = np.nan
    apart, chance = measures.unlikeness(profiles)
    assert np.nanmax(apart[1]) == 0
    assert np.isnan(apart[1, 5])
    assert apart[2, 12:18].max() > 0.1
    assert apart[2, :12].max() == 0
    assert np.nanmax(chance) == 0
    table, columns, noise = transfer.rows_of(circuit, [laps] * 3, profiles)
    assert noise == 0
    assert (
        table["Whole lap"].tolist()
        == sorted(table["Whole lap"].tolist(), reverse=True)[-1:]
        + sorted(table["Whole lap"].tolist(), reverse=True)[:-1]
    ), "the winner first, then the most unlike"
    assert set(columns) <= set(circuit.segments)


def test_the_script_makes_the_same_trials(monkeypatch):
    for looked in (Looked(), Looked("racing", ("X", "Y", "speed")), Looked("2-3", ("X", "Y"))):
        pick = cascade.Pick(RING, "AAA", "BBB", looked)
        _, laps = _laps(monkeypatch, "AAA", looked)
        scope: dict[str, object] = {"formula1": formula1}
        exec("\n".join(pick.calls), scope)
        assert scope["train"].fingerprint == laps.trials.fingerprint


def test_laps_beyond_the_race_are_refused(monkeypatch):
    with pytest.raises(DataError, match="no lap from 90 to 99"):
        _laps(monkeypatch, "AAA", Looked("90-99"))


# ---- many fits ----------------------------------------------------------------------------------------------------
def test_the_curve_holds_each_fit_in_its_place_and_leaves_the_rest_open():
    from gdm_core.engine.records import Record

    records = [
        Record({"n_states": 2}, 0, scores={"paper_accuracy": 0.4}),
        Record({"n_states": 3}, 1, scores={"paper_accuracy": 0.6}),
        Record({"n_states": 4}, 0, message="diverged"),
    ]
    found = against_k.table(records, "paper_accuracy", 2)
    assert found.shape == (len(against_k.STATES), 2)
    assert found[0, 0] == pytest.approx(0.4)
    assert found[1, 1] == pytest.approx(0.6)
    assert np.isfinite(found).sum() == 2


def test_the_accuracy_of_a_sweep_is_that_of_the_full_evaluation(monkeypatch):
    from gdm_core.metrics import evaluate
    from tests.support.live_engine import Sketch

    _, train = _laps(monkeypatch, "AAA")
    _, test = _laps(monkeypatch, "BBB")
    model = Sketch(n_states=4).fit(train.trials)
    ours = measures.state_accuracy(model, train.trials, test.trials)
    whole = evaluate(model, train.trials, test.trials)
    assert ours["paper_accuracy"] == pytest.approx(whole.paper_accuracy)
    assert ours["majority_map_accuracy"] == pytest.approx(whole.majority_map_accuracy)


def test_a_model_applied_to_many_drivers_gives_each_its_own_profile(monkeypatch):
    from tests.support.live_engine import Sketch

    circuit, laps = _laps(monkeypatch, "AAA")
    _, other = _laps(monkeypatch, "BBB")
    model = Sketch(n_states=3).fit(laps.trials)
    monkeypatch.setattr(measures, "read", lambda content: model)
    n = circuit.n_bins // 5
    stations = [transfer.stations_of(circuit, one) for one in (laps, other)]
    found = measures.drivers_along_lap(b"", stations, n, laps.trials, other.trials)
    assert found.shape == (2, 2, n, 3)
    states = np.concatenate(model.predict_proba(laps.trials))
    part = (stations[0] == 4) & (laps.lap % 2 == 1)
    np.testing.assert_allclose(found[0, 0, 4], states[part].mean(axis=0), rtol=1e-5)


def test_the_tab_starts_the_fits_only_when_asked(feed):
    asked = []
    feed.bulk = lambda key: asked.append(key)
    app = visit(source="real", view="Accuracy against K")
    assert not app.exception
    assert len(set(asked)) == 2, "it looks whether they run already, for both models"
    assert any(button.label == "Fit 54 models" for button in app.button)
