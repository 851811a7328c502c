"""Simulated Formula 1: circuits, speed limits and a realistic feed."""

import numpy as np
import pytest

from datasets import formula1
from datasets.f1.race import DRIVERS, LAYOUTS, Car, bounded_lap, centreline, corner_limit, flying_lap, simulate_race
from gdm_core.errors import ConfigError

CIRCUITS = {"shanghai": (5451, 16, 0), "suzuka": (5807, 18, 1)}  # metres, corners, self-crossings
TURNING = {"shanghai": -2 * np.pi, "suzuka": 0.0}  # clockwise, and a figure of eight


@pytest.fixture(scope="module")
def race():
    return simulate_race("shanghai", drivers=6, laps=24, seed=3)


@pytest.fixture(scope="module")
def whole_race():
    return simulate_race("shanghai", drivers=2, seed=3)


@pytest.fixture(scope="module")
def suzuka():
    return simulate_race("suzuka", drivers=2, laps=6)


def car(n=1, **changes):
    values = {"grip": 1.4, "power": 700e3, "braking": 0.85, "traction": 0.6, "mass": 850.0} | changes
    return Car(**{name: np.full(n, value) for name, value in values.items()})


def crossings(points):
    """Count the self-crossings of a closed path."""
    start, end = points, np.roll(points, -1, axis=0)

    def side(a, b, c):
        return (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (c[..., 0] - a[..., 0])

    a, b, c, d = start[:, None], end[:, None], start[None], end[None]
    hit = (side(a, b, c) * side(a, b, d) < 0) & (side(c, d, a) * side(c, d, b) < 0)
    i, j = np.nonzero(hit)
    return int(((j - i > 1) & (j - i < len(points) - 1)).sum())


# --- circuits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_layout_closes_at_its_length(circuit):
    length, n_corners, n_crossings = CIRCUITS[circuit]
    line = centreline(circuit)
    assert line.length == pytest.approx(length)
    steps = np.hypot(*np.diff(np.vstack([line.points, line.points[:1]]), axis=0).T)
    assert steps.max() < 1.01 * line.spacing  # also the last step, back to the start
    assert steps.sum() == pytest.approx(length, rel=2e-3)
    turn = (line.curvature * line.spacing).sum()
    assert turn == pytest.approx(TURNING[circuit], abs=1e-9)
    assert [key for key, _ in line.corners] == [str(i + 1) for i in range(n_corners)]
    apexes = [apex for _, apex in line.corners]
    assert apexes == sorted(apexes)
    assert crossings(line.points[::2]) == n_crossings


# --- one lap -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_lap_stays_within_every_limit(circuit):
    line = centreline(circuit)
    one = car(2, grip=LAYOUTS[circuit].grip)
    speed = flying_lap(line.curvature, line.spacing, one)  # [M, 2]
    square = speed**2
    hold = one.hold(square)
    bend = np.abs(line.curvature)[:, None]
    assert (square * bend <= hold * (1 + 1e-9)).all()
    along = (np.roll(square, -1, axis=0) - square) / (2 * line.spacing)
    drag = one.drag * square / one.mass
    spare = np.sqrt(np.maximum(hold**2 - (square * bend) ** 2, 0))
    engine = one.power / (one.mass * speed)
    assert (along <= np.minimum(engine, one.traction * spare) - drag + 1e-6).all()
    # braking is solved from the point after
    later = {name: np.roll(value, -1, axis=0) for name, value in {"spare": spare, "drag": drag}.items()}
    assert (-along <= one.braking * later["spare"] + later["drag"] + 1e-6).all()
    # every speed is limited by the bend, by acceleration or by braking
    at_corner = np.isclose(square, corner_limit(line.curvature, one), rtol=1e-6)
    pushing = np.isclose(along, np.minimum(engine, one.traction * spare) - drag, atol=1e-6)
    braking = np.isclose(-along, one.braking * later["spare"] + later["drag"], atol=1e-6)
    assert (at_corner | np.roll(pushing, 1, axis=0) | braking).all()


def test_straight_ends_at_top_speed():
    long = np.zeros(4000)
    speed = bounded_lap(long, 5.0, car(), np.full((4000, 1), np.inf), np.zeros(1), np.full(1, np.inf))
    assert speed[-1, 0] == pytest.approx((700e3 / 0.9) ** (1 / 3), rel=1e-3)
    assert (np.diff(speed[:, 0]) > -1e-9).all()


# --- races ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("circuit", "low", "high"), [("shanghai", 94, 98), ("suzuka", 91, 96)])
def test_race_laps_take_a_realistic_time(circuit, low, high, race, suzuka):
    session = race if circuit == "shanghai" else suzuka
    for driver in session.drivers:
        clean = driver.laps.seconds[driver.laps.accurate]
        assert low < np.median(clean) < high
        assert 0.05 < clean.std() < 1.0
        assert driver.laps.seconds[0] > np.median(clean) + 2  # a standing start


def test_simulated_data_is_marked(race):
    assert "simulated" in race.title
    assert race.simulated
    assert "approximate" in race.circuit
    assert "nothing here was measured" in race.notes[0]
    assert "simulated" in formula1.to_trials(race, race.codes[0]).name
    assert set(race.codes) < {entry[0] for entry in DRIVERS}


def test_same_seed_gives_the_same_race(race):
    again = simulate_race("shanghai", drivers=("CHI", "APX"), laps=24, seed=3)
    for code in ("APX", "CHI"):
        np.testing.assert_array_equal(again.driver(code).position, race.driver(code).position)
    other = simulate_race("shanghai", drivers=("APX",), laps=2, seed=4)
    assert not np.array_equal(other.driver("APX").laps.seconds, again.driver("APX").laps.seconds[:2])
    state = np.random.get_state()[1].copy()  # noqa: NPY002 (to see that the global state is left alone)
    simulate_race("suzuka", drivers=1, laps=2)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_drivers_finish_in_order_and_differ(race):
    finish = [driver.laps.end[-1] for driver in race.drivers]
    assert finish == sorted(finish)
    assert 10 < finish[-1] - finish[0] < 150
    # speeds at the same place differ by more than their rounding
    speeds = []
    for driver in race.drivers[:5]:
        lap = driver.lap == 10
        along = formula1.lap_distance(race, driver.position[lap], driver.lap[lap])
        speeds.append(np.interp(np.arange(0, 5000, 25.0), along, driver.channels["speed"][lap]))
    assert np.std(speeds, axis=0).max() > 3


def test_pit_stops_cost_time(race):
    for driver in race.drivers:
        laps = driver.laps
        assert 1 <= laps.pit_in.sum() <= 2
        np.testing.assert_array_equal(laps.pit_out[1:], laps.pit_in[:-1])
        normal = np.median(laps.seconds[laps.accurate])
        lost = laps.seconds[laps.pit_in | laps.pit_out].sum() - 2 * normal * laps.pit_in.sum()
        assert 18 < lost / laps.pit_in.sum() < 32
        assert not laps.accurate[laps.pit_in | laps.pit_out].any()


def test_feed_statistics_match_a_real_race(whole_race):
    driver = whole_race.drivers[0]
    steps = np.diff(driver.time)
    assert np.median(steps) == pytest.approx(0.24, abs=0.011)
    assert np.quantile(steps, [0.05, 0.95]) == pytest.approx([0.14, 0.42], abs=0.03)
    assert 0.8 < steps.max() < 2.0
    assert 19_000 < driver.time.size < 22_000  # the real race: 20,779
    np.testing.assert_allclose(driver.position * 10, np.round(driver.position * 10), atol=1e-3)
    assert np.isin(driver.time, whole_race.drivers[1].time).mean() > 0.99  # one clock for all cars
    speed = np.hypot(*np.diff(driver.position, axis=0).T) / steps * 3.6
    told = driver.channels["speed"]
    slow = np.isin(driver.lap[1:], driver.laps.number[driver.laps.accurate]) & (steps > 0.2)
    assert np.median(np.abs(speed - (told[1:] + told[:-1]) / 2)[slow]) < 6
    assert np.quantile(told, 0.01) > 50
    assert 300 < told.max() < 345
    assert set(np.unique(driver.channels["gear"])) == set(range(1, 9))
    assert 0.25 < (driver.channels["throttle"] == 100).mean() < 0.6  # the real race: 0.46
    assert 0.12 < driver.channels["brake"].mean() < 0.3  # the real race: 0.21
    assert not ((driver.channels["brake"] > 0) & (driver.channels["throttle"] > 50)).any()


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_segments_are_in_order_at_crossings(circuit, race, suzuka):
    session = race if circuit == "shanghai" else suzuka
    n = CIRCUITS[circuit][1]
    assert len(session.corners) == n
    distances = [corner.distance for corner in session.corners]
    assert distances == sorted(distances)
    for code in session.codes[:3]:
        trial = formula1.to_trials(session, code)[0]
        assert np.isin(np.diff(trial.labels) % n, (0, 1, 2)).all()
        assert np.unique(trial.labels).size == n
        along = formula1.lap_distance(session, trial.position, trial.segments)
        ahead = np.mod(np.diff(along) + 20, session.reference.length) - 20
        assert ahead.min() > -20
        assert ahead.max() < 40


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"circuit": "monza"}, "no drawn circuit 'monza'; there are shanghai, suzuka"),
        ({"laps": 0}, "laps is 0"),
        ({"drivers": ("VER",)}, "drivers names VER; the invented drivers are APX"),
        ({"drivers": ("APX", "APX")}, "somebody twice"),
    ],
)
def test_invalid_races_raise_config_error(wrong, words):
    with pytest.raises(ConfigError, match=words):
        simulate_race(**{"circuit": "shanghai"} | wrong)
