"""States of the difference between two drivers: habits with a known price, equal drivers, sums and missing channels."""

from dataclasses import replace

import numpy as np
import pytest

from datasets.f1.clock import LapClock
from datasets.f1.differences import CHANNELS, Differences, differences, find_habits, unusual_places
from datasets.f1.time_won import TimeWon, time_won
from datasets.formula1 import Session, simulate_race
from gdm_core.analysis.repeatable import RETURNS, agreement, repeatable_states
from gdm_core.errors import DataError
from gdm_core.trials import Trials

N_CELLS, CELL_M = 300, 10.0
CORNERS = np.array([30, 80, 130, 180, 230, 280])
PLACES = np.abs(np.arange(N_CELLS) - CORNERS[[1, 4]][:, None]).min(axis=0) <= 10  # of the habit: T2 and T5


def _driver(rng: np.random.Generator, n_laps: int, habit: float = 0.0) -> dict[str, np.ndarray]:
    """Return channels [L, T] of a driver who brakes for six corners; `habit` scales slower, longer braking at two."""
    at = np.arange(N_CELLS)
    near = np.exp(-0.5 * ((at - CORNERS[:, None]) / 7) ** 2).max(axis=0)
    speed, found = 280 - 180 * near, []
    for _ in range(n_laps):
        early = rng.normal(0, 0.8)  # the braking points of a lap
        brake = np.clip(1.5 - np.abs(at - CORNERS[:, None] + 9 + early).min(axis=0) / 3, 0, 0.6)
        wander = np.convolve(rng.normal(0, 15, N_CELLS + 14), np.ones(15) / 15, "valid")
        driven = {
            "speed": speed + wander + rng.normal(0, 0.5, N_CELLS) - habit * 10 * PLACES,
            "throttle": np.clip(100 - 110 * near + rng.normal(0, 6, N_CELLS), 0, 100),
            "brake": np.clip(brake + habit * 0.35 * PLACES, 0, 1),
        }
        found.append(driven)
    return {name: np.stack([lap[name] for lap in found]) for name in CHANNELS}


def _seconds(driven: dict[str, np.ndarray]) -> np.ndarray:
    return CELL_M / (driven["speed"] / 3.6)


def _simulate(seed: int, habit: float, n_pairs: int = 20) -> tuple[Differences, float]:
    """Return the differences of two drivers, and the price of the second one's habit."""
    rng = np.random.default_rng(seed)
    one, other = _driver(rng, n_pairs), _driver(rng, n_pairs, habit)
    plain = dict(other, speed=other["speed"] + habit * 10 * PLACES)
    price = float((_seconds(other) - _seconds(plain)).sum(axis=1).mean())
    edges = np.linspace(0, 1, N_CELLS + 1)
    clock = LapClock(np.array([0.0, 60.0]), np.array([0.0, 60.0]), np.array([0.0, 1.0]), 1e-9)
    pairs = tuple((n, n) for n in range(1, n_pairs + 1))
    won = TimeWon(pairs, "lap number", edges, _seconds(other) - _seconds(one), 0.0, None, (clock,) * (2 * n_pairs))
    return Differences(won, CHANNELS, np.stack([other[name] - one[name] for name in CHANNELS], axis=-1)), price


def _habits(found: Differences):
    fitted = repeatable_states(found.trials)
    return find_habits(found, fitted.places, fitted.aside, fitted.agreement, RETURNS)


def _dearest(seed: int):
    """Return the dearest habit of a driver with one, and its true price."""
    found, price = _simulate(seed, 1.0)
    return next(iter(_habits(found)[0]), None), price


def test_known_habit_is_found_at_its_corners():
    habit, price = _dearest(0)
    assert habit is not None
    assert habit.confirmed
    assert abs(habit.price.mean - price) <= habit.price.margin
    assert habit.apart["brake"].sure
    assert habit.apart["brake"].mean > 0.2
    assert habit.apart["speed"].mean < -5
    assert habit.here[PLACES].mean() > 0.9 > 0.1 > habit.here[~PLACES].mean()


@pytest.mark.bulk
def test_price_of_a_known_habit_is_within_its_interval():
    found = [_dearest(seed) for seed in range(20)]
    assert all(habit is not None for habit, _ in found)
    assert sum(habit.confirmed for habit, _ in found) >= 18, "ten pairs kept aside leave wide intervals"
    inside = [abs(float(habit.price.mean) - price) <= float(habit.price.margin) for habit, price in found]
    assert sum(inside) >= 17


@pytest.mark.bulk
def test_equal_drivers_have_no_habits():
    false = [any(habit.confirmed for habit in _habits(_simulate(seed, 0.0, 12)[0])[0]) for seed in range(100)]
    assert sum(false) <= 5


@pytest.fixture(scope="module")
def race() -> Session:
    return simulate_race("suzuka", drivers=["FLT", "RGL"], laps=24)


def test_prices_add_up_to_the_lap_delta(race):
    won = time_won(race, race.codes, np.linspace(0, 1, 200), pairs=[(n, n) for n in range(3, 11)])
    found = differences(race, race.codes, won)
    assert found.channels == CHANNELS
    assert found.apart.shape == (8, round(race.reference.length / CELL_M), 3)
    rng = np.random.default_rng(0)
    places = rng.dirichlet(np.ones(4), found.apart.shape[1])
    aside = np.arange(8) % 2 == 1
    habits, rest = find_habits(found, places, aside, [0.9, 0.2, 0.99, 0.95], 0.85)
    assert rest is not None
    assert sum(float(one.price.mean) for one in (*habits, rest)) == pytest.approx(float(won.whole.mean))
    assert won.subset(aside).pairs == won.pairs[1::2]
    assert won.subset(aside).whole.mean == pytest.approx(won.won[1::2].sum(axis=1).mean())


def test_state_that_is_everywhere_has_no_places():
    bump = np.exp(-0.5 * ((np.arange(200) - 60) / 8) ** 2)
    shares = np.column_stack([0.1 + 0.5 * bump, 0.9 - 0.5 * bump])
    here = unusual_places(shares)
    assert not here[:, 1].any(), "most of the time on the whole lap"
    assert here[50:70, 0].all()
    assert here[:, 0].mean() < 0.2
    assert not unusual_places(np.full((200, 2), 0.5)).any(), "no place stands out"


def test_differences_work_without_a_channel(race):
    one, other = race.drivers
    lost = {**other.channels, "brake": np.full(len(other.time), np.nan, np.float32)}
    lost["speed"] = np.where(np.arange(len(other.time)) % 7 == 0, np.nan, other.channels["speed"])
    half = replace(race, drivers=(one, replace(other, channels=lost)))
    won = time_won(half, half.codes, np.linspace(0, 1, 50), pairs=[(n, n) for n in range(3, 11)])
    found = differences(half, half.codes, won)
    assert found.channels == ("speed", "throttle")
    assert np.isfinite(found.apart).all()
    assert repeatable_states(found.trials, n_states=(2,)).states.shape[2] == 2


def test_states_need_aligned_recordings():
    found, _ = _simulate(0, 0.0, 6)
    trials = found.trials
    with pytest.raises(DataError, match="5 recordings"):
        repeatable_states(Trials(tuple(trials)[:5], name=""))
    short = replace(trials[0], y=trials[0].y[:-1])
    with pytest.raises(DataError, match="equal length"):
        repeatable_states(Trials((short, *tuple(trials)[1:]), name=""))


def test_agreement_is_the_correlation_of_mean_shares():
    rng = np.random.default_rng(1)
    states = rng.dirichlet(np.ones(3), (6, 50)).astype(np.float32)
    aside = np.array([False, True] * 3)
    found = agreement(states, aside)
    for k in range(3):
        here, there = states[~aside, :, k].mean(axis=0), states[aside, :, k].mean(axis=0)
        assert found[k] == pytest.approx(np.corrcoef(here, there)[0, 1], abs=1e-4)
    assert agreement(np.full((6, 50, 2), 0.5, np.float32), aside).tolist() == [0, 0]
