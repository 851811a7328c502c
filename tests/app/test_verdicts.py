"""Verdicts of the card under Behaviour and Your data: they need enough of the new trials, and say how much they had."""

from __future__ import annotations

import numpy as np
import pytest

from datasets.splits import split_trials
from gdm_core.analysis import bout_scores
from gdm_core.trials import Trial, Trials
from pages.lab import scores
from pages.ui import card
from tests.support.live_engine import Sketch

RATE = 20.0


def stays(n: int, length: float, kinds: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found: list[int] = []
    while len(found) < n:
        found += [int(rng.integers(kinds))] * (1 + int(rng.exponential(length)))
    return np.array(found[:n])


def recording(n_trials: int, n: int, told: bool, seed: int) -> Trials:
    """Places that one of two behaviours decides, and labels that name it; or labels of bouts that have nothing to do with it."""
    made = []
    for i in range(n_trials):
        z = stays(n, 60, 2, 100 * seed + i)
        angle = np.pi * z + np.random.default_rng(seed + i).normal(0, 0.2, n)
        y = 3 * np.column_stack([np.cos(angle), np.sin(angle)])
        labels = z if told else stays(n, 60, 2, 7000 + 100 * seed + i)
        made.append(Trial(y.astype(np.float32), RATE, labels=labels.astype(np.int64), name=f"t{i}"))
    return Trials(tuple(made), "made up", ("slow", "fast"))


def rows_of(whole: Trials, smooth: float = 0.0) -> dict[str, card.Score]:
    train, test = split_trials(whole)
    model = Sketch(n_states=2).fit(train)
    found = bout_scores.measure(model.to_bytes(), train, test, smooth, 0.0)
    lines = bout_scores.baselines(train, test, 2)
    return {row.name: row for row in scores.bout_rows(found | {"lines": lines})}


@pytest.mark.parametrize("seed", range(8))
def test_bouts_that_have_nothing_to_do_with_the_labels_are_never_green(seed):
    for name, row in rows_of(recording(5, 800, told=False, seed=seed)).items():
        if name != "Explains new trials (R²)" and row.line is not None:
            assert row.verdict != "beats", (name, row)


def test_bouts_that_are_the_labels_stand_against_the_same_bouts_at_other_times():
    row = rows_of(recording(5, 2000, told=True, seed=1))["Macro-F1"]
    assert row.value > 0.9
    assert "blocks of about" in row.over
    assert row.spread is not None
    assert row.spread < 0.1
    assert row.line < row.value + 0.02
    assert row.verdict in ("beats", "level"), "k-means knows these places as well"


@pytest.mark.parametrize("n", [100, 240, 400])
def test_a_short_recording_carries_no_verdict_and_says_so(n):
    rows = rows_of(recording(1, n, told=True, seed=2))
    for row in rows.values():
        assert row.spread is None
        if row.line is not None:
            assert row.verdict in ("short", "level")
    assert "too little to say" in card._row(rows["Explains new trials (R²)"])
    assert rows["Explains new trials (R²)"].over in card._row(rows["Explains new trials (R²)"])


def test_each_score_of_the_same_trials_is_measured_over_the_same_pieces():
    rows = [row for row in rows_of(recording(2, 1500, told=True, seed=3)).values() if row.line is not None]
    assert len(rows) == 4
    assert len({(row.over, row.short) for row in rows}) == 1


def test_smoothing_that_hides_what_states_tell_is_said():
    z = np.repeat(np.arange(240) % 2, np.tile([6, 6, 30], 80))
    y = 3 * np.column_stack([np.cos(np.pi * z), np.sin(np.pi * z)]).astype(np.float32)
    train, test = split_trials(Trials((Trial(y, RATE, labels=z),), "fast", ("a", "b")))
    model = Sketch(n_states=2).fit(train).to_bytes()
    assert scores.lost_by_smoothing(bout_scores.measure(model, train, test, 0.0, 0.0)) == ""
    said = scores.lost_by_smoothing(bout_scores.measure(model, train, test, 4.0, 4.0))
    assert "one bout" in said
    part = bout_scores.measure(model, train, test, 0.0, 0.5)
    assert part["raw_macro_f1"] - part["macro_f1"] > scores.LOST
    assert f"{part['raw_macro_f1']:.3f} as fitted" in scores.lost_by_smoothing(part)
