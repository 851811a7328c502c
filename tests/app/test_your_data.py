"""Your data: what is understood of a file, what is wrong with one, the fit after a word, and that nothing stays behind."""

from __future__ import annotations

import gc
import io
import os
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import gdm_studio.datasets.splits
import numpy as np
import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from datasets import keypoints, mice, splits, tables
from gdm_core import GDM
from gdm_core.analysis import bout_scores
from gdm_core.errors import DataError, GdmError
from pages.recording import scores
from pages.ui import navigation
from pages.your_data import check, example, intake
from pages.your_data.intake import Opened, TableOptions
from pages.your_data.poses import PoseOptions, from_poses
from tests.support.controls import control
from tests.support.live_engine import ended

EVERY = "Keep each n-th row"
ROOT = Path(__file__).resolve().parents[2]
REPAIRS = {"min_score": 0.3, "fill_seconds": 0.2, "drop_outliers": True}
REPAIRS |= {"undo_side_flips": False, "undo_identity_swaps": False}


def turned_away_and_back(app: AppTest) -> AppTest:
    for folder in ("home", "your_data"):
        app.switch_page(str(navigation.info(folder).path)).run()
        assert not app.exception, app.exception[0].value
    return app


@pytest.fixture
def session(monkeypatch) -> dict:
    """A session's memory, outside of a server."""
    made: dict = {}
    monkeypatch.setattr(st, "session_state", made)
    return made


def opened() -> AppTest:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    app = app.switch_page(str(navigation.info("your_data").path)).run()
    assert not app.exception, app.exception[0].value
    return app


def html(app: AppTest) -> str:
    return " ".join(str(element.value) for element in app.get("html"))


def read(name: str, content: bytes | None = None) -> Opened:
    data = tables.template(name) if content is None else content
    file = io.BytesIO(data)
    return intake.opened(file, name, intake.digest_of(file), lambda share, text: None)


def fitted(name: str, content: bytes | None = None):
    """The data of a file as its columns are guessed."""
    file = read(name, content)
    return intake.from_table(file, TableOptions(tuple((c, str(r)) for c, r in file.content.roles.items())))


# ---- the page -----------------------------------------------------------------------------------------------------
def test_it_says_what_to_do_before_there_is_a_file(engine):
    app = opened()
    assert "tracking file" in html(app)
    assert app.main.get("file_uploader"), "a place to drop a file, in the picture"
    assert not app.sidebar.get("file_uploader")
    assert "written to disk" in html(app)
    assert not engine.jobs
    assert {button.label for button in app.get("download_button")} == {*tables.TEMPLATES, example.NAME}


def test_a_file_is_shown_before_it_is_fitted_and_fitted_on_request_without_being_kept(engine, tmp_path):
    app = opened()
    app.button(key="example").click().run()
    assert not app.exception
    text = html(app)
    assert "30 samples a second" in text
    assert "6 trials of 600 to 600 samples" in text
    assert not engine.jobs
    app.button(key="fit").click().run()
    assert not app.exception
    fits = [job for job in engine.jobs if job.slot == "main"]
    assert len(fits) == 1
    assert not fits[0].work.use_cache
    assert "Macro-F1" in html(app)
    control(app, "slider", "K").set_value(4).run()
    assert not app.exception
    assert all(not job.work.use_cache for job in engine.jobs if job.slot in ("main", "warm"))
    assert not [path for path in Path(os.environ["GDM_DATA_DIR"]).rglob("*") if path.is_file()]


@pytest.mark.slow
def test_the_example_shows_states_that_a_model_finds_and_simpler_lines_do_not(session):
    data = fitted(example.NAME, example.content())
    assert (len(data.train), len(data.test)) == (4, 2)
    k, d = data.start
    model = GDM(n_states=k, n_latent=d, seed=0).fit(data.train)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "m.safetensors")
        content = (Path(folder) / "m.safetensors").read_bytes()
    rule = data.expert_rule
    found = bout_scores.measure(content, data.train, data.test, rule.smooth_s, rule.shortest_s)
    rows = scores.score_rows(found | {"lines": bout_scores.baselines(data.train, data.test, k)})
    print([(row.name, round(row.value, 3), row.line_name, row.line, row.verdict) for row in rows])
    first = next(row for row in rows if row.name == "Macro-F1")
    assert first.value > 0.85
    assert first.verdict == "beats"


def test_other_settings_of_the_file_change_what_is_fitted(engine):
    app = opened()
    app.button(key="example").click().run()
    app.button(key="fit").click().run()
    control(app, "number_input", "rate").set_value(10.0).run()
    assert not app.exception
    rates = [job.work.trials[0].rate_hz for job in engine.jobs if job.slot == "main"]
    assert rates == pytest.approx([30.0, 10.0], rel=1e-3)


def test_a_file_that_is_replaced_is_forgotten_here_and_on_the_workers(engine):
    app = opened()
    app.button(key="example").click().run()
    app.button(key="fit").click().run()
    assert "live-your_data" in app.session_state
    assert engine.forgotten == []
    control(app, "number_input", "_every").set_value(2).run()
    assert not app.exception
    assert "live-your_data" not in app.session_state
    assert [session for session in engine.forgotten if session.endswith("/your_data")]
    assert app.button(key="fit").label == "Fit it", "the new reading is shown before it is fitted"


def test_the_first_fit_after_a_file_was_replaced_runs_to_its_end(engine):
    app = opened()
    app.button(key="example").click().run()
    app.button(key="fit").click().run()
    kept = app.session_state["live-your_data"]  # as a page's last run may hold it until it is collected
    control(app, "number_input", "_every").set_value(2).run()
    engine.auto = False
    app.button(key="fit").click().run()
    (job,) = engine.waiting("main")
    del kept
    gc.collect()
    assert not ended(job)
    engine.run(job)
    app.run()
    assert "The fit was stopped" not in html(app)
    assert "No fit under way" not in html(app)


def waves(n: int, period: float, channels: int = 2, seed: int = 0) -> bytes:
    """A table of noisy waves that turn at two speeds, ten samples a second."""
    noise = np.random.default_rng(seed).normal(0, 0.05, (n, channels))
    phase = np.cumsum(np.where(np.arange(n) // 100 % 2, 2 * np.pi / period, np.pi / period))
    columns = {"time": np.arange(n) / 10}
    columns |= {f"c{j}": np.cos(phase + j) + noise[:, j] for j in range(channels)}
    return pd.DataFrame(columns).round(4).to_csv(index=False).encode()


def last_fit(engine) -> tuple[int, int]:
    config = [job for job in engine.jobs if job.slot == "main"][-1].work.config
    return config["n_states"], config["n_latent"]


def suggested(app: AppTest) -> tuple[int, int]:
    """K and D as the page announces them before a fit."""
    found = re.search(r"To start with: K (\d+) and D (\d+)", html(app))
    assert found is not None
    return int(found[1]), int(found[2])


def test_another_file_starts_as_its_own_data_suggest_and_not_with_settings_left_over(engine):
    app = uploaded("first.csv", waves(600, 20.0))
    app.button(key="fit").click().run()
    k, d = last_fit(engine)
    control(app, "slider", "K").set_value(k + 2)
    control(app, "number_input", "D").set_value(1)
    control(app, "slider", "smooth").set_value(2.0)
    control(app, "toggle", "outliers").set_value(True).run()
    assert last_fit(engine) == (k + 2, 1)
    upload(app, "second.csv", waves(900, 33.0, channels=5, seed=1))
    assert not control(app, "toggle", "outliers").value
    start = suggested(app)
    assert start not in ((k, d), (k + 2, 1)), "the two files have to differ in what they suggest"
    app.button(key="fit").click().run()
    assert last_fit(engine) == start
    assert control(app, "slider", "smooth").value == 0.0


def test_an_upload_and_its_fit_stay_while_another_page_is_looked_at(engine):
    app = uploaded("first.csv", waves(600, 20.0))
    control(app, "number_input", "_every").set_value(2).run()
    app.button(key="fit").click().run()
    control(app, "slider", "K").set_value(7).run()
    fits = len(engine.jobs)
    turned_away_and_back(app)
    assert "first.csv, 300 samples" in html(app)
    assert "Fitted in" in html(app)
    assert control(app, "slider", "K").value == 7
    assert control(app, "number_input", "_every").value == 2
    assert [job.slot for job in engine.jobs[fits:] if job.slot in ("main", "warm")] == []
    assert not engine.forgotten
    app.button(key="leave").click().run()
    assert "first.csv" not in html(app)
    assert [session for session in engine.forgotten if session.endswith("/your_data")]


def test_a_link_is_not_offered_for_a_file_that_cannot_travel_with_it_but_the_report_is(engine):
    app = uploaded("first.csv", waves(600, 20.0))
    assert "A link cannot carry this file" in html(app)
    assert app.button(key="to-report").disabled
    app.button(key="fit").click().run()
    app.button(key="to-report").click().run()
    assert not app.exception, app.exception[0].value
    assert [button for button in app.get("download_button") if button.label == "Report (HTML)"]


def test_a_link_reopens_the_example_as_it_was_fitted(engine):
    app = opened()
    app.button(key="example").click().run()
    assert "A link cannot carry" not in html(app)
    app.button(key="fit").click().run()
    control(app, "slider", "K").set_value(3).run()
    config = [job for job in engine.jobs if job.slot == "main"][-1].work.config
    there = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    there.query_params["example"] = app.query_params["example"][0]
    there.query_params[control(app, "slider", "K").key] = "3"
    there = there.switch_page(str(navigation.info("your_data").path)).run()
    assert not there.exception, there.exception[0].value
    assert [job for job in engine.jobs if job.slot == "main"][-1].work.config == config
    there.button(key="leave").click().run()
    assert "example" not in there.query_params
    assert not [button for button in there.button if button.key == "leave"]


def test_labels_beside_a_recording_stay_too_until_they_are_left_out(engine):
    app = uploaded("deeplabcut.csv", tables.template("deeplabcut.csv"))
    app.file_uploader(key="marks").upload("bouts.csv", ANNOTATIONS["bouts.csv"]).run()
    app.button(key="fit").click().run()
    turned_away_and_back(app)
    assert "Labels: bouts.csv" in html(app)
    labelled = [job.work.trials for job in engine.jobs if job.slot == "main"][-1]
    assert labelled.label_names == ("rest", "walk")
    app.button(key="no-marks").click().run()
    assert "Labels: bouts.csv" not in html(app)
    assert app.session_state["live-your_data"]._wanted.train.label_names == ()


def test_what_was_changed_in_an_editor_outlives_it(session):
    rows = [{"role": "channel"}, {"role": "time"}]
    assert intake.edited("your-data-e", rows) == (rows, rows)
    session["your-data-e"] = {"edited_rows": {0: {"role": "ignore"}}}
    drawn, now = intake.edited("your-data-e", rows)
    assert drawn == rows, "what is edited must not change under the editor"
    assert now == [{"role": "ignore"}, {"role": "time"}]
    del session["your-data-e"]  # another page was looked at
    drawn, now = intake.edited("your-data-e", rows)
    assert drawn == now == [{"role": "ignore"}, {"role": "time"}]
    session["your-data-e"] = {"edited_rows": {1: {"role": "channel"}}}
    assert intake.edited("your-data-e", rows)[1] == [{"role": "ignore"}, {"role": "channel"}]


def test_a_tracking_file_after_a_table_has_its_own_repairs(engine):
    app = uploaded("first.csv", waves(600, 20.0))
    assert not control(app, "toggle", "outliers").value
    upload(app, "deeplabcut.csv", tables.template("deeplabcut.csv"))
    assert control(app, "toggle", "outliers").value
    assert control(app, "slider", "fill").value == pytest.approx(0.2)


def test_what_is_suggested_is_followed_until_a_visitor_sets_it(engine):
    """Without its positions, two channels of noise, the table has fewer dimensions; a K of the visitor's own stays."""
    place = np.random.default_rng(3).normal(size=(600, 2)).round(4)
    table = pd.read_csv(io.BytesIO(waves(600, 20.0))).assign(x=place[:, 0], y=place[:, 1])
    app = uploaded("place.csv", table.to_csv(index=False).encode())
    app.button(key="fit").click().run()
    k, d = last_fit(engine)
    assert d > 2
    control(app, "slider", "K").set_value(k + 3).run()
    control(app, "toggle", "places").set_value(False).run()
    assert not app.exception, app.exception[0].value
    assert last_fit(engine) == (k + 3, 2)
    app.run()
    assert last_fit(engine) == (k + 3, 2)


def uploaded(name: str, content: bytes) -> AppTest:
    return upload(opened(), name, content)


def upload(app: AppTest, name: str, content: bytes) -> AppTest:
    """Put a file in place of the one that is there."""
    app.file_uploader(key="upload").set_value((name, content, "application/octet-stream")).run()
    assert not app.exception, app.exception[0].value
    return app


ANNOTATIONS = {
    "bouts.csv": b"behaviour,start,stop\nwalk,0,1\nrest,1,2\n",
    "frames.csv": b"label\n" + b"walk\n" * 30 + b"rest\n" * 30,
    "marks.annot": b"Caltech Behavior Annotator - Annotation File\n\nS1: start end type\n----\n 1 30 walk\n 31 60 rest\n",
}


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_labels_beside_a_tracking_file_are_read_at_the_rate_on_the_page(engine, name):
    app = uploaded("deeplabcut.csv", tables.template("deeplabcut.csv"))
    app.file_uploader(key="marks").upload(name, ANNOTATIONS[name]).run()
    assert not app.exception, app.exception[0].value
    control(app, "number_input", "fps").set_value(25.0).run()
    app.button(key="fit").click().run()
    assert not app.exception, app.exception[0].value
    fitted = next(job.work.trials[0] for job in reversed(engine.jobs) if job.slot == "main")
    assert fitted.rate_hz == 25.0
    found = np.asarray(fitted.labels)  # the first 36 of 60 frames; walk is the second word by the alphabet
    change = 25 if name == "bouts.csv" else 30
    np.testing.assert_array_equal(found, np.where(np.arange(36) < change, 1, 0))


def test_labels_that_cannot_be_read_are_named_and_nothing_else_is_lost(engine):
    app = uploaded("deeplabcut.csv", tables.template("deeplabcut.csv"))
    app.file_uploader(key="marks").upload("wrong.csv", b"behaviour,start,stop\nrun,5,2\n").run()
    assert not app.exception
    assert "wrong.csv" in html(app)
    assert "mouse1" in html(app)
    assert app.button(key="fit").disabled


def test_controls_that_would_do_nothing_are_not_there(engine):
    app = uploaded("deeplabcut.csv", tables.template("deeplabcut.csv"))
    assert EVERY not in [one.label for one in app.number_input]
    assert len(app.file_uploader) == 2
    app = uploaded("table.csv", tables.template("table.csv"))
    assert EVERY in [one.label for one in app.number_input]
    assert len(app.file_uploader) == 1, "labels of a table are a column of it"


# ---- files --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [name for name in tables.TEMPLATES if name != "deeplabcut.csv"])
def test_each_template_is_understood_and_its_script_makes_the_same_trials(name, session, tmp_path, monkeypatch):
    file = read(name)
    assert not file.tracked
    options = TableOptions(tuple((column, str(role)) for column, role in file.content.roles.items()), fill_seconds=0.1)
    data = intake.from_table(file, options)
    assert data.label_names == ("fast", "slow")
    (tmp_path / name).write_bytes(tables.template(name))
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    exec("\n".join([*data.recipe.imports, *data.recipe.lines]), space)
    for ours, theirs in ((data.train, space["train"]), (data.test, space["test"])):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a.y, b.y)
            assert a.rate_hz == b.rate_hz


def test_a_tracking_file_becomes_features_with_its_labels(session):
    file = read("deeplabcut.csv")
    assert file.tracked
    options = PoseOptions(30.0, "egocentric", tuple(REPAIRS.items()))
    labels = keypoints.Annotation(np.repeat([0, 1], 30), ("walk", "rest"))
    data = from_poses(file, options, labels)
    assert data.label_names == ("walk", "rest")
    assert data.train.n_samples + data.test.n_samples == 60
    assert len(data.poses) == 2
    assert from_poses(file, options).key != data.key


def test_channels_that_a_fit_cannot_use_are_left_out_in_the_script_too(session, tmp_path, monkeypatch):
    rows = "\n".join(f"{t},{np.sin(t):.4f},{5 if t < 70 else t}" for t in range(100))
    content = f"time,a,late\n{rows}\n".encode()
    file = read("late.csv", content)
    data = intake.from_table(file, TableOptions(tuple((c, str(r)) for c, r in file.content.roles.items())))
    assert data.train[0].channels == ("a",)
    assert any("late" in note for note in data.notes)
    (tmp_path / "late.csv").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    exec("\n".join([*data.recipe.imports, *data.recipe.lines]), space)
    np.testing.assert_array_equal(space["test"][0].y, data.test[0].y)


def test_a_script_holds_out_what_the_page_does_whatever_share_that_is(session, tmp_path, monkeypatch):
    for module in (splits, gdm_studio.datasets.splits):  # the loaders under both of their names
        monkeypatch.setattr(module, "HELD_OUT", 0.25)
    monkeypatch.chdir(tmp_path)
    long = waves(200, 20.0)
    poses = read("deeplabcut.csv")
    made = [fitted("waves.csv", long), from_poses(poses, PoseOptions(30.0, "keypoints", tuple(REPAIRS.items())))]
    (tmp_path / "waves.csv").write_bytes(long)
    (tmp_path / "deeplabcut.csv").write_bytes(tables.template("deeplabcut.csv"))
    for data, samples in zip(made, (200, 60), strict=True):
        space: dict = {}
        exec("\n".join([*data.recipe.imports, *data.recipe.lines]), space)
        sizes = [sum(trial.n_samples for trial in side) for side in (space["train"], space["test"])]
        assert sizes == [data.train.n_samples, data.test.n_samples] == [0.75 * samples, 0.25 * samples]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", b""),
        ("words.csv", b"a,b\nx,y\nz,w\n"),
        ("no.h5", b"not an hdf5 file"),
        ("no.npz", b"PK\x03\x04 broken"),
        ("no.parquet", b"PAR1"),
        ("no.xlsx", b"PK\x05\x06" + bytes(18)),
        ("what.exe", b"MZ"),
    ],
)
def test_a_bad_file_says_what_is_wrong_and_the_one_before_stays(name, content, session):
    good = read("table.csv")
    with pytest.raises(GdmError) as trouble:
        fitted(name, content)
    assert len(str(trouble.value)) > 15
    assert read("table.csv").content.frame.equals(good.content.frame)


def test_a_file_is_read_once_and_forgotten_when_it_is_taken_away(session):
    first = read("table.csv")
    assert read("table.csv") is first
    made = intake.remembered("k", lambda: "made")  # type: ignore[arg-type,return-value]
    assert made == "made"
    assert intake.remembered("k", lambda: "again") == "made"  # type: ignore[arg-type,return-value]
    intake.forget()
    assert not session


def test_roles_are_those_of_the_editor(session):
    file = read("table.csv")
    assert check.edited_roles(file)["channel 2"] == "channel"
    row = list(file.content.roles).index("channel 2")
    session[f"your-data-roles-{file.digest}"] = {"edited_rows": {row: {"role": "ignore"}}}
    roles = check.edited_roles(file)
    assert roles["channel 2"] == "ignore"
    data = intake.from_table(file, TableOptions(tuple(roles.items())))
    assert data.train[0].channels == ("channel 1",)


def test_roles_that_contradict_each_other_are_refused_with_their_names(session):
    file = read("table.csv")
    roles = check.edited_roles(file) | {"channel 1": "time"}
    with pytest.raises(GdmError, match="channel 1"):
        intake.from_table(file, TableOptions(tuple(roles.items())))


def test_a_recording_too_short_to_split_is_refused(session):
    table = mice.simulate_recordings(1, 20, seed=0)[0]
    file = Opened("short.npz", "d", replace(table, name="short"))
    with pytest.raises(DataError, match="at least 40"):
        from_poses(file, PoseOptions(30.0, "keypoints", tuple(REPAIRS.items())))


def test_the_first_look_draws_gaps_and_flat_channels():
    y = np.column_stack([np.arange(5000.0), np.full(5000, 2.0), np.full(5000, np.nan)])
    figure = check.lines(y, ["up", "flat", "empty"])
    assert len(figure["data"]) == 2
    assert "up, flat, empty" in figure["alt"]


# ---- before a fit --------------------------------------------------------------------------------------------------
def test_labels_are_shown_before_a_fit_with_their_counts_and_what_was_left_out(engine):
    app = uploaded("deeplabcut.csv", tables.template("deeplabcut.csv"))
    assert "have a label" not in html(app)
    marks = b"behaviour,start,stop\nwalk,0,1\nrest,0.5,1.5\n"
    app.file_uploader(key="marks").upload("bouts.csv", marks).run()
    assert not app.exception, app.exception[0].value
    assert "75 % of 60 samples have a label" in html(app)
    assert "1 bouts begin before another one ends" in html(app)
    shown = next(frame.value for frame in app.dataframe if "behaviour" in frame.value)
    assert list(shown["behaviour"]) == ["rest", "walk"]
    assert list(shown["samples"]) == [30, 15]
    assert list(shown["bouts"]) == [1, 1]
    assert not engine.jobs


def test_the_label_column_of_a_table_is_shown_before_a_fit_too(engine):
    app = uploaded(example.NAME, example.content())
    assert "100 % of 3,600 samples have a label" in html(app)


def test_without_a_clock_the_page_says_what_it_counts_and_the_first_look_has_time_where_there_is_one(engine):
    plain = pd.read_csv(io.BytesIO(waves(600, 20.0))).drop(columns="time").to_csv(index=False).encode()
    app = uploaded("plain.csv", plain)
    assert "a sample counts as a second" in html(app)
    control(app, "number_input", "rate").set_value(10.0).run()
    assert "a sample counts as a second" not in html(app)
    y = np.zeros((50, 1))
    assert check.lines(y, ["a"])["layout"]["xaxis"]["title"]["text"] == "row"
    assert check.lines(y, ["a"], 10.0)["layout"]["xaxis"]["title"]["text"] == "s"


def test_what_is_missing_is_the_same_in_the_table_and_in_the_words_beside_it(session):
    rows = "\n".join(f"{i},{'n/a!' if i % 4 == 0 else i * 0.5}" for i in range(100))
    table = read("gaps.csv", f"time,a\n{rows}\n".encode()).content
    found = table.report({**table.roles, "a": "channel"})
    assert check.missing(table, "a") == pytest.approx(found.channels[0].missing / 100) == pytest.approx(0.25)
    assert check.missing(table, "time") == 0
    words = read("words.csv", b"time,a,label\n0,1,walk\n1,2,\n2,3,rest\n3,4,rest\n").content
    assert check.missing(words, "label") == pytest.approx(0.25)
