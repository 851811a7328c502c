"""What Behaviour and Your data share: what is measured, the card and its verdicts, how recordings are cut, and the player."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from datasets import keypoints, mice
from datasets.splits import split_recording, split_trials, usable
from gdm_core.analysis import bout_scores
from gdm_core.analysis.bouts import BoutRule, transition_shares
from gdm_core.analysis.metrics import macro_f1, majority_map, persistence, r2
from gdm_core.errors import DataError
from gdm_core.models.loading import model_from_bytes
from gdm_core.trials import Trial, Trials
from gdm_core.units import unit_for, unit_of_stays
from gdm_studio.plot.figures.base import untyped
from pages.behaviour import recordings
from pages.lab import data as lab_data
from pages.lab import figures, live, naming, recording, scores, shipped, tabs
from pages.lab.card import with_spread
from pages.lab.data import MOST_LATENT
from pages.lab.live import screen
from pages.lab.live.pictures import PREVIEW_SAMPLES, Wanted, previewed
from pages.lab.naming import Naming, arrange
from pages.lab.poses import clips, player
from pages.lab.tabs import label_counts, shortened, trial_table
from pages.lab.view import Unread
from pages.ui import card as cards
from pages.ui.result_files import load_card
from tests.support.controls import control
from tests.support.drawn import pieces
from tests.support.live_engine import QuickEngine, Sketch
from tests.support.page import opened
from tests.support.recording import SMALL, view_of
from tests.support.sliders import slider

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


EARLIER = "Scores of the earlier result:"


def card(app: AppTest) -> str:
    texts = [text for text in pieces(app) if "<style" not in text]
    return " ".join(text for text in texts if "gdm-score" in text or "gdm-quiet" in text or "How good" in text)


def do(engine: QuickEngine, app: AppTest, *slots: str) -> str:
    """Let some of the jobs be done, and say what the card says then."""
    for slot in slots:
        for job in engine.waiting(slot):
            engine.run(job)
    app.run()
    return card(app)


def test_scores_and_the_lines_they_have_to_beat_change_together(engine):
    app = opened("behaviour")
    before = card(app)
    assert EARLIER not in before
    scored = f"{shipped.load(recordings.SHIPPED).more['scores']['macro_f1']:.3f}"
    verdict = before[before.index("data-verdict") :][:30]
    engine.auto = False
    slider(app, "K").set_value(4).run()
    for slots in ((), ("warm", "main"), ("ask-look",)):
        now = do(engine, app, *slots)
        assert f"{EARLIER} K\u00a05." in now, slots
        assert scored in now
        assert now[now.index("data-verdict") :][:30] == verdict
        assert "converged" not in now, "the line on the new fit does not stand under scores of the old one"
    assert engine.waiting("ask-scores")
    after = do(engine, app, "ask-scores")
    assert EARLIER not in after
    assert "converged" in after
    control(app, "slider", "smooth").set_value(0.3).run()
    now = card(app)
    assert f"{EARLIER} bouts smoothed over 1.1 s, none below 1.1 s." in now, "what differs is how bouts are read"
    assert EARLIER not in do(engine, app, "ask-scores")


def test_another_recording_shows_no_numbers_of_the_one_before(engine):
    engine.auto = False
    app = opened("behaviour")
    app.number_input(key="mice").set_value(3).run()
    for slots in (("warm", "main"), ("ask-look",)):
        now = do(engine, app, *slots)
        assert EARLIER not in now
        assert "data-verdict" not in now
    assert "data-verdict" in do(engine, app, "ask-scores")


def test_scores_of_the_visitors_names_stand_beside_the_automatic_ones_as_his(engine):
    app = opened("behaviour")
    assert "as you named" not in card(app)
    for k, word in enumerate(("attack", "investigation", "mount", "other", "other"), start=1):
        control(app, "text_input", f"name{k}").set_value(word)
    app.run()
    now = card(app)
    assert "Macro-F1, as you named them" in now
    automatic = f"{shipped.load(recordings.SHIPPED).more['scores']['macro_f1']:.3f}"
    assert f"automatic {automatic}" in now
    row = now[now.index("Macro-F1, as you named them") - 400 : now.index("Macro-F1, as you named them")]
    assert 'data-verdict=""' in row[row.rindex("gdm-score") :], "no verdict on what may have been named by the labels"
    control(app, "text_input", "name1").set_value("")
    for k in range(2, 6):
        control(app, "text_input", f"name{k}").set_value("")
    control(app, "selectbox", "is4").set_value("mount").run()
    assert "as you named them" in card(app)
    control(app, "selectbox", "is4").set_value(naming.UNSAID)
    control(app, "selectbox", "into2").set_value("S1").run()
    assert "as you named them" in card(app), "a merger is scored, too"


def test_names_that_cannot_be_scored_are_said(engine):
    engine.unable["ask-named"] = "It was given up after 120 s."
    app = opened("behaviour")
    control(app, "text_input", "name1").set_value("attack").run()
    page = "".join(pieces(app))
    assert "Your own names could not be scored" in page
    assert "as you named" not in card(app)
    engine.unable.clear()
    next(one for one in app.button if "-again-named" in str(one.key)).click().run()
    assert "as you named" in card(app)


def test_the_table_of_labels_counts_each_frame_once_and_says_what_is_yours(sketch):
    data, _, content = sketch
    found = bout_scores.measure(content, data.train, data.test, 0.3, 0.3)
    made = arrange(["", "mount", "", ""], [0, 1, 1, 3], labels=data.label_names)
    shown = SimpleNamespace(order=(2, 0, 3, 1), train=(), result=None)
    view = view_of(data, made, BoutRule(0.3, 0.3), shown=shown)
    into, stands = view.naming_for(len(view.shown.order)).stands_for(view.shown.order)
    assert into == (1, 2, 0, 1), "the model's first state is the page's second, which is called mount"
    assert stands == (-1, data.label_names.index("mount"), -1)
    own = bout_scores.named(content, data.train, data.test, 0.3, 0.3, into, stands)
    for side, trials in (("new", data.test), ("fitted", data.train)):
        truth = np.bincount(np.concatenate([t.labels for t in trials]), minlength=len(data.every_label))
        counts, names, says = label_counts(view, found, None, side)
        np.testing.assert_array_equal(counts.sum(axis=0), truth)
        counts, names, says = label_counts(view, found, own, side)
        np.testing.assert_array_equal(counts.sum(axis=0), truth)
        assert names == ["S1", "mount", "S4"]
        assert says[1] == "mount (yours)"
    guess = np.array(own["mapping"])[
        np.concatenate([BoutRule(0.3, 0.3).labels(made.apply(s[:, list(shown.order)])[:, made.used], 30.0)
                        for s in model_from_bytes(content).predict_proba(data.test)])
    ]  # fmt: skip
    assert own["macro_f1"] == pytest.approx(macro_f1(guess, np.concatenate([t.labels for t in data.test])))


def test_home_shows_the_row_of_the_card_that_it_opens(engine):
    (home,) = load_card("behaviour").scores
    found = shipped.load(recordings.SHIPPED).more
    row, *_ = with_spread(scores.bout_rows(found["scores"]), [scores.bout_rows(one) for one in found["seeds"]])
    for field in ("value", "spread", "ahead", "line"):
        assert getattr(home, field) == pytest.approx(getattr(row, field), abs=5e-5), field
    assert (home.line_name, home.digits, home.verdict) == (row.line_name, row.digits, row.verdict)
    assert f"{home.value:.3f} <small>± {home.spread:.3f}" in card(opened("behaviour"))


# ---- tables -------------------------------------------------------------------------------------------------------
def test_names_of_trials_lose_what_they_share_and_stay_apart():
    names = [f"task1/test/mouse{k:03d}_task1_annotator1" for k in (70, 71)]
    assert shortened(names) == ["mouse070", "mouse071"]
    assert shortened(["task1/train/mouse001_a", "task1/test/mouse070_a"]) == ["train/mouse001", "test/mouse070"]
    assert shortened(["mouse 1", "mouse 2"]) == ["mouse 1", "mouse 2"], "there is room for a short beginning"
    assert shortened(["one/and/only/trial"]) == ["one/and/only/trial"]
    assert shortened(["same/name/here", "same/name/here"]) == ["same/name/here"] * 2
    assert shortened(["long/prefix/", "long/prefix/x"]) == ["/", "/x"]


def test_the_table_of_trials_has_no_cell_that_says_none(sketch):
    data, _, content = sketch
    table = trial_table(bout_scores.measure(content, data.train, data.test, 0.0, 0.0))
    assert len(table) == len(data.trials)
    assert not table.isna().to_numpy().any()
    assert (table["macro-F1"][table["side"] == "fitted"] == "–").all()
    assert "None" not in table.to_string()


def test_what_figures_write_is_not_taken_for_markup(sketch):
    data, _, content = sketch
    found = bout_scores.measure(content, data.train, data.test, 0.0, 0.0)
    found["test"][0]["name"] = "<b>one</b>"
    assert "<b>" not in str(figures.trial_scores(found)["data"])
    graph = figures.transition_graph(np.eye(2), [0.5, 0.5], ["<i>a</i>", "b"], [0, 1])
    assert "<i>" not in str(graph["layout"])


# ---- what is measured ---------------------------------------------------------------------------------------------
def test_one_behaviour_alone_cannot_be_scored(sketch):
    data, _, content = sketch
    same = replace(data.test, trials=tuple(replace(t, labels=np.zeros(t.n_samples, np.int64)) for t in data.test))
    found = bout_scores.measure(content, data.train, same, 0.0, 0.0)
    assert found["alone"] == "new"
    assert "macro_f1" not in found
    assert [row.name for row in scores.bout_rows(found | {"lines": {}})] == ["Median bout", "Explains new trials (R²)"]
    assert bout_scores.baselines(data.train, same, 4) == {}


def test_every_score_against_labels_stands_beside_its_majority_class(sketch):
    data, _, content = sketch
    found = bout_scores.measure(content, data.train, data.test, 0.0, 0.0)
    for row, trial in zip(found["test"], data.test, strict=True):
        assert row["majority_balanced"] == pytest.approx(1 / len(np.unique(trial.labels)))
    figure = figures.trial_scores(found)
    at = figure["layout"]["xaxis"]["ticktext"].index("balanced<br>accuracy")
    bars = [shape for shape in figure["layout"]["shapes"] if at - 0.5 < shape["x0"] < at + 0.5]
    assert len(bars) == 2
    assert all("majority_balanced" in row for row in shipped.load(recordings.SHIPPED).more["scores"]["test"])


def test_bouts_are_told_in_a_unit_that_suits_them(sketch):
    assert [unit_for(t).name for t in (0.3, 599, 600, 40_000, 9e5, np.nan)] == ["s", "s", "min", "h", "days", "s"]
    hours = unit_for(40_000)
    assert [unit_of_stays(t, hours).name for t in (20, 600, 1800, np.nan)] == ["s", "min", "h", "h"]
    assert unit_of_stays(5_000, unit_for(90)).name == "s", "no larger than that of the page"
    data, _, content = sketch
    y = np.random.default_rng(0).normal(size=(60, data.train.n_channels)).astype(np.float32)
    daily = Trials((Trial(np.repeat(y, 20, axis=0), 1 / 86_400),))
    found = bout_scores.measure(content, daily, daily, 0.0, 0.0) | {"lines": {}}
    row = scores.bout_rows(found, unit_for(daily.n_samples * 86_400))[0]
    assert row.unit == " days"
    assert 1 <= row.value < 1000


def test_long_tables_have_an_axis_of_their_own_and_poses_that_of_the_player(sketch):
    poses, *_ = sketch
    y = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    daily = Trials((Trial(y, 1 / 86_400),))
    table = replace(poses, train=daily, test=daily, poses=())
    views = [view_of(data, Naming.plain(4), BoutRule()) for data in (poses, table)]
    assert [view.unit.name for view in views] == ["s", "days"]
    here = views[1].unit
    assert here.of(86_400) == 1


# ---- verdicts -------------------------------------------------------------------------------------------------------
RATE = 20.0


def stays(n: int, length: float, kinds: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found: list[int] = []
    while len(found) < n:
        found += [int(rng.integers(kinds))] * (1 + int(rng.exponential(length)))
    return np.array(found[:n])


def made_up(n_trials: int, n: int, told: bool, seed: int) -> Trials:
    """Places that one of two behaviours decides, and labels that name it; or labels of bouts that have nothing to do with it."""
    made = []
    for i in range(n_trials):
        z = stays(n, 60, 2, 100 * seed + i)
        angle = np.pi * z + np.random.default_rng(seed + i).normal(0, 0.2, n)
        y = 3 * np.column_stack([np.cos(angle), np.sin(angle)])
        labels = z if told else stays(n, 60, 2, 7000 + 100 * seed + i)
        made.append(Trial(y.astype(np.float32), RATE, labels=labels.astype(np.int64), name=f"t{i}"))
    return Trials(tuple(made), "made up", ("slow", "fast"))


def rows_of(whole: Trials, smooth: float = 0.0) -> dict[str, cards.Score]:
    train, test = split_trials(whole)
    model = Sketch(n_states=2).fit(train)
    found = bout_scores.measure(model.to_bytes(), train, test, smooth, 0.0)
    lines = bout_scores.baselines(train, test, 2)
    return {row.name: row for row in scores.bout_rows(found | {"lines": lines})}


@pytest.mark.parametrize("seed", range(8))
def test_bouts_that_have_nothing_to_do_with_the_labels_are_never_green(seed):
    for name, row in rows_of(made_up(5, 800, told=False, seed=seed)).items():
        if name != "Explains new trials (R²)" and row.line is not None:
            assert row.verdict != "beats", (name, row)


def test_bouts_that_are_the_labels_stand_against_the_same_bouts_at_other_times():
    row = rows_of(made_up(5, 2000, told=True, seed=1))["Macro-F1"]
    assert row.value > 0.9
    assert "blocks of about" in row.over
    assert row.spread is not None
    assert row.spread < 0.1
    assert row.line < row.value + 0.02
    assert row.verdict in ("beats", "level"), "k-means knows these places as well"


@pytest.mark.parametrize("n", [100, 240, 400])
def test_a_short_recording_carries_no_verdict_and_says_so(n):
    rows = rows_of(made_up(1, n, told=True, seed=2))
    for row in rows.values():
        assert row.spread is None
        if row.line is not None:
            assert row.verdict in ("short", "level")
    assert "too little to say" in cards._row(rows["Explains new trials (R²)"])
    assert rows["Explains new trials (R²)"].over in cards._row(rows["Explains new trials (R²)"])


def test_each_score_of_the_same_trials_is_measured_over_the_same_pieces():
    rows = [row for row in rows_of(made_up(2, 1500, told=True, seed=3)).values() if row.line is not None]
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
