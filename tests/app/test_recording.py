"""Parts that Behaviour and Your data share: scores and verdicts, splits of recordings, poses and tables."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from datasets import keypoints, mice
from datasets.splits import split_trials, usable
from gdm_core import GDM
from gdm_core.analysis import bout_scores
from gdm_core.analysis.bouts import BoutRule
from gdm_core.analysis.predictions import persistence, r2
from gdm_core.analysis.state_scores import macro_f1, majority_map
from gdm_core.errors import DataError
from gdm_core.models.loading import model_from_bytes
from gdm_core.trials import Trial, Trials
from gdm_core.units import dwell_unit, unit_for
from gdm_studio.plot.figures.base import untyped
from pages.behaviour import recordings
from pages.lab import dataset as lab_data
from pages.lab import figures, scores
from pages.lab.dataset import MOST_LATENT
from pages.lab.naming import StateNames, arrange
from pages.lab.poses import player
from pages.lab.tabs import label_counts
from pages.ui import card as cards
from pages.ui import shipped
from tests.support.recording import SMALL, view_of


# ---- scores -------------------------------------------------------------------------------------------------------
def test_scores_equal_those_of_the_library(sketch):
    data, model, content = sketch
    rule = BoutRule(0.5, 0.3)
    found = bout_scores.scores(content, data.train, data.test, 0.5, 0.3)
    known, truth = (np.concatenate([t.labels for t in side]) for side in (data.train, data.test))
    hard, hard_test = (
        np.concatenate([rule.labels(p, 30.0) for p in model.predict_proba(side)]) for side in (data.train, data.test)
    )
    mapping = majority_map(hard, known, 4)
    assert found["macro_f1"] == pytest.approx(macro_f1(mapping[hard_test], truth))
    common = np.bincount(known).argmax()
    assert found["majority"] == pytest.approx((truth == common).mean())
    assert found["majority_f1"] == pytest.approx(macro_f1(np.full(len(truth), common), truth))
    trial = data.test[1]
    assert found["test"][1]["r2"] == pytest.approx(r2(trial.y, model.smooth(trial)))
    assert found["test"][1]["persistence"] == pytest.approx(r2(trial.y, persistence(trial.y)))
    assert len(found["train"]) == len(data.train)
    json.dumps(found)


def test_macro_f1_is_compared_with_unsupervised_baselines(sketch):
    data, _, content = sketch
    found = bout_scores.scores(content, data.train, data.test, 0.0, 0.0)
    lines = {"k-means on steps": {"macro_f1": 0.95}, "10-NN on position": {"macro_f1": 0.99}}
    row = next(row for row in scores.bout_rows(found | {"lines": lines}) if row.name == "Macro-F1")
    assert (row.line_name, row.line) == ("k-means on steps", 0.95)
    assert row.verdict == "short", "four trials of ten seconds are too short for a verdict"
    assert any("10-NN" in name for name, _ in row.others)


@pytest.mark.parametrize("label", [None, 0])
def test_recording_without_two_labels_has_no_label_scores(sketch, label):
    data, _, content = sketch
    known = [None if label is None else np.full(trial.n_samples, label) for trial in data.test]
    one = replace(data.test, trials=tuple(replace(t, labels=z) for t, z in zip(data.test, known, strict=True)))
    found = bout_scores.scores(content, data.train, one, 0.0, 0.0)
    assert found.get("alone") == (None if label is None else "new")
    assert "macro_f1" not in found
    assert [row.name for row in scores.bout_rows(found | {"lines": {}})] == ["Held-out R²", "Median bout"]
    assert bout_scores.baselines(data.train, one, 4) == {}


# ---- data ---------------------------------------------------------------------------------------------------------
def test_constant_channels_are_dropped_and_named():
    y = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    y[:, 1] = 3
    y[:, 2] = np.nan
    sides = [Trials((Trial(part, channels=("a", "b", "c", "d")),)) for part in (y[:40], y[40:])]
    train, test, said = usable(*sides)
    assert train[0].channels == test[0].channels == ("a", "d")
    assert "b, c" in said[0]
    still = Trials((Trial(np.ones((50, 1))),))
    with pytest.raises(DataError, match="None of the 1 channels"):
        usable(still, still)


def test_suggested_dimension_is_within_the_offered_range(monkeypatch):
    data = recordings.load_simulated(SMALL)
    looked = replace(data.suggestion, n_latent=MOST_LATENT + 2, why_latent="8 hold 91 %")
    monkeypatch.setattr(lab_data, "suggest", lambda trials: looked)
    assert replace(data).start[1] == MOST_LATENT


# ---- the player ---------------------------------------------------------------------------------------------------
def test_packed_poses_are_accurate_to_a_fraction_of_a_pixel():
    table = mice.simulate_recordings(1, 50, seed=0)[0]
    xy = np.array(table.xy)
    xy[3, 0, :, 2] = np.nan
    packed = player.pack_poses(replace(table, xy=xy), slice(None))
    levels, box = untyped(packed["xy"]), packed["box"]
    assert (levels[3, 0, :, 2] == player.MISSING).all()
    scale = table.image_size[0] / box[2]
    seen = np.isfinite(xy)
    np.testing.assert_allclose(levels[seen] * scale, xy[seen], atol=0.6 * scale)
    assert scale < 0.05


def test_skeleton_comes_from_the_file_or_the_parts():
    table = mice.simulate_recordings(1, 50, seed=0)[0]
    assert player.skeleton_edges(table) == table.edges
    assert player.skeleton_edges(replace(table, edges=())) == table.edges
    other = keypoints.KeypointTable(np.zeros((5, 1, 2, 3)), ("a",), ("p", "q", "r"))
    assert player.skeleton_edges(other) == ((0, 1), (1, 2))


def test_label_table_counts_each_frame_once(sketch):
    data, _, content = sketch
    found = bout_scores.scores(content, data.train, data.test, 0.3, 0.3)
    shown = SimpleNamespace(order=(2, 0, 3, 1), states=(), result=None)
    view = view_of(data, arrange(["", "mount", "", ""], [0, 1, 2, 3]), BoutRule(0.3, 0.3), shown=shown)
    for side, trials in (("new", data.test), ("fitted", data.train)):
        truth = np.bincount(np.concatenate([t.labels for t in trials]), minlength=len(data.every_label))
        counts, names, labels = label_counts(view, found, side)
        np.testing.assert_array_equal(counts.sum(axis=0), truth)
        assert names == ["S1", "mount", "S3", "S4"]
        assert labels == [data.every_label[found["mapping"][k]] for k in shown.order]


# ---- tables -------------------------------------------------------------------------------------------------------
def test_names_in_figures_are_escaped(sketch):
    data, _, content = sketch
    found = bout_scores.scores(content, data.train, data.test, 0.0, 0.0)
    found["test"][0]["name"] = "<b>one</b>"
    assert "<b>" not in str(figures.trial_scores(found)["data"])


# ---- units and missing labels --------------------------------------------------------------------------------------


def test_label_scores_have_a_majority_baseline(sketch):
    data, _, content = sketch
    found = bout_scores.scores(content, data.train, data.test, 0.0, 0.0)
    for row, trial in zip(found["test"], data.test, strict=True):
        assert row["majority_balanced"] == pytest.approx(1 / len(np.unique(trial.labels)))
    figure = figures.trial_scores(found)
    at = figure["layout"]["xaxis"]["ticktext"].index("balanced<br>accuracy")
    bars = [shape for shape in figure["layout"]["shapes"] if at - 0.5 < shape["x0"] < at + 0.5]
    assert len(bars) == 2
    assert all("majority_balanced" in row for row in shipped.load(recordings.SHIPPED).result.scores["scores"]["test"])


def test_bout_durations_have_a_suitable_unit(sketch):
    assert [unit_for(t).name for t in (0.3, 599, 600, 40_000, 9e5, np.nan)] == ["s", "s", "min", "h", "days", "s"]
    hours = unit_for(40_000)
    assert [dwell_unit(t, hours).name for t in (20, 600, 1800, np.nan)] == ["s", "min", "h", "h"]
    assert dwell_unit(5_000, unit_for(90)).name == "s", "never larger than the unit of the page"
    data, _, content = sketch
    y = np.random.default_rng(0).normal(size=(60, data.train.n_channels)).astype(np.float32)
    daily = Trials((Trial(np.repeat(y, 20, axis=0), 1 / 86_400),))
    model = model_from_bytes(content)
    model.rate_hz_ = daily[0].rate_hz
    found = bout_scores.scores(model.to_bytes(), daily, daily, 0.0, 0.0) | {"lines": {}}
    row = next(row for row in scores.bout_rows(found, unit_for(daily.n_samples * 86_400)) if row.unit)
    assert row.unit == " days"
    assert 1 <= row.value < 1000


def test_time_unit_suits_the_recording(sketch):
    poses, *_ = sketch
    y = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    daily = Trials((Trial(y, 1 / 86_400),))
    table = replace(poses, train=daily, test=daily, poses=())
    views = [view_of(data, StateNames.plain(4), BoutRule()) for data in (poses, table)]
    assert [view.unit.name for view in views] == ["s", "days"]
    here = views[1].unit
    assert here.convert(86_400) == 1


# ---- verdicts -------------------------------------------------------------------------------------------------------
RATE = 20.0


def stays(n: int, length: float, kinds: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found: list[int] = []
    while len(found) < n:
        found += [int(rng.integers(kinds))] * (1 + int(rng.exponential(length)))
    return np.array(found[:n])


def made_up(n_trials: int, n: int, related: bool, seed: int) -> Trials:
    """Return positions set by two behaviours, and labels that name the behaviour or are unrelated to it."""
    made = []
    for i in range(n_trials):
        z = stays(n, 60, 2, 100 * seed + i)
        angle = np.pi * z + np.random.default_rng(seed + i).normal(0, 0.2, n)
        y = 3 * np.column_stack([np.cos(angle), np.sin(angle)])
        labels = z if related else stays(n, 60, 2, 7000 + 100 * seed + i)
        made.append(Trial(y.astype(np.float32), RATE, labels=labels.astype(np.int64), name=f"t{i}"))
    return Trials(tuple(made), "made up", ("slow", "fast"))


def rows_of(whole: Trials) -> dict[str, cards.Score]:
    train, test = split_trials(whole)
    model = GDM(n_states=2, n_latent=2, posterior="linear", n_steps=1).fit(train)
    found = bout_scores.scores(model.to_bytes(), train, test, 0.0, 0.0)
    lines = bout_scores.baselines(train, test, 2)
    return {row.name: row for row in scores.bout_rows(found | {"lines": lines})}


@pytest.mark.parametrize("seed", range(3))
def test_unrelated_bouts_never_beat_the_baseline(seed):
    for name, row in rows_of(made_up(5, 800, related=False, seed=seed)).items():
        if name != "Held-out R²" and row.line is not None:
            assert row.verdict != "beats", (name, row)


def test_bouts_equal_to_labels_score_high():
    row = rows_of(made_up(5, 2000, related=True, seed=1))["Macro-F1"]
    assert row.value > 0.9
    assert row.spread is not None
    assert row.spread < 0.1
    assert row.line < row.value + 0.02
    assert row.verdict in ("beats", "level"), "k-means also separates these positions"


@pytest.mark.parametrize("n", [100, 400])
def test_short_recording_has_no_verdict(n):
    rows = rows_of(made_up(1, n, related=True, seed=2))
    for row in rows.values():
        assert row.spread is None
        if row.line is not None:
            assert row.verdict in ("short", "level")


def test_scores_of_a_card_share_their_blocks():
    rows = [row for row in rows_of(made_up(2, 1500, related=True, seed=3)).values() if row.line is not None]
    assert len(rows) == 4
    assert len({(row.over, row.short) for row in rows}) == 1
