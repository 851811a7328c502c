"""The page Your data as a script: uploading, fitting, replacing and labelling a file."""

import io
import os
import re
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from datasets import tables
from gdm_core import GDM
from gdm_core.analysis import bout_scores
from pages.lab import scores
from pages.lab.upload import file
from pages.lab.upload import table as check
from pages.ui import navigation
from pages.ui.model_controls import make_choice
from tests.support import page
from tests.support.controls import control
from tests.support.drawn import record, verdicts
from tests.support.file_corpus import kind
from tests.support.offered import files, offered, script_of
from tests.support.sliders import sliders
from tests.support.table_files import book
from tests.support.your_data_page import fitted, html, opened, read, upload, uploaded, waves


def turned_away_and_back(app: AppTest) -> AppTest:
    for folder in ("home", "your_data"):
        app.switch_page(str(navigation.info(folder).path)).run()
    return app


# ---- the page -----------------------------------------------------------------------------------------------------
def test_file_is_fitted_on_request_and_not_written_to_disk(engine, tmp_path):
    app = opened()
    assert app.main.get("file_uploader")
    assert offered(app) == set(tables.TEMPLATES)
    app.button(key="example").click().run()
    assert not engine.jobs
    app.button(key="fit").click().run()
    fits = [job for job in engine.jobs if job.name == "fit"]
    assert len(fits) == 1
    assert not fits[0].work.use_cache
    assert verdicts(app)
    control(app, "slider", "K").set_value(4).run()
    assert all(not job.work.use_cache for job in engine.jobs if job.name == "fit")
    assert not [path for path in Path(os.environ["GDM_DATA_DIR"]).rglob("*") if path.is_file()]


@pytest.mark.bulk
def test_example_states_beat_the_baselines(session):
    data = fitted(tables.EXAMPLE, tables.template(tables.EXAMPLE))
    assert (len(data.train), len(data.test)) == (4, 2)
    k, d = data.start
    model = GDM(n_states=k, n_latent=d, seed=0).fit(data.train)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "m.safetensors")
        content = (Path(folder) / "m.safetensors").read_bytes()
    rule = data.expert_rule
    found = bout_scores.scores(content, data.train, data.test, rule.smooth_s, rule.shortest_s)
    rows = scores.bout_rows(found | {"lines": bout_scores.baselines(data.train, data.test, k)})

    first = next(row for row in rows if row.name == "Macro-F1")
    assert first.value > 0.85
    assert first.verdict == "beats"


def test_rate_changes_the_fit(engine):
    app = opened()
    app.button(key="example").click().run()
    app.button(key="fit").click().run()
    control(app, "number_input", "rate").set_value(10.0).run()
    rates = [job.work.trials[0].rate_hz for job in engine.jobs if job.name == "fit"]
    assert rates == pytest.approx([30.0, 10.0], rel=1e-3)


def test_changed_reading_discards_the_earlier_fit(engine):
    fast, slow = (pd.read_csv(io.BytesIO(waves(600, rate))) for rate in (20.0, 10.0))
    app = uploaded("two.xlsx", book(Fast=fast, Slow=slow))
    app.button(key="fit").click().run()
    assert "fit-your_data" in app.session_state
    assert engine.forgotten == []
    control(app, "selectbox", "_sheet").set_value("Slow").run()
    assert "fit-your_data" not in app.session_state
    assert [session for session in engine.forgotten if session.endswith("/your_data")]
    assert not app.button(key="fit").disabled


def last_fit(engine) -> tuple[int, int]:
    config = [job for job in engine.jobs if job.name == "fit"][-1].work.config
    return config["n_states"], config["n_latent"]


def suggested(app: AppTest) -> tuple[int, int]:
    """Return K and D as the page announces them before a fit."""
    found = re.search(r"First guess: K (\d+) .*?, D (\d+)", html(app))
    assert found is not None
    return int(found[1]), int(found[2])


def test_another_file_starts_with_its_own_settings(engine):
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
    assert start not in ((k, d), (k + 2, 1)), "the two files must suggest different values"
    app.button(key="fit").click().run()
    assert last_fit(engine) == start
    assert control(app, "slider", "smooth").value == pytest.approx(0.3)


def test_upload_and_fit_survive_a_visit_to_another_page(engine):
    app = uploaded("first.csv", waves(600, 20.0))
    app.button(key="fit").click().run()
    control(app, "slider", "K").set_value(7).run()
    fits = len(engine.jobs)
    turned_away_and_back(app)
    assert "first.csv" in html(app)
    assert app.session_state["fit-your_data"].poll().status == "fresh"
    assert control(app, "slider", "K").value == 7
    assert [job.name for job in engine.jobs[fits:] if job.name == "fit"] == []
    assert not engine.forgotten
    app.button(key="leave").click().run()
    assert "first.csv" not in html(app)
    assert [session for session in engine.forgotten if session.endswith("/your_data")]


def test_upload_has_no_link(engine):
    app = uploaded("first.csv", waves(600, 20.0))
    (button,) = [one for one in app.button if one.label == "Copy link"]
    assert button.disabled
    assert "report" in button.help


def test_link_reopens_the_example_with_its_settings(engine):
    app = opened()
    app.button(key="example").click().run()
    app.button(key="fit").click().run()
    control(app, "slider", "K").set_value(3).run()
    config = [job for job in engine.jobs if job.name == "fit"][-1].work.config
    link = {"example": app.query_params["example"][0], control(app, "slider", "K").key: "3"}
    there = page.opened("your_data", **link)
    assert [job for job in engine.jobs if job.name == "fit"][-1].work.config == config
    there.button(key="leave").click().run()
    assert "example" not in there.query_params
    assert not [button for button in there.button if button.key == "leave"]


def test_labels_file_stays_until_it_is_removed(engine):
    app = uploaded("deeplabcut.csv", tables.template("deeplabcut.csv"))
    control(app, "file_uploader", "marks").upload("bouts.csv", BOUTS).run()
    app.button(key="fit").click().run()
    turned_away_and_back(app)
    assert "Labels: bouts.csv" in html(app)
    labelled = [job.work.trials for job in engine.jobs if job.name == "fit"][-1]
    assert labelled.label_names == ("rest", "walk")
    app.button(key="no-marks").click().run()
    assert "Labels: bouts.csv" not in html(app)
    assert app.session_state["fit-your_data"].spec.trials.label_names == ()


def test_edits_survive_a_visit_to_another_page(session):
    rows = [{"role": "channel"}, {"role": "time"}]
    assert file.apply_edits("uploaded-e", "memory", rows) == (rows, rows)
    session["uploaded-e"] = {"edited_rows": {0: {"role": "ignore"}}}
    drawn, now = file.apply_edits("uploaded-e", "memory", rows)
    assert drawn == rows, "rows must not change under the editor"
    assert now == [{"role": "ignore"}, {"role": "time"}]
    del session["uploaded-e"]  # as after turning to another page
    drawn, now = file.apply_edits("uploaded-e", "memory", rows)
    assert drawn == now == [{"role": "ignore"}, {"role": "time"}]
    session["uploaded-e"] = {"edited_rows": {1: {"role": "channel"}}}
    assert file.apply_edits("uploaded-e", "memory", rows)[1] == [{"role": "ignore"}, {"role": "channel"}]


def test_tracking_file_after_a_table_has_its_own_controls(engine):
    app = uploaded("first.csv", waves(600, 20.0))
    assert not control(app, "toggle", "outliers").value
    assert "Labels (optional)" not in [one.label for one in app.file_uploader], "labels are a column of the table"
    upload(app, "deeplabcut.csv", tables.template("deeplabcut.csv"))
    assert "Labels (optional)" in [one.label for one in app.file_uploader]
    assert control(app, "toggle", "outliers").value
    assert control(app, "slider", "fill").value == pytest.approx(30)


def test_suggested_value_is_used_until_the_user_sets_one(engine):
    """Without its two noisy position channels the table has fewer dimensions; the user's K stays."""
    place = np.random.default_rng(3).normal(size=(600, 2)).round(4)
    table = pd.read_csv(io.BytesIO(waves(600, 20.0))).assign(x=place[:, 0], y=place[:, 1])
    app = uploaded("place.csv", table.to_csv(index=False).encode())
    app.button(key="fit").click().run()
    k, d = last_fit(engine)
    assert d > 2
    control(app, "slider", "K").set_value(k + 3).run()
    control(app, "toggle", "places").set_value(False).run()
    assert last_fit(engine) == (k + 3, 2)
    app.run()
    assert last_fit(engine) == (k + 3, 2)


BOUTS = b"behaviour,start,stop\nwalk,0,1\nrest,1,2\n"


def test_labels_file_is_read_at_the_chosen_rate(engine):
    app = uploaded("deeplabcut.csv", tables.template("deeplabcut.csv"))
    control(app, "file_uploader", "marks").upload("bouts.csv", BOUTS).run()
    control(app, "number_input", "fps").set_value(25.0).run()
    app.button(key="fit").click().run()
    fitted = next(job.work.trials[0] for job in reversed(engine.jobs) if job.name == "fit")
    assert fitted.rate_hz == 25.0
    found = np.asarray(fitted.labels)  # the first 36 of 60 frames; "walk" is the second label
    np.testing.assert_array_equal(found, np.where(np.arange(36) < 25, 1, 0))


def test_invalid_labels_file_is_named_and_blocks_the_fit(engine):
    app = uploaded("deeplabcut.csv", tables.template("deeplabcut.csv"))
    control(app, "file_uploader", "marks").upload("wrong.csv", b"behaviour,start,stop\nrun,5,2\n").run()
    assert "wrong.csv" in html(app)
    assert "mouse1" in html(app)
    assert app.button(key="fit").disabled


# ---- before a fit --------------------------------------------------------------------------------------------------
def test_labels_are_counted_before_the_fit(engine):
    app = uploaded("deeplabcut.csv", tables.template("deeplabcut.csv"))
    marks = b"behaviour,start,stop\nwalk,0,1\nrest,0.5,1.5\n"
    control(app, "file_uploader", "marks").upload("bouts.csv", marks).run()
    assert "Samples: rest 30, walk 15." in html(app)
    assert not engine.jobs


def test_rare_extremes_are_ignored_by_default(engine):
    table = pd.read_csv(io.BytesIO(waves(3000, 33.0)))
    table.loc[[700, 1500], "c1"] = [1e6, -2e5]
    app = uploaded("spikes.csv", table.to_csv(index=False).encode())
    assert control(app, "toggle", "outliers").value
    assert "Outliers count as missing values" in html(app)
    app.button(key="fit").click().run()
    fitted = [job.work.trials for job in engine.jobs if job.name == "fit"][-1]
    assert max(float(np.nanmax(np.abs(trial.y))) for trial in fitted) < 2
    control(app, "toggle", "outliers").set_value(False).run()
    kept = [job.work.trials for job in engine.jobs if job.name == "fit"][-1]
    assert max(float(np.nanmax(np.abs(trial.y))) for trial in kept) == 1e6


def test_frequent_outliers_and_clean_waves_are_kept_by_default(session):
    table = pd.read_csv(io.BytesIO(waves(600, 20.0)))
    table.loc[5::30, "c1"] = 50.0
    for content in (waves(3000, 8.0), table.to_csv(index=False).encode()):
        file = read("waves.csv", content)
        roles = {name: str(role) for name, role in file.content.roles.items()}
        assert not check.has_few_extremes(file.content, file.content.report(roles))


def test_missing_share_matches_the_report(session):
    rows = "\n".join(f"{i},{'n/a!' if i % 4 == 0 else i * 0.5}" for i in range(100))
    table = read("gaps.csv", f"time,a\n{rows}\n".encode()).content
    found = table.report({**table.roles, "a": "channel"})
    assert check.missing(table.frame["a"]) == pytest.approx(found.channels[0].missing / 100) == pytest.approx(0.25)
    assert check.missing(table.frame["time"]) == 0
    words = read("words.csv", b"time,a,label\n0,1,walk\n1,3,\n2,2,rest\n3,4,rest\n").content
    assert check.missing(words.frame["label"]) == pytest.approx(0.25)


def test_long_recording_is_shown_in_hours(engine, monkeypatch):
    drawn = record(monkeypatch)
    slow = pd.read_csv(io.BytesIO(waves(600, 20.0))).rename(columns={"time": "time (s)"})
    slow["time (s)"] *= 600
    app = uploaded("Night 3.csv", slow.to_csv(index=False).encode())
    assert drawn["first-look"][0]["layout"]["xaxis"]["title"]["text"] == "h"
    app.button(key="fit").click().run()
    for view in ("Bouts/Durations", "Bouts/Proportions", "Prediction/", "Export/"):
        app.session_state["view"], _, app.session_state["bouts"] = view.partition("/")
        app.run()
    titles = {key: figure["layout"]["xaxis"]["title"]["text"] for key, (figure, _) in drawn.items() if key in OVER_TIME}
    assert titles == dict.fromkeys(OVER_TIME, "h")
    assert drawn["dwell-inferred"][0]["layout"]["xaxis"]["title"]["text"] in (
        "dwell time (min, logarithmic)",
        "dwell time (h, logarithmic)",
    )
    names = files(app)
    assert "your_data-night-3-model.safetensors" in names
    assert all(name.startswith("your_data-night-3-") for name in names), names


OVER_TIME = ("first-look", "strips", "proportions", "entropy", "envelope")


def test_recording_without_a_clock_is_shown_in_steps(engine, monkeypatch):
    drawn = record(monkeypatch)
    whole = pd.read_csv(io.BytesIO(waves(600, 20.0))).drop(columns="time")
    app = uploaded("plain.csv", whole.to_csv(index=False).encode())
    app.button(key="fit").click().run()
    assert {"Smoothing (steps)", "Minimum bout duration (steps)"} <= {one.label for one in sliders(app)}
    for view in ("Bouts/Durations", "Bouts/Proportions", "Prediction/", "Export/"):
        app.session_state["view"], _, app.session_state["bouts"] = view.partition("/")
        app.run()
    titles = {key: drawn[key][0]["layout"]["xaxis"]["title"]["text"] for key in OVER_TIME}
    assert titles == dict.fromkeys(OVER_TIME, "step")
    assert "unit='step'" in script_of(app)
    control(app, "number_input", "rate").set_value(10.0).run().run()
    assert {"Smoothing (s)", "Minimum bout duration (s)"} <= {one.label for one in sliders(app)}
    assert "unit='s'" in script_of(app)


def test_share_of_missing_values_is_said(engine):
    table = pd.read_csv(io.BytesIO(waves(600, 20.0)))
    table.loc[100:130, "c1"] = np.nan
    app = uploaded("waves.csv", table.to_csv(index=False).encode())
    assert "2.6% of values are missing; the model estimates them" in html(app)


def test_open_question_keeps_fit_disabled_until_answered(engine):
    table = pd.read_csv(io.BytesIO(waves(600, 20.0)))
    table["time"] = np.arange(600) * 20
    app = uploaded("steps.csv", table.to_csv(index=False).encode())
    assert app.button(key="fit").disabled
    next(box for box in app.selectbox if box.key.startswith("_ask-unit")).set_value("s").run()
    app.button(key="fit").click().run()
    assert [job.work.trials[0].rate_hz for job in engine.jobs if job.name == "fit"] == [pytest.approx(0.05)]
    app.session_state["view"] = "Export"
    app.run()
    assert "answers={'unit': 's'}" in script_of(app)


@pytest.mark.parametrize(
    ("name", "content", "question", "answer", "channels"),
    [
        ("commas.csv", kind("unclear commas, thousands").content, "commas", "decimals", 2),
        ("numbers.csv", kind("wavelengths").content, "header", "names", 3),
        ("arrays.npy", kind("NPY of channels, time").content, "axes", "channels, time", 2),
        ("poses.csv", kind("poses with unknown words").content, "animals", "foo, bar", 19),
    ],
)
def test_answer_about_the_format_reads_the_file_again(engine, name, content, question, answer, channels):
    app = uploaded(name, content)
    assert app.button(key="fit").disabled
    next(box for box in app.selectbox if box.key.startswith(f"_ask-{question}")).set_value(answer).run()
    app.button(key="fit").click().run()
    assert {len(job.work.trials[0].channels) for job in engine.jobs if job.name == "fit"} == {channels}
    app.session_state["view"] = "Export"
    app.run()
    assert f"answers={{'{question}': '{answer}'}}" in script_of(app)


def test_logarithms_of_skewed_channels_are_fitted_when_asked(engine):
    y = np.exp(np.random.default_rng(0).normal(size=(600, 2)))
    app = uploaded("skewed.csv", pd.DataFrame(y, columns=["a", "b"]).to_csv(index=False).encode())
    assert "skewed" in html(app)
    control(app, "toggle", "log").set_value(True).run()
    app.button(key="fit").click().run()
    fitted = [job for job in engine.jobs if job.name == "fit"][-1].work.trials[0]
    assert fitted.channels == ("log a", "log b")


def test_repeats_and_few_values_are_named(engine):
    table = pd.read_csv(io.BytesIO(waves(600, 20.0)))
    table["slow"] = np.repeat(np.random.default_rng(0).standard_normal(60), 10)
    table["pedal"] = np.arange(600) // 37 % 2 + 0.5
    app = uploaded("car.csv", table.to_csv(index=False).encode())
    assert "slow: repeated, 10 samples a value" in html(app)
    assert "pedal: only 2 values" in html(app)
    app.button(key="fit").click().run()
    assert not control(app, "toggle", "repeats").value
    fits = [job.work for job in engine.jobs if job.name == "fit"]
    assert make_choice("gdm", "window", "keep", n_states=3).config["repeats"] == "keep"
    assert "repeats" not in fits[0].config


def test_angles_that_jump_are_fitted_as_they_are_when_asked(engine):
    turn = np.cumsum(np.random.default_rng(0).normal(8, 4, 600))
    content = pd.DataFrame({"time": np.arange(600) / 10, "heading": turn % 360, "speed": np.sin(turn / 90)})
    app = uploaded("turns.csv", content.to_csv(index=False).encode())
    assert "heading: jumps by a full turn" in html(app)
    app.button(key="fit").click().run()
    control(app, "toggle", "angles").set_value(False).run()
    fits = [job.work.trials[0].channels for job in engine.jobs if job.name == "fit"]
    assert [len(channels) for channels in fits] == [3, 2]
    assert fits[-1] == ("heading", "speed")
