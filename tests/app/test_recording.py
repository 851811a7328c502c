"""What Behaviour and Your data share, away from their pages: what is measured, how recordings are cut, and the player."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from datasets import keypoints, mice
from datasets.splits import split_recording, split_trials, usable
from gdm_core.analysis import bout_scores
from gdm_core.analysis.bouts import BoutRule, transition_shares
from gdm_core.analysis.metrics import macro_f1, majority_map, persistence, r2
from gdm_core.errors import DataError
from gdm_core.trials import Trial, Trials
from gdm_studio.plot.figures.base import untyped
from pages.behaviour import recordings
from pages.lab import data as lab_data
from pages.lab import figures, live, recording, scores, tabs
from pages.lab.data import MOST_LATENT
from pages.lab.live import screen
from pages.lab.live.pictures import PREVIEW_SAMPLES, Wanted, previewed
from pages.lab.naming import Naming
from pages.lab.poses import clips, player
from pages.lab.view import Unread
from tests.support.recording import SMALL, view_of

CONFIG = {"n_states": 5, "temperature": 0.99, "stickiness": "learn", "posterior": "linear", "n_latent": 6, "seed": 0}


# ---- scores -------------------------------------------------------------------------------------------------------
def test_scores_are_those_of_the_library(sketch):
    data, model, content = sketch
    rule = BoutRule(0.5, 0.3)
    found = bout_scores.measure(content, data.train, data.test, 0.5, 0.3)
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


def test_the_card_holds_scores_against_the_best_line_without_labels(sketch):
    data, _, content = sketch
    found = bout_scores.measure(content, data.train, data.test, 0.0, 0.0)
    lines = {"k-means on steps": {"macro_f1": 0.95}, "10-NN on position": {"macro_f1": 0.99}}
    row = next(row for row in scores.bout_rows(found | {"lines": lines}) if row.name == "Macro-F1")
    assert (row.line_name, row.line) == ("k-means on steps", 0.95)
    assert row.verdict == "short", "four trials of ten seconds carry none"
    assert any("10-NN" in name for name, _ in row.others)


def test_recordings_without_labels_are_measured_without_them(sketch):
    data, _, content = sketch
    blank = replace(data.test, trials=tuple(replace(t, labels=None) for t in data.test))
    found = bout_scores.measure(content, data.train, blank, 0.0, 0.0)
    assert "macro_f1" not in found
    assert [row.name for row in scores.bout_rows(found | {"lines": {}})] == ["Median bout", "Explains new trials (R²)"]
    assert bout_scores.baselines(data.train, blank, 4) == {}


def test_the_figure_of_trials_draws_every_trial_beside_its_line(sketch):
    data, _, content = sketch
    figure = figures.trial_scores(bout_scores.measure(content, data.train, data.test, 0.0, 0.0))
    assert len(figure["layout"]["xaxis"]["ticktext"]) == 5
    assert sum(len(trace["customdata"]) for trace in figure["data"]) >= 2 * len(data.train)


def test_transitions_count_bouts_and_the_graph_draws_the_likely_ones():
    matrix = transition_shares(np.repeat([0, 1, 0, 2, 0, 1], 5), 4)
    np.testing.assert_allclose(matrix[0, :3], [0, 2 / 3, 1 / 3])
    assert np.isnan(matrix[3]).all()
    figure = figures.transition_graph(matrix, [0.5, 0.3, 0.2, 0.0], ["a", "b", "c", "d"], [0, 1, 2])
    arrows = [a for a in figure["layout"]["annotations"] if a.get("showarrow")]
    assert len(arrows) == 4
    assert "b to a 100%" in figure["alt"]


# ---- data ---------------------------------------------------------------------------------------------------------
def test_recordings_and_trials_are_cut_without_losing_a_frame():
    table = mice.simulate_recordings(1, 101, seed=0)[0]
    first, rest = split_recording(table)
    np.testing.assert_array_equal(np.concatenate([first[0].xy, rest[0].xy]), table.xy)
    np.testing.assert_array_equal(np.concatenate([first[0].labels, rest[0].labels]), table.labels)
    many = Trials(tuple(Trial(np.random.default_rng(i).normal(size=(50, 2))) for i in range(5)))
    train, test = split_trials(many)
    assert (len(train), len(test)) == (3, 2)
    with pytest.raises(DataError, match="at least 40"):
        split_trials(Trials((Trial(np.zeros((10, 1))),)))


def test_channels_that_never_move_are_left_out_and_named():
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


def test_long_sets_are_previewed_in_part_and_private_fits_are_not_kept():
    long = Trials(tuple(Trial(np.zeros((PREVIEW_SAMPLES // 2, 1)), name=str(i)) for i in range(4)))
    assert previewed(long) == 2
    wanted = Wanted("gdm", CONFIG, long, keep=False)
    assert wanted.request.preview == (0, 1)
    assert not wanted.request.use_cache


def test_a_new_trial_waits_for_the_exact_look(engine):
    data = recordings.load_simulated(SMALL)
    fit = live.Live(engine, "s")
    fit.want(Wanted("gdm", CONFIG | {"n_states": 4}, data.train, data.test))
    shown = fit.poll()
    view = view_of(data, Naming.plain(4), BoutRule(), fit=fit, shown=shown, index=len(data.train))
    assert isinstance(view.read(), Unread)
    screen.states_of(fit, shown)
    look = screen.states_of(fit, shown).value
    here = replace(view, look=look).read()
    expected = np.asarray(look.test[0])[:, list(shown.order)]
    np.testing.assert_array_equal(here.states, expected)
    mapping = [3, 1, 0, 2]
    read = recording.as_labels(view, here, shown.order, mapping)
    np.testing.assert_array_equal(read, np.array(mapping)[np.asarray(look.test[0]).argmax(axis=1)])


def test_where_it_starts_is_within_what_is_offered(monkeypatch):
    data = recordings.load_simulated(SMALL)
    looked = replace(data.suggestion, n_latent=MOST_LATENT + 2, why_latent="8 hold 91 %")
    monkeypatch.setattr(lab_data, "suggest", lambda trials: looked)
    wide = replace(data)
    assert wide.start[1] == MOST_LATENT
    assert wide.why_latent == "as many as are offered; 8 hold 91 %"
    drawn, said = {}, []
    monkeypatch.setattr(tabs, "plot", lambda figure, key, **_: drawn.update({key: figure}))
    monkeypatch.setattr(tabs.shell, "quiet", said.append)
    view = view_of(wide, Naming.plain(4), BoutRule())
    tabs.features(view, view.read())
    assert f"D starts at {MOST_LATENT}: as many as are offered" in said[0]
    lines = {shape["x0"] for shape in drawn["variance"]["layout"]["shapes"]}
    assert lines == {MOST_LATENT}


# ---- the player ---------------------------------------------------------------------------------------------------
def test_poses_are_packed_to_within_a_hundredth_of_a_pixel_of_what_the_figure_shows():
    table = mice.simulate_recordings(1, 50, seed=0)[0]
    xy = np.array(table.xy)
    xy[3, 0, :, 2] = np.nan
    packed, box, _ = player.packed(replace(table, xy=xy), slice(None))
    levels = untyped(packed)
    assert (levels[3, 0, :, 2] == player.MISSING).all()
    scale = table.image_size[0] / box[2]
    seen = np.isfinite(xy)
    np.testing.assert_allclose(levels[seen] * scale, xy[seen], atol=0.6 * scale)
    assert scale < 0.05


def test_skeletons_come_from_the_file_else_from_the_parts():
    table = mice.simulate_recordings(1, 50, seed=0)[0]
    assert player.edges_of(table) == table.edges
    assert player.edges_of(replace(table, edges=())) == table.edges
    other = keypoints.KeypointTable(np.zeros((5, 1, 2, 3)), ("a",), ("p", "q", "r"))
    assert player.edges_of(other) == ((0, 1), (1, 2))


def test_clips_are_the_middles_of_the_longest_bouts_of_each_trial_in_turn():
    data = mice.simulate(3, 300, seed=0)
    view = SimpleNamespace(data=SimpleNamespace(trials=tuple(data)))
    where = [np.zeros(300, bool) for _ in range(3)]
    where[0][10:30] = where[0][100:280] = True
    where[1][50:80] = True
    where[2][5:9] = True  # too short to see anything
    found = clips.choose(where, view, 9)
    assert found == [(0, 145, 235), (1, 50, 80), (0, 10, 30)]
    assert clips.choose(where, view, 2) == found[:2]
