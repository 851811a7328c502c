"""What a state is: curvature of the track, pedals, and the name that follows from them."""

from __future__ import annotations

import numpy as np
import pytest

from datasets.f1.driving import ACTIVITIES, activities, curvature, describe, proposed_names
from datasets.formula1 import lap_distance, simulate_race


def test_the_curvature_of_a_circle_is_one_by_its_radius_and_its_sign_the_side():
    turn = np.linspace(0, 2 * np.pi, 400)
    circle = 100 * np.column_stack([np.cos(turn), np.sin(turn)])
    at = np.linspace(0, 600, 50)
    np.testing.assert_allclose(curvature(circle, 2 * np.pi * 100, at), 0.01, rtol=0.05)
    np.testing.assert_allclose(curvature(circle[::-1], 2 * np.pi * 100, at), -0.01, rtol=0.05)
    assert curvature(circle, 2 * np.pi * 100, [-10.0])[0] == pytest.approx(0.01, rel=0.05), "over the line"


def test_states_are_named_by_what_is_done_in_them():
    states = np.repeat(np.eye(6), 10, axis=0)
    of = lambda *values: np.repeat(values, 10)  # noqa: E731
    channels = {
        "speed": of(310.0, 90.0, 250.0, 150.0, 230.0, 300.0),
        "throttle": of(100.0, 20.0, 0.0, 40.0, 60.0, 99.0),
        "brake": of(0.0, 0.1, 1.0, 0.9, 0.0, 0.0),
        "gear": of(8.0, 2.0, 7.0, 4.0, 6.0, 8.0),
    }
    turn = of(0.0, -0.02, 0.0, 0.01, 0.005, 0.001)
    found = describe(states, channels, turn)
    assert proposed_names(found) == [
        "flat out, 310 km/h",
        "slow right-hander",
        "braking",
        "braking into medium left-hander",
        "fast left-hander",
        "flat out, 300 km/h",
    ]
    assert found[1].speed == pytest.approx(90)
    assert found[1].gear == pytest.approx(2)
    assert found[1].left == 0
    assert np.isnan(found[0].left), "nothing turns there"
    assert found[0].use == pytest.approx(1 / 6)


def test_soft_shares_weigh_and_what_was_not_sent_says_nothing():
    states = np.array([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]])
    (first, second) = describe(states, {"speed": [100.0, 200.0, np.nan]}, [0.0, 0.0, 0.0])
    assert first.speed == pytest.approx(125)
    assert second.speed == pytest.approx(175)
    assert np.isnan(first.throttle)
    assert proposed_names([first, second]) == ["straight, 125 km/h", "straight, 175 km/h"]
    same = describe(np.full((4, 3), 1 / 3), {}, np.zeros(4))
    assert len(set(proposed_names(same))) == 3, "names are told apart in any case"


def test_activities_are_those_of_the_pedals_and_the_track():
    pedals = {"throttle": [100.0, 0.0, 100.0, 50.0, np.nan], "brake": [0.0, 1.0, 0.0, 0.0, 0.0]}
    found = activities(pedals, [0.0, 0.0, 0.01, 0.0, 0.0])
    assert [ACTIVITIES[k] for k in found[:4]] == ["full throttle", "braking", "cornering", "part throttle"]
    assert found[4] == -1
    assert activities({"throttle": [1.0]}, [0.0]) is None


def test_a_simulated_driver_brakes_before_corners_and_is_flat_out_on_straights():
    session = simulate_race("shanghai")
    driver = session.drivers[0]
    reference = session.reference
    line = np.vstack([reference.points, reference.points[:1]])
    part = slice(2000, 6000)
    distance = lap_distance(session, driver.position[part], driver.lap[part])
    turn = curvature(line, reference.length, distance)
    channels = {name: driver.channels[name][part] for name in ("speed", "throttle", "brake", "gear")}
    done = activities(channels, turn)
    assert done is not None
    speed = channels["speed"]
    assert np.mean(speed[done == 2]) > np.mean(speed[done == 1]) + 50
    assert set(np.unique(done)) == {0, 1, 2, 3}
