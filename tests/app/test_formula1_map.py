"""Badges and corner numbers on the circuit map."""

import json

import numpy as np
import pytest

from datasets.f1.session import ReferenceLap
from gdm_core.analysis.segments import Part
from gdm_studio.plot.figures.base import Figure, fit_to_width, untyped
from pages.formula1 import circuit_map, map_labels, sessions
from pages.formula1.circuit import Circuit, open_circuit, turned
from pages.ui import legend
from tests.support.drawn import record
from tests.support.formula1_page import arrange, box, driven_race, one_lap, visit_states
from tests.support.real import recorded
from tests.support.sliders import slider

TRACK_WIDTH = 13.0
NUMBER_PX = (7.0, 11.0)  # width and height of a character in a browser


def monza() -> Circuit:
    """Return the real circuit from a recorded response of the corner service."""
    sent = json.loads(recorded("f1/multiviewer_monza_2020.json").read_text())
    lap = ReferenceLap.from_points(np.column_stack([sent["x"], sent["y"]]) / 10)
    places = np.array([[c["trackPosition"]["x"], c["trackPosition"]["y"]] for c in sent["corners"]]) / 10
    corners = zip(sent["corners"], turned(places, sent["rotation"]), lap.distance(places), strict=True)
    return Circuit(
        "Monza", turned(np.vstack([lap.points, lap.points[:1]]), sent["rotation"]), lap.length,
        tuple((str(c["number"]), float(x), float(y), float(d), c["angle"] + sent["rotation"]) for c, (x, y), d in corners),
        tuple(f"from T{c['number']}" for c in sent["corners"]),
    )  # fmt: skip


CIRCUITS = {
    "shanghai": lambda: open_circuit(sessions.simulated("shanghai")),
    "suzuka": lambda: open_circuit(sessions.simulated("suzuka")),
    "monza": monza,
}


@pytest.mark.parametrize("name", CIRCUITS)
@pytest.mark.parametrize(("least", "height", "most"), map_labels.WIDTHS)
@pytest.mark.parametrize("weights", [[1.0], [0.5, 0.3, 0.2]])
def test_badges_overlap_nothing_on_the_map(name, least, height, most, weights):
    circuit = CIRCUITS[name]()
    at = map_labels.lay_out(circuit, max(least, 300), height)
    parts = [Part(7 + j, 1.0, w, True) for j, w in enumerate(weights)][:most]
    kept = at.label_places([parts] * len(circuit.segments))
    assert len(kept) > 0.6 * len(circuit.segments) if len(parts) == 1 else bool(kept) == bool(most)
    box = np.array([map_labels.half_size(parts)] * len(kept)).reshape(-1, 2)
    named = np.isfinite(at.numbers[:, 0])
    assert named.mean() >= 0.8, "most corners have their number"
    numbers = np.array([[len(corner[0]) * NUMBER_PX[0], NUMBER_PX[1]] for corner in circuit.corners])[named] / 2
    for zoom in (1.0, 1.7, 4.0):  # boxes keep their size while the map grows
        scale = at.scale * zoom
        middles, line, at_numbers = (
            np.array([*kept.values()]).reshape(-1, 2) * scale,
            circuit.line * scale,
            at.numbers[named] * scale,
        )

        def meet(a, b, half_a, half_b):
            return (np.abs(a[:, None] - b[None]) < half_a[:, None] + half_b[None]).all(axis=-1)

        assert not (meet(middles, middles, box, box) & ~np.eye(len(kept), dtype=bool)).any()
        assert not meet(middles, at_numbers, box, numbers).any()
        assert not (meet(at_numbers, at_numbers, numbers, numbers) & ~np.eye(len(numbers), dtype=bool)).any()
        for places, half in ((middles, box), (at_numbers, numbers)):
            clear = np.linalg.norm(np.maximum(np.abs(places[:, None] - line[None]) - half[:, None], 0), axis=-1)
            assert clear.min(initial=np.inf) > TRACK_WIDTH / 2


def test_lighter_of_two_overlapping_badges_is_hidden():
    circuit = open_circuit(sessions.simulated("shanghai"))
    at = map_labels.lay_out(circuit, 520, 520)
    at.anchors[1], at.normals[1] = at.anchors[0] + 3 / at.scale, at.normals[0]
    for light in (0, 1):
        weights = [0.2 if segment == light else 0.6 for segment in range(len(circuit.segments))]
        kept = at.label_places([[Part(0, 1.0, w, True)] for w in weights])
        assert {0, 1} & set(kept) == {1 - light}
    map_labels.lay_out.cache_clear()


def _figure(circuit: Circuit, n_states: int, weights: list[float]) -> circuit_map.Figure:
    parts = [
        [Part((c + j) % n_states, 1 - j / 10, w, True) for j, w in enumerate(weights)]
        for c in range(len(circuit.segments))
    ]
    states = np.full((circuit.n_bins, n_states), 1 / n_states, np.float32)
    distance = np.arange(circuit.n_bins) * circuit.length / circuit.n_bins
    return circuit_map.circuit_map(
        circuit, one_lap(circuit.position_at(distance), distance), states,
        badges=map_labels.badges(circuit, parts, most=map_labels.MOST), title="VER, 56 laps",
    )  # fmt: skip


def test_exported_map_uses_the_layout_of_its_width():
    circuit = open_circuit(sessions.simulated("shanghai"))
    figure = legend.with_key(_figure(circuit, 4, [0.6, 0.4]), {"states": legend.states(4)})
    wide = fit_to_width(figure, 900)
    assert sum(mark.get("name") == "badge" for mark in wide["layout"]["annotations"]) > 10
    assert wide["height"] > fit_to_width(_figure(circuit, 4, [0.6]), 900)["height"], "the legend adds height"
    assert sum(mark.get("name") == "badge" for mark in fit_to_width(figure, 350)["layout"]["annotations"]) == 0


@pytest.mark.parametrize(
    ("name", "official"), [("shanghai", ("corners_shanghai_2025", 237)), ("suzuka", ("corners_suzuka_2024", 49))]
)
def test_simulated_circuits_match_the_real_ones(name, official):
    file, degrees = official
    rows = np.loadtxt(recorded(f"f1/{file}.csv"), delimiter=",", skiprows=1)
    real = turned(rows[:, 1:3] / 10, degrees)
    drawn = np.array([corner[1:3] for corner in open_circuit(sessions.simulated(name)).corners])
    apart = (drawn - drawn.mean(axis=0)) - (real - real.mean(axis=0))
    assert np.linalg.norm(apart, axis=1).mean() < 60  # metres; the circuits span two kilometres


def test_circuit_without_corners_has_a_map():
    line = np.array([[0, 0], [500, 0], [500, 300], [0, 300], [0, 0]], np.float32)
    empty = Circuit("Ring", line, 1600.0, (), ())
    sizes = map_labels.widths(empty, (), 3, "AAA")
    assert [len(one["layout"]["annotations"]) for one in sizes] == [1] * 3
    assert map_labels.lay_out(empty, 500, 400).anchors.shape == (0, 2)


def test_strip_of_a_new_driver_survives_a_failed_fit(monkeypatch, tmp_path):
    """The driver changes, and the next fit begins before the driver's states are known, and fails."""
    shown, feed = record(monkeypatch), arrange(monkeypatch, tmp_path, driven_race)
    app = visit_states(source="real", K="3")
    feed.auto = False
    box(app, "Compare with").set_value("CCC").run()
    (asked,) = feed.waiting("ask-states")
    slider(app, "K").set_value(4).run()
    (fit,) = feed.waiting("fit")
    feed.run(asked)
    app.run()
    assert not _blank_rows(shown["strips"][0]), "known while the next fit runs"
    feed.failing = "It failed."
    feed.run(fit)
    box(app, "Compare with").set_value("BBB").run()
    app.run()
    feed.auto = True
    feed.run_all()
    app.run()
    assert not _blank_rows(shown["strips"][0])


def _blank_rows(figure: Figure) -> list[int]:
    """Return the rows of strips that consist of one colour: those without states."""
    cells = untyped(figure["data"][0]["z"])
    return [row for row, values in enumerate(cells) if len(np.unique(values)) == 1]
