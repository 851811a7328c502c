"""Differences of two cars along the lap over pairs of laps, as trials, and the price of their states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gdm_core.trials import Trial, Trials

from .clock import lap_clock
from .session import Session
from .time_won import Estimate, TimeWon, mean_of_laps

Floats = npt.NDArray[np.float64]
CELL_M = 10.0
SMOOTH_M = 50.0
CHANNELS = ("speed", "throttle", "brake")
UNUSUAL = 1.5  # a state's places: where its share is at least that many times its mean over the lap
SCALES = {"speed": 10.0, "throttle": 25.0, "brake": 0.25}  # a difference of this size counts as one, in every channel


@dataclass(frozen=True, eq=False)
class Differences:
    """Second driver minus the first, on L pairs of laps and T even cells of the lap.

    won        time that the first driver gains over the pairs
    channels   names of the N known channels
    apart      [L, T, N] km/h, percent, and share of the time on the brake
    """

    won: TimeWon
    channels: tuple[str, ...]
    apart: Floats

    @property
    def trials(self) -> Trials:
        """Return one trial per pair, lightly smoothed."""
        wide = round(SMOOTH_M / CELL_M / 2)
        shifted = [np.roll(self.apart, by, axis=1) for by in range(-wide, wide + 1)]
        smooth = np.mean(shifted, axis=0) / [SCALES[name] for name in self.channels]
        parts = (
            Trial(y=y.astype(np.float32), rate_hz=1 / CELL_M, channels=self.channels, name=f"laps {a} and {b}")
            for y, (a, b) in zip(smooth, self.won.pairs, strict=True)
        )
        return Trials(tuple(parts), name="differences")


@dataclass(frozen=True, eq=False)
class Habit:
    """A state of the difference: what the second driver does at its places, and its price.

    states     numbers of the fitted states that it consists of
    here       [T] whether each cell is one of its places
    apart      mean difference of each channel at its places, by name
    price      seconds per lap that the second driver loses there, over all pairs
    confirmed  whether the price is significant in the fitted pairs and, with the same sign, in those kept aside
    """

    states: tuple[int, ...]
    here: npt.NDArray[np.bool_]
    apart: dict[str, Estimate]
    price: Estimate
    confirmed: bool


def differences(session: Session, drivers: tuple[str, str], won: TimeWon) -> Differences | None:
    """Return the differences over the pairs of a comparison; None without a channel that both cars sent."""
    known = [set(session.driver(code).available_channels) for code in drivers]
    channels = tuple(name for name in CHANNELS if all(name in sent for sent in known))
    if not channels:
        return None
    edges = np.linspace(0, 1, max(50, round(session.reference.length / CELL_M)) + 1)
    sides = [
        np.stack([_on_cells(session, code, number, edges, channels) for number in laps])
        for code, laps in zip(drivers, won.laps, strict=True)
    ]
    return Differences(won, channels, sides[1] - sides[0])


def find_habits(
    found: Differences, places: npt.ArrayLike, aside: npt.NDArray[np.bool_], agreement: npt.ArrayLike, least: float
) -> tuple[list[Habit], Habit | None]:
    """Return habits by price, the dearest first, and the rest: no state's place, or one whose place or price does not return.

    A price is the time at a state's places on all pairs, whatever their state: where one driver only happens to be slower on
    some laps, it is zero on average. Prices of habits and rest add up to the delta of the lap.

    places      [T, K] mean share of each state along the fitted pairs
    aside       [L] whether each pair was kept aside
    agreement   [K] correlation of these shares with the pairs kept aside; `least` is needed
    """
    agrees, here = np.asarray(agreement), unusual_places(places)
    fitted, other = (_price(found.won.subset(rows), here) for rows in (~aside, aside))
    returns = here.any(axis=0) & (agrees >= least) & (np.sign(fitted.mean) == np.sign(other.mean))
    sure = fitted.sure & other.sure
    habits = [_habit(found, (k,), here[:, k], bool(sure[k])) for k in np.flatnonzero(returns).tolist()]
    habits.sort(key=lambda habit: -abs(float(habit.price.mean)))
    rest = tuple(np.flatnonzero(~returns).tolist())
    left = np.asarray(~here[:, returns].any(axis=1), bool)
    return habits, _habit(found, rest, left, False) if left.any() else None


def unusual_places(shares: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return [T, K] the places of each state: where its share [T, K] is unusually high, and its excess the largest."""
    share = np.asarray(shares, np.float64)
    mean = share.mean(axis=0)
    excess = np.where(share >= UNUSUAL * mean, share - mean, 0.0)
    return np.asarray((excess > 0) & (excess.argmax(axis=1)[:, None] == np.arange(len(mean))), bool)


def _price(won: TimeWon, here: npt.NDArray[np.bool_]) -> Estimate:
    """Return the seconds per lap that the second driver loses at the places [T, K] of each state."""
    cell = ((won.edges[1:] + won.edges[:-1]) / 2 * len(here)).astype(np.int64)
    return won.sum_parts(here[cell])


def _habit(found: Differences, states: tuple[int, ...], here: npt.NDArray[np.bool_], confirmed: bool) -> Habit:
    weights = here / max(int(here.sum()), 1)
    apart = {name: mean_of_laps(found.apart[:, :, n] @ weights) for n, name in enumerate(found.channels)}
    return Habit(states, here, apart, _price(found.won, here[:, None])[0], confirmed)


def _on_cells(session: Session, code: str, number: int, edges: Floats, channels: tuple[str, ...]) -> Floats:
    """Return [T, N] channels of a lap in the middle of each cell; the brake as share of the cell's time."""
    driver, clock = session.driver(code), lap_clock(session, code, number)
    assert clock is not None  # the pair was timed
    start = float(driver.laps.start[driver.laps.number == number][0])
    sent, ends = driver.raw, start + clock.seconds_at(edges)
    found = []
    for name in channels:
        values = np.asarray(sent.channels[name], np.float64)
        good = np.isfinite(values)
        time, values = sent.time[good], values[good]
        if name == "brake":  # held until the next sample
            total = np.append(0.0, np.cumsum(np.diff(time) * values[:-1]))
            found.append(np.diff(np.interp(ends, time, total)) / np.diff(ends))
        else:
            found.append(np.interp((ends[1:] + ends[:-1]) / 2, time, values))
    return np.column_stack(found)
