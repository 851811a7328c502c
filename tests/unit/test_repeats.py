"""Repeated values: what is found, what a fit does with it, and states at the original samples."""

import json

import numpy as np
import pytest

import gdm_core
from datasets import nascar, regimes
from gdm_core import ARHMM, GDM, load_model
from gdm_core.analysis.state_scores import matched_accuracy
from gdm_core.engine.spec import FitSpec
from gdm_core.errors import FitWarning
from gdm_core.maths.repeats import NewValues, Repeats
from gdm_core.trials import Trial, as_trials

EM = {"n_iter": 3, "n_restarts": 1}
pytestmark = pytest.mark.filterwarnings("ignore::gdm_core.errors.FitWarning")


def levels(n_samples=1500, seed=0):
    trial = regimes.simulate("levels", n_samples, seed)[0]
    return np.array(trial.y), np.array(trial.labels)


def one_more(y, values):
    return np.column_stack([y, values]).astype(np.float32)


def held(y, seed=0, length=10):
    values = np.random.default_rng(seed).standard_normal(len(y) // length + 1)
    return one_more(y, np.repeat(values, length)[: len(y)])


def pedal(y, seed=0):
    return one_more(y, np.cumsum(np.random.default_rng(seed).random(len(y)) < 0.03) % 2)


def events(y, seed=0):
    rng = np.random.default_rng(seed)
    return one_more(y, (rng.random(len(y)) < 0.02) * rng.standard_normal(len(y)))


def stopping(y, seed=0):
    values = np.random.default_rng(seed).standard_normal(len(y))
    values[2 * len(y) // 3 :] = values[2 * len(y) // 3]
    return one_more(y, values)


def repeating(y, seed=0):
    rows = np.arange(len(y))
    rows[1:][np.random.default_rng(seed).random(len(y) - 1) < 0.3] = -1
    return y[np.maximum.accumulate(rows)]


def with_zeros(y, seed=0):
    y, first = y.copy(), int(np.random.default_rng(seed).integers(100, len(y) - 200))
    y[first : first + 75] = 0
    return y


ROWS = {
    "doubled": lambda y, seed: np.repeat(y, 2, axis=0),
    "tripled": lambda y, seed: np.repeat(y, 3, axis=0),
    "random": repeating,
    "held": held,
    "events": events,
    "pedal": pedal,
    "dead": stopping,
    "zeros": with_zeros,
}


# ---- what is found --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["levels", "rotations", "variances", "walk", "outliers"])
def test_ordinary_data_are_fitted_as_recorded(kind):
    y = regimes.simulate(kind, 1500, seed=1)[0].y
    found = Repeats.find([y])
    assert found.describe("abcdefgh"[: y.shape[1]]) == []
    assert found.apply(y).y is y


def test_rounded_values_and_limits_of_a_scale_are_kept():
    rng = np.random.default_rng(0)
    y = np.column_stack([np.round(rng.standard_normal(2000).cumsum()), np.clip(2 * rng.standard_normal(2000), -1, 1)])
    assert [one.kind for one in Repeats.find([y]).channels] == ["fine", "limited"]


@pytest.mark.parametrize(
    ("make", "kind"), [(held, "held"), (pedal, "discrete"), (events, "discrete"), (stopping, "fine")]
)
def test_kind_of_a_repeating_channel_is_found(make, kind):
    y = make(levels()[0])
    found = Repeats.find([y])
    assert [one.kind for one in found.channels] == ["fine"] * 3 + [kind]
    missing = np.isnan(found.apply(y).y)
    assert not missing[:, :3].any()
    assert missing[:, 3].sum() == {"held": 1350, "discrete": 0, "fine": 499}[kind]


def test_blocks_in_which_all_channels_stop_are_missing():
    y = with_zeros(pedal(levels()[0]))
    found = Repeats.find([y])
    assert found.stopped == 75
    assert np.isnan(found.apply(y).y).all(axis=1).sum() == 75


def test_uneven_rows_are_thinned_to_the_original_clock():
    rows = np.floor(np.arange(2400) / 2.4).astype(int)  # 25 Hz on a clock of 60 Hz
    y = levels(1000)[0]
    fitted = Repeats.find([y[rows]]).apply(y[rows])
    np.testing.assert_array_equal(fitted.y, y)
    np.testing.assert_array_equal(fitted.rows, rows)


def test_lost_frames_of_doubled_rows_are_missing():
    y = levels(600)[0]
    shown = y.copy()
    shown[300] = shown[299]
    fitted = Repeats.find([np.repeat(y, 2, axis=0)]).apply(np.repeat(shown, 2, axis=0)).y
    assert len(fitted) == 600
    assert np.flatnonzero(np.isnan(fitted).any(axis=1)).tolist() == [300]


def test_gaps_are_not_repeats():
    y = held(levels()[0])
    y[200:300] = np.nan
    y[::7, 3] = np.nan
    found = Repeats.find([y])
    assert found.stopped == 0
    assert np.isfinite(found.apply(y).y[:, 3]).sum() == 140


# ---- fits -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("family", "name", "seed"),
    [(ARHMM, name, 0) for name in ROWS]
    + [(GDM, name, 0) for name in ("doubled", "pedal")]
    + [pytest.param(GDM, name, seed, marks=pytest.mark.bulk) for name in ROWS for seed in range(3)]
    + [pytest.param(ARHMM, name, seed, marks=pytest.mark.bulk) for name in ROWS for seed in range(1, 3)],
)
def test_states_are_found_among_repeats(family, name, seed):
    y, labels = levels(seed=seed)
    y = ROWS[name](y, seed)
    model = family(n_states=3, n_latent=3).fit(y, calibrate=False)
    model.raise_if_failed()
    found = model.predict(y)
    assert matched_accuracy(found, np.repeat(labels, len(y) // len(labels))) > (0.9 if name == "pedal" else 0.95)


@pytest.mark.bulk
def test_doubled_rows_do_not_change_the_soft_track():
    trial = nascar.train_test("soft", 0)[0]
    plain = GDM(seed=0).fit(trial).predict_proba(trial)
    doubled = np.repeat(trial.y, 2, axis=0)
    np.testing.assert_array_equal(GDM(seed=0).fit(doubled).predict_proba(doubled), np.repeat(plain, 2, axis=0))


def test_suggestion_ignores_tripled_rows():
    y = np.repeat(levels(900)[0], 3, axis=0)
    found = gdm_core.suggest(y, "arhmm-sticky", states=[2, 3, 4], n_latent=3)
    assert found.verdict.n_states == 3


def test_trained_rule_applies_to_other_recordings(tmp_path):
    y = levels(600)[0]
    model = ARHMM(n_states=3, n_latent=3, **EM).fit(np.repeat(y, 2, axis=0))
    expected = model.predict_proba(y)
    np.testing.assert_array_equal(model.predict_proba(np.repeat(y, 2, axis=0)), np.repeat(expected, 2, axis=0))
    np.testing.assert_array_equal(model.predict_proba(np.repeat(y[:4], 2, axis=0))[::2], model.predict_proba(y[:4]))
    assert model.predict_proba(np.repeat(y[:1], 2, axis=0)).shape == (2, 3)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.repeats_ == model.repeats_
    np.testing.assert_array_equal(loaded.predict_proba(np.repeat(y, 2, axis=0)), np.repeat(expected, 2, axis=0))


def test_some_of_several_trials_may_repeat():
    y, _ = levels(900)
    trials = [y[:300], np.repeat(y[300:600], 2, axis=0), y[600:]]
    model = ARHMM(n_states=3, n_latent=3, **EM).fit(trials)
    plain = ARHMM(n_states=3, n_latent=3, **EM).fit([y[:300], y[300:600], y[600:]])
    assert model.score(trials) == plain.score([y[:300], y[300:600], y[600:]])
    assert [len(part) for part in model.predict(trials)] == [300, 600, 300]


def test_repeats_can_be_kept():
    y = np.repeat(levels(400)[0], 2, axis=0)
    model = ARHMM(n_states=2, n_latent=3, repeats="keep", **EM).fit(y)
    assert model.repeats_ is None
    keys = {FitSpec("gdm", {"n_states": 2, "repeats": value}, as_trials(y)).key for value in ("auto", "keep")}
    assert len(keys) == 2


def test_repeats_are_named_in_notes_and_a_warning():
    names = ("a", "b", "c", "speed")
    y = held(levels(400)[0])
    notes = as_trials(Trial(y, channels=names)).notes
    assert [note.partition(":")[0].lower() for note in notes] == ["speed"]
    with pytest.warns(FitWarning, match="speed: .*10 samples"):
        ARHMM(n_states=2, n_latent=3, **EM).fit(Trial(y, channels=names))


def test_record_of_repeats_is_plain_json():
    found = Repeats.find([with_zeros(pedal(held(levels()[0])))])
    assert Repeats.from_dict(json.loads(json.dumps(gdm_core.text.for_json(found)))) == found


# ---- forecasts and filters ------------------------------------------------------------------------------------------
def test_forecasts_of_doubled_rows_count_original_samples():
    y = levels(500)[0]
    doubled = np.repeat(y, 2, axis=0)
    model = ARHMM(n_states=3, n_latent=3, **EM).fit(doubled)
    plain, found = model.forecast(y, horizon=2, adaptive=False), model.forecast(doubled, horizon=4, adaptive=False)
    at = np.arange(10, 400)
    np.testing.assert_allclose(found.mean[2 * at, 0], y[at], atol=1e-5)  # the first of two samples foretells the second
    assert (found.std[2 * at, 0] == 0).all()
    np.testing.assert_allclose(found.mean[2 * at + 1][:, [0, 2]], plain.mean[at], atol=0.3)
    assert matched_accuracy(model.filter(doubled).argmax(axis=1)[::2], model.filter(y).argmax(axis=1)) == 1
    few = model.forecast(doubled, horizon=3, origins=[40, 41, 7])
    assert few.mean.shape == (3, 3, 3)


@pytest.mark.parametrize("make", [held, repeating, lambda y: np.repeat(y, 2, axis=0), with_zeros, pedal])
def test_online_leaves_out_the_same_values(make):
    y = make(levels(600)[0])
    found = Repeats.find([y])
    reader = NewValues(found)
    read = np.array([row for row in map(reader.read, y) if row is not None])
    fitted = found.apply(y).y
    assert read.shape == fitted.shape
    late = np.isnan(fitted) & ~np.isnan(read)  # a stop is known only after some samples
    np.testing.assert_array_equal(np.where(late, np.nan, read), fitted)
    assert late.sum() <= 20 * y.shape[1]


def test_filter_of_repeats_equals_online():
    y = np.repeat(held(levels(200)[0]), 2, axis=0)
    model = ARHMM(n_states=2, n_latent=3, **EM).fit(y)
    online = model.online()
    np.testing.assert_array_equal(model.filter(y), [online.step(row).shares for row in y])
    assert online.n_seen == 200
