"""Comparisons of settings by their scores."""

import json

import numpy as np
import pytest

from datasets import nascar
from gdm_core.analysis import comparisons
from gdm_core.analysis.comparisons import Cell, fit_cell, measure_baselines, split_blocks, verdict
from gdm_core.analysis.metrics import Evaluation
from gdm_core.errors import DataError
from gdm_core.models.registry import import_family
from gdm_core.trials import Trial, Trials


def table(mean, spread=0.1, seeds=3, blocks=12, seed=0, hard=None):
    """Return [seeds, blocks] around a mean; `hard` is added to every setting."""
    noise = spread * np.random.default_rng(seed).normal(size=(seeds, blocks))
    return (mean + noise + (0 if hard is None else hard)).tolist()


def laps(length=300):
    lap, another = nascar.train_test("standard", 0, length)
    return Trials((lap,)), Trials((another,))


def test_untrained_control_has_the_seed_of_the_fit():
    setting = {"n_states": 4, "n_latent": 2, "transitions": "recurrent_only"}
    cells = [fit_cell("arhmm", setting | {"seed": seed}, *laps()) for seed in (0, 1)]
    first, second = (cell["scores"]["untrained.matched_accuracy"] for cell in cells)
    assert first != second


def test_only_clear_differences_are_reported():
    found = verdict("ten", {"A": table(1.0, seed=1), "B": table(0.98, seed=2), "C": table(0.2, seed=3)})
    assert set(found.best) == {"A", "B"}
    assert [d.second for d in found.behind] == ["C"]
    assert "No clear difference between" in found.sentence
    assert found.sentence.endswith(".")
    assert found.differences[0].first == "A"
    assert not found.differences[0].is_significant
    assert (found.n_blocks, found.n_seeds) == (12, 3)


def test_shared_block_difficulty_cancels():
    hard = np.random.default_rng(0).normal(size=12) * 5
    found = verdict("ten", {"A": table(1.0, seed=1, hard=hard), "B": table(0.5, seed=2, hard=hard)})
    assert found.best == ("A",)
    assert found.behind[0].mean == pytest.approx(0.5, abs=0.15)


def test_spread_over_seeds_widens_intervals():
    lucky = [[value] * 12 for value in (1.5, 0.1, 1.4)]
    assert len(verdict("ten", {"A": lucky, "B": table(0.5, 0.01)}).best) == 2


def test_false_differences_stay_within_confidence():
    wrong = 0
    for trial in range(300):
        names = {name: table(0.0, seed=1000 * trial + i) for i, name in enumerate("ABCD")}
        wrong += any(d.is_significant for d in verdict("ten", names).differences)
    assert wrong <= 0.05 * 300 + 2 * np.sqrt(300 * 0.05 * 0.95)
    right = sum(
        verdict("ten", {"A": table(0.3, seed=2 * i), "B": table(0.0, seed=2 * i + 1)}).best == ("A",) for i in range(50)
    )
    assert right == 50, "and they are not so wide that nothing is ever told"


def test_nan_blocks_are_left_out():
    a = np.array(table(1.0))
    a[:, 3] = np.nan
    found = verdict("ten", {"A": a.tolist(), "B": table(0.0, seed=5)})
    assert found.n_blocks == 11
    assert found.best == ("A",)


def test_single_setting_has_no_sentence():
    assert verdict("ten", {"A": table(1.0)}).sentence == ""


def test_unequal_block_counts_raise_data_error():
    with pytest.raises(DataError, match="same ones"):
        verdict("ten", {"A": table(1.0), "B": table(1.0, blocks=7)})


def test_digits_follow_the_interval():
    close = comparisons.Difference("A", "B", 0.00054, 0.00036)
    assert close.text("ten").replace("\u00a0", " ") == "0.00054 ± 0.00036"
    assert comparisons.Difference("A", "B", 0.25, 0.062).text("ten").replace("\u00a0", " ") == "0.250 ± 0.062"


def test_no_block_spans_two_trials():
    _, test = laps()
    two = Trials((test[0].slice(0, 90), test[0].slice(90, 300)))
    blocks = split_blocks(two)
    assert np.array_equal(np.concatenate(blocks), np.arange(300))
    assert not any(block[0] < 90 <= block[-1] for block in blocks)


def test_short_trials_raise_data_error():
    with pytest.raises(DataError, match="Take longer new trials"):
        split_blocks(Trials((Trial(np.zeros((50, 2))),)))


@pytest.mark.parametrize("family", [pytest.param("gdm", marks=pytest.mark.bulk), "arhmm"])
def test_cell_survives_json(family):
    train, test = laps()
    plain = fit_cell(family, {"n_states": 4, "n_latent": 2, "seed": 0}, train, test)
    cell = Cell.from_dict(json.loads(json.dumps(plain)))
    assert set(cell.blocks) == {"states", "density", "ten", "next"}
    assert {len(values) for values in cell.blocks.values()} == {len(split_blocks(test))}
    assert cell.states.shape == (300, 4)
    assert np.allclose(cell.states.sum(axis=1), 1, atol=0.02)
    assert 0 <= cell.scores["coverage_90"] <= 1
    assert cell.mean("states") == pytest.approx(cell.scores["matched_accuracy"], abs=0.02)
    assert cell.parameters > 0


def test_baselines_share_the_blocks_of_fits():
    train, test = laps()
    lines = {name: Cell.from_dict(cell) for name, cell in measure_baselines(train, test, 4).items()}
    assert len(lines["linear AR(1)"].blocks["density"]) == len(split_blocks(test))
    assert "density" not in lines["persistence"].blocks, "a guess without a spread has no density"
    assert lines["linear AR(1)"].mean("ten") > lines["persistence"].mean("ten")
    assert "matched_accuracy" in lines["k-means on steps"].scores


def test_models_and_baselines_share_forecast_origins():
    train, test = laps()
    y = np.array(test[0].y)
    y[0] += 1e4  # no forecast starts at the first sample
    jump = Trials((Trial(y, labels=test[0].labels),))
    lines = (Cell.from_dict(measure_baselines(train, side, 4)["persistence"]) for side in (test, jump))
    ordinary, jumped = (1 - cell.blocks["next"][0] for cell in lines)
    assert jumped < ordinary


def test_block_forecasts_pool_channels_as_evaluate_does():
    train, test = (Trials((Trial(side[0].y * np.r_[1e3, np.ones(9)]),)) for side in laps())
    model = import_family("arhmm")(n_states=3, n_latent=2, n_iter=3).fit(train)
    one = Evaluation(model, train, test)
    blocks = one.predictions.score_blocks(test, [np.arange(300)])
    whole = one.score_predictions().forecast_r2
    assert (blocks["next"][0], blocks["ten"][0]) == pytest.approx((whole[0], whole[9]), abs=0.002)


def test_unlabelled_trials_have_no_state_measure():
    train, test = (Trials((Trial(side[0].y, 1.0),)) for side in laps())
    cell = Cell.from_dict(fit_cell("arhmm", {"n_states": 3, "n_latent": 2, "seed": 0}, train, test))
    assert "states" not in cell.blocks
    assert set(measure_baselines(train, test, 3)) == {"persistence", "linear AR(1)"}
